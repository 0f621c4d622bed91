"""What crosses between a deployment and its decomposer: the items, the goal, the scopes, the split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One input: a value as JSON has them, and its share of the work, in whatever unit all items of a goal share."""

    id: str
    value: Any
    weight: float = 1.0


class Mind(Protocol):
    """A model that can be asked one question at a time."""

    def answer(self, question: str) -> str:
        """What it says, whole. Raises FleetError if it cannot be asked or says nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is to be taken apart: an instruction, the items that it holds for (none: the instruction itself), into how many
    parts.

    `depth` is how many levels a hierarchical split may have, `mind` the model to ask, if there is one, and
    `tools` and `tiers`, the cheapest first, the names that a scope may ask for.
    """

    instruction: str
    items: tuple[Item, ...] = ()
    parts: int = 1
    depth: int = 1
    mind: Mind | None = None
    tools: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One part: the ids of the items that it alone works on.

    `instruction` says more than that of the goal; `touches` are paths that it may write, `tools` what it needs, by name, and
    `tier` how able its model has to be.
    """

    items: tuple[str, ...]
    title: str = ""
    instruction: str = ""
    touches: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tier: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A goal taken apart. `items` are those that the decomposer itself has found, where the goal had none; `notes` say what a
    person should know of how it was done.
    """

    scopes: tuple[Scope, ...]
    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()
