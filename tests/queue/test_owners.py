"""Whose lease ends by itself: the dead's does, the living's never, and of whom nobody can tell only after a long silence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_fleet import identity
from agent_fleet.identity import LINUX
from agent_fleet.queue import finish, lease, records
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue
from support.project import Project, enlist, fill, take

linux_only = pytest.mark.skipif(not LINUX, reason="reads /proc")
LONG = 10_000.0


@contextmanager
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def changed(who: str, **parts: str) -> str:
    """An identity with some of its parts replaced."""
    named = dict(zip(("pid", "start", "boot", "ns", "machine"), who.split(":"), strict=True))
    return ":".join((named | parts).values())


def held_by(queue: Queue, who: str) -> str:
    """A task that an owner of this identity holds."""
    (task,) = fill(queue, ["something"])
    claimed = take(queue, enlist(queue, "worker", who))
    assert claimed
    assert claimed.task == task
    return task


def path_of(queue: Queue, task: str) -> Path:
    place = queue.find_active(task)
    assert place
    return Path(place.path)


@pytest.mark.parametrize("command", [("status",), ("claim", "other")])
def test_the_task_of_a_killed_owner_returns_uncharged_at_the_next_command(
    project: Project, command: tuple[str, ...]
) -> None:
    task = project.add("something")
    with process() as child:
        project.json("claim", "A", "--owner", str(child.pid))
        project.json("status")
        assert project.state(task) == "active"
        child.send_signal(signal.SIGKILL)
        child.wait()
        answer = project.json(*command)
    assert answer.get("returned") == [task] or answer.get("generation") == 2
    shown = project.json("show", task)
    assert shown["attempts"] == []
    assert "reclaimed" in [event["event"] for event in shown["history"]]


def test_a_zombie_is_a_dead_owner(queue: Queue) -> None:
    with process() as child:
        task = held_by(queue, identity.identity_of(child.pid))
        assert lease.reclaim(queue, lapse=0) == []
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert lease.reclaim(queue, lapse=LONG) == [task]


def test_a_pid_that_another_program_has_now_is_a_dead_owner(queue: Queue) -> None:
    with process() as child:
        task = held_by(queue, changed(identity.identity_of(child.pid), start="12345"))
        assert lease.reclaim(queue, lapse=LONG) == [task]
        assert child.poll() is None


@linux_only
def test_an_owner_of_another_boot_is_dead(queue: Queue) -> None:
    task = held_by(queue, changed(identity.identity_of(), boot="0123456789ab", pid="999999"))
    assert lease.reclaim(queue, lapse=LONG) == [task]


@pytest.mark.parametrize(
    "parts",
    [{"machine": "0123456789ab", "boot": "0123456789ab"}, {"ns": "1"}],
    ids=["another machine", "another pid namespace"],
)
def test_an_owner_that_cannot_be_judged_keeps_its_task_until_it_is_silent_for_long(
    queue: Queue, parts: dict[str, str]
) -> None:
    task = held_by(queue, changed(identity.identity_of(), pid="999999", **parts))
    for _ in range(3):
        assert lease.reclaim(queue, lapse=LONG) == []
    assert lease.reclaim(queue, lapse=0.0) == [task]
    lease.forget(queue)
    assert [name for name in queue.listing("owners") if name.startswith("watch-")] == []


def test_a_heartbeat_of_another_machine_keeps_its_task(queue: Queue) -> None:
    task = held_by(queue, changed(identity.identity_of(), pid="999999", machine="0123456789ab", boot="0123456789ab"))
    assert lease.reclaim(queue, lapse=0.0) == []  # what is seen for the first time has not been silent yet
    finish.heartbeat(queue, task, Proof(1))
    assert lease.reclaim(queue, lapse=0.0) == []
    assert lease.reclaim(queue, lapse=0.0) == [task]


@pytest.mark.parametrize("contents", [b"", b"{", b'{"identity": 3}', b'{"identity": "1:2"}', None])
def test_an_owner_whose_record_cannot_be_read_cannot_be_judged(queue: Queue, contents: bytes | None) -> None:
    task = held_by(queue, changed(identity.identity_of(), pid="999999"))
    (record,) = Path(queue.path("owners")).iterdir()
    if contents is None:
        record.unlink()
    else:
        record.write_bytes(contents)
    assert lease.reclaim(queue, lapse=LONG) == []
    assert lease.reclaim(queue, lapse=0.0) == [task]


def test_a_silent_owner_that_lives_never_loses_its_task(queue: Queue) -> None:
    task = held_by(queue, identity.identity_of())
    os.utime(path_of(queue, task), (0, 0))
    for _ in range(3):
        assert lease.reclaim(queue, lapse=0.0) == []
    assert queue.require(task).generation == 1


@pytest.mark.parametrize("beat", [0, 10**11], ids=["long ago", "far in the future"])
def test_no_wall_clock_decides_over_a_lease(queue: Queue, beat: int) -> None:
    task = held_by(queue, changed(identity.identity_of(), pid="999999", machine="0123456789ab", boot="0123456789ab"))
    os.utime(path_of(queue, task), (beat, beat))
    assert lease.reclaim(queue, lapse=LONG) == []
    assert lease.reclaim(queue, lapse=LONG) == []
    assert lease.reclaim(queue, lapse=0.0) == [task]


def test_silence_is_not_counted_across_a_boot(queue: Queue) -> None:
    """The monotonic clock starts again with the machine, so a note of an earlier boot says nothing."""
    task = held_by(queue, changed(identity.identity_of(), pid="999999", machine="0123456789ab", boot="0123456789ab"))
    assert lease.reclaim(queue, lapse=0.0) == []
    note = Path(queue.path("owners", f"watch-{task}.g1.json"))
    note.write_text(json.dumps({**json.loads(note.read_text()), "boot": "another"}))
    assert lease.reclaim(queue, lapse=0.0) == []
    assert lease.reclaim(queue, lapse=0.0) == [task]


def test_a_dead_owner_whose_outcome_is_on_record_is_rolled_forward(queue: Queue) -> None:
    """A worker that was killed between its report and the move has done its work."""
    with process() as child:
        task = held_by(queue, identity.identity_of(child.pid))
        place = queue.find_active(task)
        assert place
        records.write_outcome(queue, task, 1, {"state": "done", "outcome": "done", "result": "seen"})
    assert lease.reclaim(queue, lapse=LONG) == [task]
    assert queue.require(task).state == "done"


def test_an_attempt_that_ended_under_a_keeper_is_left_to_be_settled(queue: Queue) -> None:
    with process() as child:
        who = identity.identity_of(child.pid)
    key, data = lease.owner_record(who, agent="w", lane="headless", worker_dir="runs/r1/workers/w1")
    lease.write_owner(queue.path("owners"), key, data)
    (task,) = fill(queue, ["something"])
    assert take(queue, lease.Owner(key, who, "w", "headless"))
    directory = Path(queue.path("runs", "r1", "workers", "w1"))
    directory.mkdir(parents=True)
    (directory / "exit.json").write_text("{}")
    assert lease.reclaim(queue, lapse=0.0) == []
    (directory / "exit.json").unlink()
    assert lease.reclaim(queue, lapse=LONG) == [task]


@linux_only
def test_a_task_whose_keeper_died_stays_held_while_anything_of_its_worker_lives(queue: Queue) -> None:
    with process() as keeper:
        who = identity.identity_of(keeper.pid)
    mark = f"test-{os.getpid()}-{time.monotonic_ns()}"
    key, data = lease.owner_record(who, agent="w", lane="headless", worker_dir="runs/r1/workers/w1", mark=mark)
    lease.write_owner(queue.path("owners"), key, data)
    (task,) = fill(queue, ["something"])
    assert take(queue, lease.Owner(key, who, "w", "headless"))
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"FLEET_WORKER": mark})
    with left:
        for _ in range(3):
            assert lease.reclaim(queue, lapse=0.0) == []
        left.kill()
    assert lease.reclaim(queue, lapse=LONG) == [task]


def test_records_of_dead_owners_that_hold_nothing_are_removed_and_no_others(queue: Queue) -> None:
    with process() as child:
        dead = enlist(queue, "dead", identity.identity_of(child.pid))
    living = enlist(queue, "living")
    lease.forget(queue)
    left = queue.listing("owners")
    assert f"{living.key}.json" in left
    assert f"{dead.key}.json" not in left
