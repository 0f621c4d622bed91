"""The queue's file system is tried, not believed; faults are planted by tables of mounts, clocks and calls that fail."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_fleet.model import Finding
from agent_fleet_checks.filesystem import Filesystem, kind_of

LOCKS = ("ok", "the file system of the queue takes locks")


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    directory = tmp_path / "my project" / ".agents"
    directory.mkdir(parents=True)
    return directory


def mounts(queue: Path, kind: str, options: str = "rw") -> str:
    point = str(queue.parent).replace(" ", "\\040")
    table = queue.parent.parent / "mounts"
    table.write_text(
        "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        f"22 21 0:5 / {point} rw shared:2 - {kind} somewhere {options}\n"
        "23 21 0:6 / /elsewhere rw - nfs4 other:/x rw\nnot a mount\n"
    )
    return str(table)


def findings(check: Filesystem) -> list[tuple[str, str]]:
    return [(found.level, found.text) for found in check.run("/") if isinstance(found, Finding)]


def test_this_file_system_does_what_the_queue_needs_and_nothing_is_left_behind(queue: Path) -> None:
    assert findings(Filesystem(str(queue))) == [LOCKS]
    assert list(queue.iterdir()) == []
    assert [level for level, _ in findings(Filesystem(str(queue / "none")))] == ["ok"]


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        ("nfs4", "rw", "nfs4"),
        ("9p", "rw,aname=drvfs;path=C:", "drvfs"),
        ("9p", "rw", "9p"),
        ("fuse.sshfs", "rw", "fuse.sshfs"),
        ("cifs", "rw", "cifs"),
        ("ext4", "rw", ""),
        ("tmpfs", "rw", ""),
        ("overlay", "rw", ""),
    ],
)
def test_a_file_system_of_elsewhere_is_named(queue: Path, kind: str, options: str, named: str) -> None:
    found = findings(Filesystem(str(queue), mounts(queue, kind, options)))
    warned = [("warning", f"the queue lies on {named}: its locks and its clock may be another machine's")]
    assert found == [*(warned if named else []), LOCKS]


def test_the_innermost_and_latest_mount_counts() -> None:
    table = "1 0 8:1 / / rw - ext4 a rw\n2 1 0:1 / /a rw - nfs4 b rw\n3 2 0:2 / /a/b rw - xfs c rw\n4 2 0:3 / /a/b rw - 9p d rw"
    assert [kind_of(path, table) for path in ("/a/b/c", "/a/bc", "/ab", "/a")] == ["9p", "nfs4", "ext4", "nfs4"]
    assert kind_of("/a", "") == ""


def test_locks_that_hold_nobody_back_or_are_not_taken_are_found(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    ((level, text),) = findings(Filesystem(str(queue)))
    assert (level, text.partition(" on")[0]) == ("fault", "two processes got the same lock")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert [level for level, text in findings(Filesystem(str(queue))) if "takes no locks (ENOLCK)" in text] == [
        "warning"
    ]


def test_lost_appends_and_renames_are_faults(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_APPEND", 0)
    assert [text for level, text in findings(Filesystem(str(queue))) if level == "fault"] == [
        "two writers that append lose each other's lines on this file system"
    ]
    monkeypatch.undo()
    monkeypatch.setattr(os, "rename", lambda *_: None)
    assert [text for level, text in findings(Filesystem(str(queue))) if level == "fault"] == [
        "a rename does not replace a file on this file system"
    ]


@pytest.mark.parametrize(("off", "words"), [(-3600.0, "3600 s ahead of ours"), (90.0, "90 s behind ours")])
def test_a_clock_of_its_own_is_named(queue: Path, off: float, words: str) -> None:
    import time

    ((level, text),) = [
        each for each in findings(Filesystem(str(queue), clock=lambda: time.time() + off)) if each != LOCKS
    ]
    assert level == "warning"
    assert text.endswith(words)
    assert ("fault", "the clock of this machine is wrong by years") in findings(
        Filesystem(str(queue), clock=lambda: 60.0)
    )


def test_little_room_and_few_files_are_named(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def state(free: int, files: int) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=free, f_frsize=1 << 20, f_blocks=1 << 30, f_files=1 << 20, f_favail=files)

    for free, level in ((50, "fault"), (500, "warning")):
        monkeypatch.setattr(os, "statvfs", lambda _, free=free: state(free, 10_000))
        assert (level, f"the queue's file system is almost full: {free} MiB are free") in findings(
            Filesystem(str(queue))
        )
    monkeypatch.setattr(os, "statvfs", lambda _: state(1 << 20, 9))
    assert ("warning", "the queue's file system has room for 9 more files") in findings(Filesystem(str(queue)))


def test_a_directory_that_takes_no_file_is_a_fault(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    fault = ("fault", "nothing can be written to the queue directory: Permission denied")
    assert findings(Filesystem(str(queue))) == [fault]
