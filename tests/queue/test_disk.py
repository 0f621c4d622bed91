"""A disk that is full, read-only or closed to this user: one line, status 1, and nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.project import Answer, Project

linux_root = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounting needs root on Linux")
BATCH = b"\n".join(b"task %d with some text to fill the disk" % n for n in range(300))


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Project]:
    """A project on a file system of one mebibyte."""
    root = tmp_path / "small"
    root.mkdir()
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(root))
    try:
        project = Project(root, home=tmp_path / "home")
        project.json("init", ".")
        yield project
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def fill_up(project: Project) -> Path:
    ballast = project.root / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def check_refusal(answer: Answer, code: str) -> None:
    assert answer.status == 1, answer
    refused = answer.data
    assert refused["code"] == code
    assert "\n" not in refused["error"]
    assert refused["hint"]


def faults(project: Project) -> list[str]:
    """What `fleet doctor` calls a fault."""
    findings = project.fleet("doctor", "--json").data["findings"]
    return [finding["text"] for finding in findings if finding["level"] == "fault"]


def check_whole(project: Project) -> None:
    """No file is empty but the counter, and none is a leftover of a write."""
    for name in project.files():
        assert ".tmp-" not in name
        assert name.startswith("seq/") or name == "journal.jsonl" or (project.dir / name).stat().st_size, name
    assert os.listdir(project.dir / "staging") == []


@linux_root
def test_on_a_full_disk_nothing_is_half_written_and_all_works_again_once_there_is_space(small: Project) -> None:
    held = small.add("held")
    small.add("waiting")
    small.json("claim", "A")
    ballast = fill_up(small)
    before = [name for name in small.files() if name.split("/")[0] not in ("seq", "owners")]
    journal = (small.dir / "journal.jsonl").read_bytes()
    check_refusal(small.fleet("add", "one more", "--json"), "disk_full")
    check_refusal(small.fleet("add-batch", "-", "--json", stdin=BATCH), "disk_full")
    check_refusal(small.fleet("claim", "B", "--json"), "disk_full")
    check_refusal(small.fleet("done", held, "--result", "seen", "--json"), "disk_full")
    check_refusal(small.fleet("block", held, "--reason", "login required: x", "--json"), "disk_full")
    assert [name for name in small.files() if name.split("/")[0] not in ("seq", "owners")] == before
    assert (small.dir / "journal.jsonl").read_bytes() == journal
    check_whole(small)
    assert "the queue's file system is full" in faults(small)
    for command in (("status",), ("list",), ("show", held), ("blocked",), ("verify",)):
        assert small.fleet(*command).status == 0
    ballast.unlink()
    assert small.json("done", held, "--result", "seen")["state"] == "done"
    assert small.json("claim", "B")["id"] == "t2"
    assert small.json("add-batch", "-", stdin=BATCH[:4000])["added"] > 50
    assert small.json("verify")["faults"] == []


@linux_root
def test_a_disk_that_fills_up_in_the_middle_of_a_batch_leaves_no_part_of_it(small: Project) -> None:
    small.add("first")
    big = b"\n".join(b"x" * 5000 for _ in range(500))
    check_refusal(small.fleet("add-batch", "-", "--json", stdin=big), "disk_full")
    assert len(small.json("list", "--all")["tasks"]) == 1
    check_whole(small)
    assert small.json("add-batch", "-", stdin=big[:50_000])["added"] == 10
    assert small.json("verify")["faults"] == []


@linux_root
def test_a_read_only_queue_can_be_looked_at_and_says_so_when_it_is_written(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", home=tmp_path / "home")
    project.json("init", ".")
    task = project.add("something")
    mount("--bind", str(project.root), str(project.root))
    try:
        mount("-o", "remount,ro,bind", str(project.root))
        for command in (("status",), ("list",), ("show", task), ("blocked",), ("verify",), ("where",)):
            assert project.fleet(*command).status == 0, command
        assert "nothing can be written to the queue directory: Read-only file system" in faults(project)
        for write in (["add", "x"], ["claim", "w"], ["done", task, "--result", "x", "--force"]):
            answer = project.fleet(*write, "--json")
            assert answer.status in (1, 2), answer
            assert answer.data["code"] in ("read_only", "not_active")
        assert project.json("claim", "w", status=1)["code"] == "read_only"
    finally:
        subprocess.run(["umount", "-l", str(project.root)], check=True)
    assert project.json("claim", "w")["id"] == task


@linux_root
def test_a_user_without_rights_is_told_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for above in tmp_path.parents:
        if above.owner() == "root" and above != Path("/tmp") and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    project = Project(tmp_path / "project", home=tmp_path / "home")
    project.json("init", ".")
    task = project.add("something")
    looks = (("status",), ("list",), ("show", task))
    assert [answer.status for answer in project.script(*looks, user=65534)] == [0] * 3
    for answer in project.script(("add", "x", "--json"), ("claim", "w", "--json"), user=65534):
        check_refusal(answer, "permission")
    project.dir.chmod(0o700)
    (answer,) = project.script(("claim", "w", "--json"), user=65534)
    assert answer.status in (1, 4)
    assert answer.data["code"] in ("permission", "not_found")
    assert project.state(task) == "inbox"
