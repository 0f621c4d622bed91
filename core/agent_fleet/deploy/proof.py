"""The proof that a split is one: its scopes are pairwise disjoint, and together they are the input. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent_fleet.deploy.values import Goal, Item, Scope, Split
from agent_fleet.errors import FleetError

_NAMED = 5


def proven(goal: Goal, split: Split, *, by: str) -> tuple[tuple[Item, ...], tuple[Scope, ...]]:
    """The items and scopes of a split. Raises `plugin_broken`, naming the decomposer `by`, if an item is in no scope or in two.

    A decomposer may bring items only where the goal has none.
    """
    if goal.items and split.items:
        raise _broken(by, "brought items of its own although the input has some", ())
    items = goal.items or split.items
    fault, named = fault_of(items, split.scopes)
    if fault:
        raise _broken(by, fault, named)
    return items, split.scopes


def fault_of(items: Sequence[Item], scopes: Sequence[Scope]) -> tuple[str, tuple[str, ...]]:
    """What keeps these scopes from being a partition of the items, and the ids concerned; an empty text if nothing does."""
    known = {item.id for item in items}
    if len(known) != len(items):
        return "gave two items one id", ()
    seen: set[str] = set()
    twice: dict[str, None] = {}
    strange: dict[str, None] = {}
    for scope in scopes:
        if not scope.items:
            return "made a part without an item", ()
        for item in scope.items:
            if item not in known:
                strange[item] = None
            if item in seen:
                twice[item] = None
            seen.add(item)
    missing = [item.id for item in items if item.id not in seen]
    for fault, found in (
        ("put items into two parts", [*twice]),
        ("left items out", missing),
        ("named items that there are not", [*strange]),
    ):
        if found:
            return fault, tuple(found[:_NAMED])
    return "", ()


def _broken(by: str, fault: str, named: tuple[str, ...]) -> FleetError:
    which = f": {', '.join(named)}" if named else ""
    return FleetError(
        "plugin_broken",
        f"the decomposer {by} {fault}{which}",
        hint="choose another with --decompose; `fleet plugins` lists them",
    )
