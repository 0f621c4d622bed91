"""Workers of runs whose driver is gone: taken over if their keeper lives, settled if it does not."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace

from agent_fleet.queue import lease
from agent_fleet.queue.lock import lock
from agent_fleet.queue.store import Queue
from agent_fleet.run import roster, tenure
from agent_fleet.run.roster import Attempt, Run


class Adoption:
    """The runs of dead drivers that this process looks after, each held by a lock on its directory until `close`."""

    def __init__(self) -> None:
        self._held: list[tuple[Run, int]] = []

    def take(self, queue: Queue, *, lapse: float) -> Iterator[tuple[Run, list[Attempt]]]:
        """Every run of a dead driver that nobody else looks after, with its attempts that are not settled.

        Leases that such a driver had not handed to a keeper yet go back to the inbox first: a keeper that comes too late
        then finds none, and starts nothing.
        """
        for run, alive in roster.runs(queue):
            if alive is False and self._hold(run):
                lease.reclaim(queue, lapse=lapse)
                found = [identified(queue, each) for each in roster.attempts(queue, run)]
                yield run, [each for each in found if each is not None and not _stays_the_persons(each)]

    def close(self, queue: Queue, ended_by: str) -> None:
        """Let go of these runs; those of which nothing is left are over."""
        for run, descriptor in self._held:
            try:
                if not any(True for _ in roster.attempts(queue, run)):
                    roster.end_run(run, {"ended_by": ended_by})
            finally:
                os.close(descriptor)
        self._held.clear()

    def _hold(self, run: Run) -> bool:
        try:
            descriptor = os.open(run.dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            lock(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as error:
            # without a lock two drivers may settle one attempt; its lease lets only one of them do it
            if error.errno not in (errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.EBADF):
                os.close(descriptor)
                raise
        self._held.append((run, descriptor))
        return True


def identified(queue: Queue, attempt: Attempt) -> Attempt | None:
    """The attempt with its keeper's identity; None if there is nothing to look after, which is then on record.

    A driver that died between starting a keeper and writing down who it is left none; the lease says who it is, or, for a
    crew, what its keeper answered.
    """
    if attempt.worker.identity or roster.read_exit(attempt) is not None:
        return attempt
    if attempt.is_crew:
        return _named(attempt, tenure.answered(attempt.dir))
    place = queue.find_active(attempt.task)
    holder = lease.owner(queue, place.owner) if place and place.generation == attempt.generation else None
    is_its_keeper = holder is not None and holder.worker_dir == os.path.relpath(attempt.dir, queue.dir)
    return _named(attempt, holder.identity if holder is not None and is_its_keeper else "")


def _stays_the_persons(attempt: Attempt) -> bool:
    """Whether it is a window that a person has launched and not closed yet: all that others do for those is to settle them."""
    return attempt.is_launched and not roster.has_ended(attempt)


def _named(attempt: Attempt, identity: str) -> Attempt | None:
    """The attempt with this identity of its keeper; without one it is settled, because none has begun or ever will."""
    if not identity:
        roster.mark_settled(attempt)
        return None
    pid = int(identity.partition(":")[0] or 0)
    return attempt._replace(worker=replace(attempt.worker, pid=pid, identity=identity))
