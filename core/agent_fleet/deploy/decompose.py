"""Taking a goal apart by a decomposer, and proving that what came of it is a partition."""

from __future__ import annotations

from typing import NamedTuple

from agent_fleet.deploy.proof import proven
from agent_fleet.deploy.values import Goal, Item, Scope
from agent_fleet.errors import FleetError
from agent_fleet.plugins import DECOMPOSERS, Plugins
from agent_fleet.protocols import Decomposer


class Parts(NamedTuple):
    """The items and the scopes that partition them, and what a person should know of how that was done."""

    items: tuple[Item, ...]
    scopes: tuple[Scope, ...]
    notes: tuple[str, ...]


def decompose(plugins: Plugins, by: str | Decomposer, goal: Goal) -> Parts:
    """The parts of a goal by a decomposer, or the one of that name. Raises FleetError; `plugin_broken` for a split that is none."""
    if not isinstance(by, str):
        split = by.decompose(goal)
        return Parts(*proven(goal, split, by=by.name), tuple(split.notes))
    name = by
    offer = plugins.offer(DECOMPOSERS, name)
    trouble = plugins.ask(offer, lambda decomposer: decomposer.usable())
    if trouble:
        raise FleetError("unusable", f"decomposer {name}: {trouble}", hint="`fleet plugins` lists the decomposers")
    split = plugins.ask(offer, lambda decomposer: decomposer.decompose(goal))
    items, scopes = proven(goal, split, by=name)
    return Parts(items, scopes, tuple(split.notes))
