"""What crews did, read from the journal as it grows: which tasks they claimed, and what became of each."""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

from agent_fleet import journal
from agent_fleet.queue import names
from agent_fleet.queue.store import Queue

_TELLING = re.compile(rb'"(?:claimed|finished)"')


class Deed(NamedTuple):
    """One task that a crew has reported: the lease, the state it is in by that, and what the journal says of it."""

    worker: str
    task: str
    generation: int
    state: str
    told: dict[str, Any]


class Deeds:
    """Follows the claims that were made from within workers' trees. `moved` counts, by worker, the tasks that were reported."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._path = queue.journal.path
        self._offset = 0
        self._claims: dict[tuple[str, int], str] = {}
        self.claimed: dict[str, int] = {}
        self.moved: dict[str, int] = {}
        try:
            self._before = os.stat(self._path).st_size
        except FileNotFoundError:
            self._before = 0

    @property
    def tasks(self) -> set[str]:
        """Every task that a crew has claimed."""
        return {task for task, _ in self._claims}

    def holding(self) -> dict[str, list[str]]:
        """The tasks that each worker holds now by claims of its own."""
        found: dict[str, list[str]] = {}
        for task, generation, _, _, _ in self._queue.active():
            worker = self._claims.get((task, generation))
            if worker is not None:
                found.setdefault(worker, []).append(task)
        return found

    def new(self) -> list[Deed]:
        """What was reported since the last call; nothing of what was reported before this object was made."""
        found = []
        for end, line in journal.follow(self._path, self._offset):
            self._offset = end
            deed = self._read(line) if _TELLING.search(line) else None
            if deed is not None and end > self._before:
                found.append(deed)
        return found

    def _read(self, line: bytes) -> Deed | None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return None  # torn by a crash; `fleet verify` names it
        task, generation = (event.get("task"), event.get("gen")) if isinstance(event, dict) else (None, None)
        if not isinstance(task, str) or not isinstance(generation, int):
            return None
        if event.get("event") == "claimed":
            worker = event.get("worker")
            if isinstance(worker, str) and worker:
                self._claims[task, generation] = worker
                self.claimed[worker] = self.claimed.get(worker, 0) + 1
            return None
        worker, state = self._claims.get((task, generation)), event.get("to")
        if event.get("event") != "finished" or worker is None or state not in names.SETTLED:
            return None
        self.moved[worker] = self.moved.get(worker, 0) + 1
        return Deed(worker, task, generation, str(state), event)
