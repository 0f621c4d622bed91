"""Ceilings of a worker's tree: what outgrows one is ended with the figures, its neighbours go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.identity import LINUX
from agent_fleet.run.confine import Ceilings, Confinement
from agent_fleet.tree import marked
from support import procs

pytestmark = pytest.mark.skipif(not LINUX, reason="control groups and /proc are Linux")

MIB = 1 << 20
LEAK = (
    "import time\nkept = []\n"
    "for _ in range(600):\n kept.append(bytearray(4 << 20)); kept[-1][::4096] = b'x' * len(kept[-1][::4096]); time.sleep(0.02)\n"
    "time.sleep(600)\n"
)
BURST = (
    "import os, subprocess, time\nfor _ in range(300):\n"
    " try: subprocess.Popen(['sleep', '600'])\n except OSError: pass\ntime.sleep(600)\n"
)


@pytest.fixture
def mark() -> Iterator[str]:
    with procs.new_mark() as mark:
        yield mark


def attempt(tmp_path: Path, mark: str, code: str, **order: Any) -> dict[str, Any]:
    kept = procs.Attempt(tmp_path, mark, procs.python(code), env=procs.environment(mark), **order)
    return dict(kept.run())


def test_a_leaking_worker_is_ended_at_its_ceiling_with_the_figures(tmp_path: Path, mark: str) -> None:
    record = attempt(tmp_path, mark, LEAK, max_memory=300 * MIB, grace=1)
    assert record["cause"] == "memory", record
    assert str(300 * MIB) in record["note"]
    # the children of the keeper never held much more than was allowed
    assert record["max_rss"] < 600 * MIB


def test_a_fork_burst_is_ended_at_its_ceiling(tmp_path: Path, mark: str) -> None:
    record = attempt(tmp_path, mark, BURST, max_processes=60, grace=1)
    assert record["cause"] == "processes", record
    assert "60" in record["note"]
    assert not marked(mark)


def test_a_worker_below_its_ceilings_is_left_alone(tmp_path: Path, mark: str) -> None:
    record = attempt(
        tmp_path, mark, "x = bytearray(40 << 20); import time; time.sleep(2.5)", max_memory=400 * MIB, max_processes=60
    )
    assert (record["cause"], record["code"]) == ("exited", 0), record


def test_no_group_is_left_behind(tmp_path: Path, mark: str) -> None:
    attempt(tmp_path, mark, "pass", max_memory=300 * MIB, max_processes=60)
    left = [
        os.path.join(directory, name)
        for base in ("/sys/fs/cgroup",)
        for directory, names, _ in os.walk(base)
        for name in names
        if mark in name
    ]
    assert not left


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_a_delegated_v2_group_gets_both_limits(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user.slice/me\n",
            "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/user.slice/me/cgroup.subtree_control": "cpu memory pids\n",
        },
    )
    box = Confinement("w1", Ceilings(1000, 40), root)
    made = tmp_path / "sys/fs/cgroup/user.slice/me/w1"
    assert (made / "memory.max").read_text() == "1250"
    assert (made / "pids.max").read_text() == "50"
    assert set(box.doors) == {str(made / "cgroup.procs")}
    (made / "pids.events").write_text("max 3\n")
    found = box.breach(None, 0)
    assert found is not None
    assert found[0] == "processes"
    assert "3 more" in found[1]


def test_without_delegated_controllers_the_watchdog_alone_holds_the_ceilings(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/me\n",
            "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/me/cgroup.subtree_control": "\n",
        },
    )
    box = Confinement("w1", Ceilings(1000, 40), root)
    assert box.doors == ()
    assert box.needs_watching
    assert not (tmp_path / "sys/fs/cgroup/me/w1").exists()
    assert box.breach(1001, 1) == ("memory", "its processes use 1001 bytes, the ceiling is 1000")
    assert box.breach(None, 40) is None, "an unknown memory use is no breach"
    assert box.breach(10, 41) == ("processes", "it has 41 processes, the ceiling is 40")


def test_no_ceiling_makes_nothing(tmp_path: Path) -> None:
    box = Confinement("w1", Ceilings(0, 0), str(tmp_path))
    assert (box.groups, box.needs_watching, box.breach(1 << 40, 10_000)) == ([], False, None)
