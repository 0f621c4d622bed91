"""Agents over an API: one process in the background for many of them, where the provider can do that."""

from __future__ import annotations

from collections.abc import Iterable

from agent_fleet.api import Config, Lane, hookimpl
from agent_fleet_lanes._detached import Detached


class Api(Detached):
    """A detached process for each crew, which has so many agents as it has seats.

    A provider without such processes has its tasks dispatched here one by one, as in headless.
    """

    def __init__(self, seats: int) -> None:
        super().__init__("api")
        self.seats = seats


@hookimpl
def fleet_lanes(config: Config) -> Iterable[Lane]:
    yield Api(config.get("api.seats"))
