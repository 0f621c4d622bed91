"""Many leases that end in one commit: whatever ends it and when, each task is done with its record on disk, or still held."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.errors import FleetError
from agent_fleet.queue import files, finish, lease, lock, records
from agent_fleet.queue.claim import Claimed
from agent_fleet.queue.conclusion import Ending, conclude
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.lock import LeaseLocks
from agent_fleet.queue.store import Place, Queue
from agent_fleet.queue.verify import verify
from support.project import enlist, fill, new_queue, take
from support.racers import FORK, racers

STATES = ("done", "blocked", "failed", "inbox")


def claim_all(queue: Queue, holder: lease.Owner) -> list[Claimed]:
    found = []
    while (claimed := take(queue, holder)) is not None:
        found.append(claimed)
    return found


def endings(holder: lease.Owner, held: Sequence[Claimed], states: Sequence[str] = ("done",)) -> list[Ending]:
    made = []
    for number, each in enumerate(held):
        state = states[number % len(states)]
        outcome = "failed" if state == "inbox" else state
        record = {"outcome": outcome, "reason": "x", "result": f"of {each.task}", "charged": False}
        place = Place("active", each.path, each.generation, holder.key, each.gate)
        made.append(Ending(each.task, place, state, record, holder, each.body if number % 2 else None))
    return made


def held(queue: Queue, count: int, states: Sequence[str] = ("done",)) -> list[Ending]:
    fill(queue, [f"task {number}" for number in range(count)])
    holder = enlist(queue)
    return endings(holder, claim_all(queue, holder), states)


def leftovers(queue: Queue) -> list[str]:
    return [name for _, _, names in os.walk(queue.dir) for name in names if name.startswith(".tmp-")]


# ------------------------------------------------------------------------------------------------------------- killed


class Fuse:
    """Kills this process just before the step of that number that changes or syncs something on the disk."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        for name in ("open", "write", "fsync", "rename", "unlink", "mkdir"):
            setattr(os, name, self.wrapped(getattr(os, name)))
        files.sync_file_system = self.wrapped(files.sync_file_system)

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
            return call(*arguments, **named)

        return step


def conclude_until(directory: str, steps: int, few: int, said: str) -> None:
    queue = Queue(directory)
    holder = enlist(queue)
    batch = endings(holder, claim_all(queue, holder), STATES)
    told = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write = os.write
    files.FEW = few
    Fuse(steps)
    fates = conclude(queue, batch)
    write(told, json.dumps([fate.state for fate in fates if isinstance(fate, Place)]).encode())
    os._exit(0)


@pytest.mark.parametrize("few", [16, 0], ids=["synced one by one", "synced at once"])
def test_a_batch_killed_at_any_step_leaves_each_task_done_with_its_record_or_held(tmp_path: Path, few: int) -> None:
    seen: set[tuple[str, ...]] = set()
    for steps in range(200):
        queue = new_queue(tmp_path / f"{steps}")
        tasks = fill(queue, [f"task {number}" for number in range(4)])
        said = tmp_path / f"{steps}.said"
        child = FORK.Process(target=conclude_until, args=(queue.dir, steps, few, str(said)))
        child.start()
        child.join(60)
        assert child.exitcode in (0, -signal.SIGKILL)
        lease.reclaim(queue, lapse=3600)
        places = [queue.require(task) for task in tasks]
        seen.add(tuple(place.state for place in places))
        for place, task, meant in zip(places, tasks, STATES, strict=True):
            record = records.outcome(queue, task, 1)
            assert (place.state, place.generation) in ((meant, 1), ("inbox", 1))
            assert (record is not None) >= (place.state != "inbox"), f"{task} is {place.state} without a record"
            assert record is None or record["state"] == meant
        assert verify(queue).faults == []
        if child.exitcode == 0:
            assert json.loads(said.read_text()) == list(STATES)
            assert [place.state for place in places] == list(STATES)
            break
        assert not said.read_text(), "it was reported before it was over"
        queue.journal.close()
    else:
        raise AssertionError("it never came to its end")
    assert steps > 15
    assert ("inbox",) * 4 in seen, "no kill came before the records: they showed nothing"


# -------------------------------------------------------------------------------------------------- cut off from power


