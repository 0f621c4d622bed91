"""Agents over an API: one process in the background for many of them, where the provider can do that."""

from __future__ import annotations

from collections.abc import Iterable

from agent_fleet.api import Config, Lane, hookimpl
from agent_fleet_lanes._detached import Detached


class Api(Detached):
    """A detached process for each crew, which has so many agents as it has seats.

    A provider without such processes has its tasks dispatched here one by one, as in headless. Under a ceiling of money there is
    one process at a time: what its calls may cost is known to it alone.
    """

    def __init__(self, seats: int, *, alone: bool = False) -> None:
        super().__init__("api", limit=seats if alone else None)
        self.seats = seats


@hookimpl
def fleet_lanes(config: Config) -> Iterable[Lane]:
    alone = bool(config.get("budget.run_money") or config.get("budget.day_money"))
    yield Api(config.get("api.seats"), alone=alone)
