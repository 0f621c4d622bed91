"""Workers that run one at a time, for a person who follows each in the session that started it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from agent_fleet.api import Lane, Launch, Worker, hookimpl, is_alive, start_detached, stop_tree


class Serial:
    """One detached process at a time, whose output the person sees as it comes.

    The process is detached here too, so that it outlives the session; it is the limit and the output that differ.
    """

    name = "serial"
    limit: int | None = 1
    foreground = True

    def usable(self) -> str | None:
        return None if os.name == "posix" else "it needs Linux or macOS"

    def start(self, launch: Launch) -> Worker:
        return start_detached(launch, lane=self.name)

    def alive(self, worker: Worker) -> bool | None:
        return is_alive(worker.identity)

    def stop(self, worker: Worker, grace: float) -> bool:
        return stop_tree(worker.identity, worker.handle, grace)


@hookimpl
def fleet_lanes() -> Iterable[Lane]:
    yield Serial()
