"""Runs each worker at the lowest CPU priority."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace

from agent_fleet.api import Lane, Launch, Worker, hookimpl, is_alive, start_detached, stop_tree


class Nice:
    name = "nice"
    limit: int | None = None
    foreground = False

    def usable(self) -> str | None:
        return None if shutil.which("nice") else "there is no program nice on the path"

    def start(self, launch: Launch) -> Worker:
        return start_detached(replace(launch, argv=("nice", "-n", "19", *launch.argv)), lane=self.name)

    def alive(self, worker: Worker) -> bool | None:
        return is_alive(worker.identity)

    def stop(self, worker: Worker, grace: float) -> bool:
        return stop_tree(worker.identity, worker.handle, grace)


@hookimpl
def fleet_lanes() -> Iterable[Lane]:
    yield Nice()