class Trace:
    """What was written, synced and renamed, in order, as (what, path, new path)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, str, str]] = []
        self._open: dict[int, str] = {}
        self._real = {name: getattr(os, name) for name in ("open", "write", "fsync", "rename")}
        for name in self._real:
            monkeypatch.setattr(os, name, getattr(self, name))
        monkeypatch.setattr(files, "sync_file_system", lambda _: self.steps.append(("sync", "", "")))

    def open(self, path: str, *rest: Any, **named: Any) -> int:
        descriptor = int(self._real["open"](path, *rest, **named))
        self._open[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        self.steps.append(("write", self._open.get(descriptor, ""), ""))
        return int(self._real["write"](descriptor, data))

    def fsync(self, descriptor: int) -> None:
        self.steps.append(("sync", self._open[descriptor], ""))

    def rename(self, source: str, target: str) -> None:
        self._real["rename"](source, target)
        self.steps.append(("rename", source, target))

    @property
    def syncs(self) -> int:
        return sum(what == "sync" for what, _, _ in self.steps)

    def at(self, what: str, path: str = "", target: str = "") -> int:
        """When that happened first."""
        for index, step in enumerate(self.steps):
            if step[0] == what and path in ("", step[1]) and target in ("", step[2]):
                return index
        raise AssertionError(f"no {what} of {path} to {target}")

    def is_synced(self, path: str, after: int, before: int) -> bool:
        return any(what == "sync" and which in ("", path) for what, which, _ in self.steps[after + 1 : before])


@pytest.mark.parametrize("count", [1, 5, 60, 600])
def test_no_task_moves_before_its_record_is_durable_and_none_is_reported_before_its_move_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    queue = new_queue(tmp_path / ".agents")
    batch = held(queue, count)
    trace = Trace(monkeypatch)
    fates = conclude(queue, batch)
    monkeypatch.undo()
    for ending, fate in zip(batch, fates, strict=True):
        assert isinstance(fate, Place)
        path = records.outcome_path(queue, ending.task, 1)
        put = trace.at("rename", target=path)
        draft = trace.steps[put][1]
        moved = trace.at("rename", ending.place.path, fate.path)
        assert trace.is_synced(draft, trace.at("write", draft), put), "a name before its contents"
        assert trace.is_synced(os.path.dirname(path), put, moved), "a move before its record"
        assert trace.is_synced(os.path.dirname(fate.path), moved, len(trace.steps)), "reported, and not on disk"


def test_a_batch_is_synced_once_and_not_once_for_each_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = {}
    for count in (1, 10, 200):
        queue = new_queue(tmp_path / str(count))
        batch = held(queue, count)
        conclude(queue, batch[:0])
        for directory in ("records", "done"):  # made once, whoever comes first
            queue.clear_way(queue.path(directory, "0000000"))
        with monkeypatch.context() as patched:
            trace = Trace(patched)
            assert all(isinstance(fate, Place) for fate in conclude(queue, batch))
            syncs[count] = trace.syncs
    assert syncs == {1: 3, 10: 12, 200: 3}


def test_a_body_that_its_holder_has_read_is_not_read_again(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(queue, ["one", "two"])
    holder = enlist(queue)
    claimed = claim_all(queue, holder)
    batch = [
        ending._replace(body=each.body)
        for ending, each in zip(endings(holder, claimed, ("done", "inbox")), claimed, strict=True)
    ]
    monkeypatch.setattr(Queue, "body", None)
    assert [fate.state for fate in conclude(queue, batch) if isinstance(fate, Place)] == ["done", "inbox"]
    monkeypatch.undo()
    assert verify(queue).faults == []
    assert take(queue, enlist(queue, "next")), "it waits where claims look"


# ---------------------------------------------------------------------------------------------------- one among many


def test_a_lease_that_was_lost_costs_the_others_of_its_batch_nothing(queue: Queue) -> None:
    batch = held(queue, 5)
    lost = batch[2].task
    finish.hand_back(queue, lost, Proof(force=True), "reset by a person")
    again = take(queue, enlist(queue, "other"))
    assert again
    assert again.task == lost
    fates = conclude(queue, batch)
    assert [isinstance(fate, Place) for fate in fates] == [True, True, False, True, True]
    assert isinstance(fates[2], FleetError)
    assert fates[2].code == "lease_lost"
    assert queue.require(lost).generation == 2
    assert records.outcomes(queue, lost) == []
    late = Path(records.outcome_path(queue, lost, 1).removesuffix(".json") + ".late.json")
    assert json.loads(late.read_text())["result"] == f"of {lost}"
    assert verify(queue).faults == []


def test_a_record_that_cannot_be_written_leaves_its_task_alone_where_it_was(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = held(queue, 4)
    write = files.write_all

    def refuse(descriptor: int, data: bytes) -> None:
        if f"of {batch[1].task}".encode() in data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(descriptor, data)

    monkeypatch.setattr(files, "write_all", refuse)
    fates = conclude(queue, batch)
    assert [type(fate) for fate in fates] == [Place, OSError, Place, Place]
    assert [queue.require(each.task).state for each in batch] == ["done", "active", "done", "done"]
    assert records.outcome(queue, batch[1].task, 1) is None
    assert leftovers(queue) == []
    assert verify(queue).faults == []


@pytest.mark.parametrize("failing", [0, 1])
def test_what_cannot_be_made_durable_is_not_reported_and_leaves_no_record(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """The sync of the contents fails, or that of their names."""
    batch = held(queue, 20)
    for directory in ("records", "done"):
        queue.clear_way(queue.path(directory, "0000000"))
    syncs = [0]

    def fail(*_: object) -> None:
        syncs[0] += 1
        if syncs[0] > failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files, "sync_file_system", fail)
    monkeypatch.setattr(os, "fsync", fail)
    fates = conclude(queue, batch)
    monkeypatch.undo()
    assert {type(fate) for fate in fates} == {OSError}
    assert {queue.require(each.task).state for each in batch} == {"active"}
    assert [records.outcomes(queue, each.task) for each in batch] == [[]] * 20
    assert leftovers(queue) == []
    assert all(isinstance(fate, Place) for fate in conclude(queue, batch))


def test_a_file_system_without_locks_has_one_for_the_whole_batch(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "runtime"
    inside.mkdir()
    monkeypatch.setenv("TMPDIR", str(inside))
    monkeypatch.setattr("tempfile.tempdir", None)
    batch = held(queue, 3)
    real = lock.lock

    def answer(descriptor: int) -> None:
        if not os.path.isdir(f"/dev/fd/{descriptor}"):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        real(descriptor)

    monkeypatch.setattr(lock, "lock", answer)
    with LeaseLocks(queue.path("active")) as first, LeaseLocks(queue.path("active"), patience=0.05) as second:
        for ending in batch:
            first.take(ending.place.path)
        with pytest.raises(FleetError, match="another process"):
            second.take(batch[-1].place.path)
    assert all(isinstance(fate, Place) for fate in conclude(queue, batch))


def test_batches_among_resets_lose_nothing_and_do_nothing_twice(queue: Queue) -> None:
    def storm(index: int, seed: int) -> list[str]:
        rng = random.Random(seed * 100 + index)
        mine = Queue(queue.dir)
        holder = enlist(mine, f"racer-{index}")
        done = []
        for _ in range(8):
            batch: list[Ending] = []
            while len(batch) < rng.randint(1, 25) and (claimed := take(mine, holder)) is not None:
                batch += endings(holder, [claimed])
            for task, generation, key, gate, name in rng.sample(mine.active(), len(mine.active()) // 4):
                path = mine.path("active", name)
                lease.give_back(mine, task, generation, gate, path, event="returned", why="storm", owner=key)
            for ending, fate in zip(batch, conclude(mine, batch), strict=True):
                if isinstance(fate, Place):
                    done.append(ending.task)
                else:
                    assert isinstance(fate, FleetError), fate
                    assert fate.code == "lease_lost"
        mine.journal.close()
        return done

    tasks = fill(queue, [f"task {number}" for number in range(400)])
    with racers(5, storm) as all_of_them:
        done = [task for seed in range(3) for found in all_of_them.race(seed) for task in found]
    assert len(done) == len(set(done))
    report = verify(queue)
    assert report.faults == []
    assert report.tasks == len(tasks)
    assert sorted(task for task, _, _ in queue.settled("done")) == sorted(done)
    assert len(done) > 100, "too few ended: it showed nothing"
