"""Workers that are detached processes: no terminal, output in a log, alive after `fleet run` has gone."""

from __future__ import annotations

import os
from collections.abc import Iterable

from agent_fleet.api import Lane, Launch, Worker, hookimpl, is_alive, start_detached, stop_tree


class Headless:
    """A detached process for each worker, as many as the machine takes."""

    name = "headless"
    limit: int | None = None
    foreground = False

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
    yield Headless()
