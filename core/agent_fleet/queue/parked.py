"""What waits for a person: blocked tasks with the wall that each met, and which of them one answer lets go on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from agent_fleet import walls
from agent_fleet.queue import board, records
from agent_fleet.queue.store import Queue
from agent_fleet.walls import Wall


class Parked(NamedTuple):
    """One blocked task, the lease under which it was parked, and the outcome of that lease."""

    task: str
    generation: int
    title: str
    wall: Wall
    record: dict[str, Any]


class Group(NamedTuple):
    """Tasks behind one wall, oldest first."""

    wall: Wall
    tasks: tuple[Parked, ...]


def parked(queue: Queue, most: int | None = None) -> tuple[list[Parked], int]:
    """The blocked tasks, at most `most` of them, and how many more there are. Only those that are handed out are read."""
    found = []
    listed = queue.settled("blocked")
    for task, generation, path in itertools.islice(listed, most):
        body = queue.body(path, task)
        if body is None:
            continue
        record = records.outcome(queue, task, generation) or {}
        wall = walls.parse(str(record.get("reason") or "no reason was recorded"), str(body.get("host") or ""))
        found.append(Parked(task, generation, str(body.get("title") or body["target"]), wall, record))
    left = 0 if most is None else max(0, board.count(queue, "blocked") - most)
    return found, left


def groups(found: Iterable[Parked]) -> list[Group]:
    """The same by wall, the wall that stops most tasks first."""
    behind: dict[str, list[Parked]] = {}
    for each in found:
        behind.setdefault(each.wall.key, []).append(each)
    made = [Group(tasks[0].wall, tuple(tasks)) for tasks in behind.values()]
    return sorted(made, key=lambda group: (-len(group.tasks), group.wall.key))
