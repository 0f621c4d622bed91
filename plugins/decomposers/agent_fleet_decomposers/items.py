"""Items in the order in which they came, the same weight in each part."""

from __future__ import annotations

from collections.abc import Iterable

from agent_fleet.api import Decomposer, FleetError, Goal, Scope, Split, balanced, hookimpl


class Items:
    """Lines, addresses, rows: each is independent of its neighbours."""

    name = "items"

    def usable(self) -> str | None:
        return None

    def decompose(self, goal: Goal) -> Split:
        """Parts of neighbours. Raises `bad_input` for a goal without items."""
        if not goal.items:
            raise FleetError("bad_input", "there are no items to take apart", hint="name them with --inputs FILE")
        pieces = balanced([item.weight for item in goal.items], goal.parts)
        return Split(scopes=tuple(Scope(items=tuple(goal.items[at].id for at in piece)) for piece in pieces))


@hookimpl
def fleet_decomposers() -> Iterable[Decomposer]:
    yield Items()
