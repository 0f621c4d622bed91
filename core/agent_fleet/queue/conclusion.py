"""How leases end: what came of them is on record, durably, before any of the tasks moves; many end for the price of one.

Every step is made for all of them before the next one begins, so that each kind of thing is synced once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agent_fleet.errors import FleetError
from agent_fleet.queue import lease, records
from agent_fleet.queue.files import drop_draft, sync_all, sync_directory, sync_file
from agent_fleet.queue.lock import LeaseLocks
from agent_fleet.queue.store import Place, Queue

_TOLD = ("outcome", "reason", "charged", "forced", "usage", "run", "worker", "lane", "provider")

Fate = Place | FleetError | OSError
"""Where a task is now, or why its lease did not end as it was to."""


class Ending(NamedTuple):
    """What is to become of one lease: an outcome, and the state (`done`, `blocked`, `failed`, `inbox`) of its task.

    `place` must be that of the caller's own lease; its generation and owner are in the name that is renamed. `body` is that of
    the task, which never changes, as its holder read it with the claim; None: it is read anew.
    """

    task: str
    place: Place
    state: str
    record: dict[str, Any]
    holder: lease.Owner | None
    body: Mapping[str, Any] | None = None


def conclude(queue: Queue, endings: Sequence[Ending]) -> list[Fate]:
    """Put outcomes on record and move the tasks; returns what became of each, in the order of `endings`.

    A place means that all of it is on disk. An error concerns its own task alone: `lease_lost` if somebody else has it, with
    the record kept beside the truth; `busy` or OSError if it stayed where it was, without a record.
    """
    ends = [_End(queue, ending) for ending in endings]
    with LeaseLocks(queue.path("active")) as locks:
        try:
            # in one order, so that no two of us wait for each other
            left = _each(sorted(ends, key=lambda end: end.ending.place.path), lambda end: end.write(locks))
            left = _synced(queue, left, {end.written for end in left}, sync_file)
            left = _each(left, _End.register)
            left = _synced(queue, left, {os.path.dirname(end.path) for end in left}, sync_directory)
            moved = _each(left, _End.move)
        finally:
            for end in ends:
                end.tidy()
    settled = [end for end in moved if end.ending.state != "inbox"]
    _synced(queue, settled, {os.path.dirname(end.target) for end in settled}, sync_directory)
    if moved:
        queue.tell_all([end.told() for end in moved])
    return [end.fate() for end in ends]


class _End:
    """One lease on its way through the steps. `fault` is what ended it early; `written` must go again if it gets no further."""

    __slots__ = ("_late", "_queue", "ending", "fault", "path", "record", "target", "written")

    def __init__(self, queue: Queue, ending: Ending) -> None:
        self._queue = queue
        self._late = False
        self.ending = ending
        self.fault: FleetError | OSError | None = None
        self.path = records.outcome_path(queue, ending.task, ending.place.generation)
        self.target = self.written = ""
        holder = ending.holder
        self.record = {
            "task": ending.task,
            "state": ending.state,
            "ended": round(time.time(), 3),
            "agent": holder.agent if holder else None,
            **_of_the_run(holder),
            **ending.record,
        }

    def write(self, locks: LeaseLocks) -> None:
        task, place, state, _, _, body = self.ending
        if body is None:
            body = self._queue.body(place.path, task)
        locks.take(place.path)
        if body is None:
            raise FileNotFoundError
        if state == "inbox":
            self.target = self._queue.inbox_path(body, place.generation, place.gate)
        else:
            self.target = self._queue.settled_path(state, task, place.generation)
        # what needs space comes before what cannot be taken back
        self._queue.clear_way(os.path.dirname(self.target))
        self.written = records.draft(self._queue, self.path, self.record)

    def register(self) -> None:
        records.put(self._queue, self.written, self.path)
        self.written = self.path

    def move(self) -> None:
        moved = self._queue.move(self.ending.place.path, self.target)
        if not moved:
            records.set_aside_late(self.path)
        self.written = ""
        if not moved:
            raise lost(self.ending.task)

    def came_late(self) -> None:
        """The task is not there any more."""
        self._late = True

    def tidy(self) -> None:
        if self.written:
            drop_draft(self.written)

    def told(self) -> dict[str, object]:
        ending = self.ending
        more = {name: self.record[name] for name in _TOLD if name in self.record}
        exit = self.record.get("exit")
        if isinstance(exit, dict) and "seconds" in exit:
            more["exit"] = {"seconds": exit["seconds"]}
        line = {"task": ending.task, "gen": ending.place.generation, "to": ending.state, "owner": ending.place.owner}
        return {"event": "finished", **line, **more}

    def fate(self) -> Fate:
        task, place, state, _, _, _ = self.ending
        if self._late:
            try:
                records.write_outcome(self._queue, task, place.generation, self.record, late=True)
            except OSError as error:
                return error
            return lost(task)
        return self.fault or Place(state, self.target, place.generation)


def lost(task: str) -> FleetError:
    """Somebody else has the task by now."""
    return lease.lost(task, "it was given to someone else; what you reported is kept beside it")


def _each(ends: Iterable[_End], step: Callable[[_End], None]) -> list[_End]:
    """Make a step for each; returns those for which it could be made."""
    left = []
    for end in ends:
        try:
            step(end)
            left.append(end)
        except FileNotFoundError:
            end.came_late()
        except (FleetError, OSError) as error:
            end.fault = error
    return left


def _synced(queue: Queue, ends: list[_End], paths: Iterable[str], each: Callable[[str], None]) -> list[_End]:
    """Make durable what a step left for all of them; none of them goes on where that fails."""
    try:
        sync_all(tuple(paths), each, below=queue.dir)
    except OSError as error:
        for end in ends:
            end.fault = error
        return []
    return ends


def _of_the_run(holder: lease.Owner | None) -> dict[str, str]:
    """Who of which run held the task, where a run had started the holder."""
    run, worker = holder.worker if holder else ("", "")
    return {"run": run, "worker": worker, "lane": holder.lane} if holder and worker else {}
