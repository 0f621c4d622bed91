"""Rows of the same country go to one agent."""

from __future__ import annotations

from collections.abc import Iterable

from agent_fleet.api import Decomposer, FleetError, Goal, Scope, Split, hookimpl


class Countries:
    name = "countries"

    def usable(self) -> str | None:
        return None

    def decompose(self, goal: Goal) -> Split:
        groups: dict[str, list[str]] = {}
        for item in goal.items:
            if not isinstance(item.value, dict):
                raise FleetError("bad_input", f"{item.id} is no row", hint="give a CSV file")
            groups.setdefault(str(item.value.get("country")), []).append(item.id)
        return Split(scopes=tuple(Scope(items=tuple(ids), title=name) for name, ids in groups.items()))


@hookimpl
def fleet_decomposers() -> Iterable[Decomposer]:
    yield Countries()
