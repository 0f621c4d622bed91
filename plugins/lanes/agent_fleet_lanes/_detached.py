"""Detached processes: no terminal, output in a log, alive after `fleet run` has gone. What the plain lanes share."""

from __future__ import annotations

import os

from agent_fleet.api import Launch, Worker, is_alive, start_detached, stop_tree


class Detached:
    """A lane of plain processes, at most `limit` at once (None: what the machine takes); in the foreground a person follows."""

    def __init__(self, name: str, *, limit: int | None = None, foreground: bool = False) -> None:
        self.name = name
        self.limit = limit
        self.foreground = foreground

    def usable(self) -> str | None:
        return None if os.name == "posix" else "it needs Linux or macOS"

    def start(self, launch: Launch) -> Worker:
        return start_detached(launch, lane=self.name)

    def alive(self, worker: Worker) -> bool | None:
        return is_alive(worker.identity)

    def stop(self, worker: Worker, grace: float) -> bool:
        return stop_tree(worker.identity, worker.handle, grace)
