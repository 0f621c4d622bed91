"""Which pools of accounts the waiting tasks wish for."""

from __future__ import annotations

from agent_fleet.queue.claim import Wanted
from agent_fleet.queue.store import Queue

_READ = 2000  # bodies that one look reads; the others are read at the next


class Pools:
    """The wishes of the tasks of one queue. What a task wishes for never changes, so each is read once."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._known: dict[str, str] = {}

    def of(self, task: str, path: str) -> str | None:
        """What the task whose file is at `path` wishes for, empty for no pool; None if the file is gone or cannot be read."""
        if task not in self._known:
            body = self._queue.body(path, task)
            if body is None:
                return None
            self._known[task] = str(body.get("pool", ""))
        return self._known[task]

    def wished(self, wanted: Wanted) -> set[str]:
        """All the wishes among the waiting tasks of these tracks."""
        found: set[str] = set()
        left = _READ
        for parsed, track in self._queue.tracks():
            if not wanted(*parsed):
                continue
            for task, _, _, path in self._queue.in_track(track):
                if task not in self._known:
                    if not left:
                        continue
                    left -= 1
                wish = self.of(task, path)
                found |= set() if wish is None else {wish}
        return found
