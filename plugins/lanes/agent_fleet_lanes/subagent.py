"""Workers that are subagents of one session: one process in the background for several tasks, where the provider can do that."""

from __future__ import annotations

from collections.abc import Iterable

from agent_fleet.api import Config, Lane, hookimpl
from agent_fleet_lanes._detached import Detached


class Subagent(Detached):
    """A detached process for each session, which starts so many subagents as it has seats.

    A provider without such sessions has its tasks dispatched here one by one, as in headless.
    """

    def __init__(self, seats: int) -> None:
        super().__init__("subagent")
        self.seats = seats


@hookimpl
def fleet_lanes(config: Config) -> Iterable[Lane]:
    yield Subagent(config.get("subagent.seats"))
