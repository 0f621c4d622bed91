"""Many claims by one look: written down by one line of text each and one write, or not made at all."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any

import pytest

from agent_fleet import journal
from agent_fleet.queue import lease
from agent_fleet.queue.claim import Claim, Rules
from agent_fleet.queue.store import Queue
from agent_fleet.queue.verify import verify
from support.project import enlist, fill
from support.racers import FORK


def search(queue: Queue) -> Claim:
    return Claim(queue, enlist(queue), Rules(lambda _: 1, {}))


def claimed_lines(queue: Queue) -> list[str]:
    return [
        str(event["task"]) for _, event in journal.read(queue.journal.path) if event and event["event"] == "claimed"
    ]


def test_a_batch_of_claims_is_one_write_to_the_journal(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = fill(queue, [f"task {number}" for number in range(40)])
    writes = []
    extend = journal.Journal.extend

    def count(self: journal.Journal, events: Any) -> None:
        writes.append(1)
        extend(self, events)

    monkeypatch.setattr(journal.Journal, "extend", count)
    found = search(queue).take_some(30)
    assert [each.task for each in found] == tasks[:30] == claimed_lines(queue)
    assert len(writes) == 1
    assert verify(queue).notes == []


def test_claims_that_cannot_be_written_down_are_not_made(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = fill(queue, [f"task {number}" for number in range(5)])

    def full(self: journal.Journal, events: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(journal.Journal, "extend", full)
        with pytest.raises(OSError, match="No space"):
            search(queue).take_some(5)
    assert queue.active() == []
    assert {queue.require(task).state for task in tasks} == {"inbox"}
    assert verify(queue).faults == []


@pytest.mark.parametrize("before", [0, 3])
def test_a_fault_in_the_middle_leaves_no_task_held_by_somebody_who_does_not_know(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    fill(queue, [f"task {number}" for number in range(5)])
    utime = os.utime
    calls = [0]

    def fail(path: str) -> None:
        calls[0] += 1
        if calls[0] > before:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        utime(path)

    monkeypatch.setattr(os, "utime", fail)
    if before:
        found = [each.task for each in search(queue).take_some(5)]
    else:
        found = []
        with pytest.raises(OSError, match="Permission"):
            search(queue).take_some(5)
    assert len(found) == before
    assert sorted(task for task, *_ in queue.active()) == sorted(found) == sorted(claimed_lines(queue))


def claim_and_die(directory: str) -> None:
    def die(self: journal.Journal, events: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    queue = Queue(directory)
    journal.Journal.extend = die  # type: ignore[method-assign]
    search(queue).take_some(5)


def test_a_death_before_the_claims_are_written_down_is_a_gap_and_no_fault(queue: Queue) -> None:
    tasks = fill(queue, [f"task {number}" for number in range(5)])
    child = FORK.Process(target=claim_and_die, args=(queue.dir,))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert len(queue.active()) == 5
    report = verify(queue)
    assert report.faults == []
    assert len(report.notes) == 5
    assert sorted(lease.reclaim(queue, lapse=3600)) == tasks
    assert [each.task for each in search(queue).take_some(5)] == tasks
    assert verify(queue).faults == []
