"""No more than two workers by day, and nothing that publishes."""

from __future__ import annotations

import time
from collections.abc import Iterable

from agent_fleet.api import Board, Ceiling, Hold, Policy, Task, hookimpl


class Daytime:
    name = "daytime"

    def ceiling(self, board: Board) -> Ceiling | None:
        hour = time.localtime(board.now).tm_hour
        if not 9 <= hour < 18:
            return None
        return Ceiling(name="daytime", workers=2, source=self.name, why="people work on this machine from 9 to 18")

    def hold(self, task: Task, board: Board) -> Hold | None:
        del board
        return Hold(source=self.name, why="a person publishes") if task.kind == "publish" else None


@hookimpl
def fleet_policies() -> Iterable[Policy]:
    yield Daytime()
