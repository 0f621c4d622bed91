"""Files at the edge: moved although others remove what is empty, and never set aside for a shortage of one's own."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from agent_fleet.errors import FleetError
from agent_fleet.queue import files, lock
from agent_fleet.queue.lock import DirLock, LeaseLocks
from agent_fleet.queue.store import Queue
from support.project import fill
from support.racers import racers


def test_a_file_arrives_although_others_remove_the_directory_whenever_it_is_empty(tmp_path: Path) -> None:
    away = tmp_path / "inbox" / "0000000" / "_"

    def act(index: int, rounds: int) -> int:
        mine = tmp_path / f"mine-{index}"
        there = away / f"mine-{index}"
        mine.write_bytes(b"x")
        for _ in range(rounds):
            if index < 2:
                assert files.move(str(mine), str(there))
                assert files.move(str(there), str(mine))
            files.remove_if_empty(str(away))
            files.remove_if_empty(str(away.parent))
        return mine.stat().st_size

    with racers(4, act) as all_of_them:
        assert all_of_them.race(3_000) == [1] * 4


def test_a_move_of_what_is_gone_says_so_and_makes_nothing(tmp_path: Path) -> None:
    assert not files.move(str(tmp_path / "nothing"), str(tmp_path / "there" / "x"))
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_whole(str(path), b"old")
    with pytest.raises(TypeError):
        files.write_whole(str(path), "no bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_process_without_descriptors_sets_no_good_file_aside(queue: Queue) -> None:
    (task,) = fill(queue, ["something"])
    place = queue.require(task)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            queue.body(place.path, task)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert queue.require(task) == place
    assert queue.listing("quarantine") == []


def test_a_lock_keeps_others_out_and_goes_with_its_holder(tmp_path: Path) -> None:
    def count(_index: int, rounds: int) -> None:
        for _ in range(rounds):
            with DirLock(str(tmp_path)):
                seen = int((tmp_path / "count").read_text())
                (tmp_path / "count").write_text(str(seen + 1))

    (tmp_path / "count").write_text("0")
    with racers(6, count) as all_of_them:
        all_of_them.race(100)
    assert (tmp_path / "count").read_text() == "600"


@pytest.mark.parametrize("code", lock._UNSUPPORTED)
def test_a_file_system_without_locks_still_keeps_this_machine_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Such a file system cannot be had everywhere, so its answer is given in its place."""
    state, inside = tmp_path / "state", tmp_path / "runtime"
    state.mkdir()
    inside.mkdir()
    monkeypatch.setenv("TMPDIR", str(inside))
    monkeypatch.setattr("tempfile.tempdir", None)
    real = lock.lock

    def answer(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(state)):
            raise OSError(code, os.strerror(code))
        real(descriptor)

    monkeypatch.setattr(lock, "lock", answer)
    with DirLock(str(state)), pytest.raises(FleetError) as caught, DirLock(str(state), patience=0.05):
        raise AssertionError("two hold one lock")
    assert caught.value.code == "busy"
    assert os.listdir(state) == []


def test_a_lease_that_moved_while_its_lock_was_waited_for_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "t1.g1+a+_.json"
    path.write_bytes(b"{}")
    with LeaseLocks(str(tmp_path)) as first, LeaseLocks(str(tmp_path), patience=0) as second:
        first.take(str(path))
        with pytest.raises(FleetError, match="another process"):
            second.take(str(path))
    path.unlink()
    with LeaseLocks(str(tmp_path)) as locks, pytest.raises(FileNotFoundError):
        locks.take(str(path))
