"""What runs have left behind is named, and ended only if the run is over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fleet.identity import LINUX
from agent_fleet_checks.leftovers import Leftovers
from support import procs

pytestmark = pytest.mark.skipif(not LINUX, reason="marks are read from /proc here")


def run_of(tmp_path: Path, mark: str, **more: object) -> Leftovers:
    """A run whose driver was this machine's process 999999999: certainly gone."""
    from agent_fleet.identity import identity_of

    gone = ":".join(["999999999", "1", *identity_of().split(":")[2:]])
    directory = tmp_path / "runs" / "r1"
    directory.mkdir(parents=True)
    (directory / "driver.json").write_text(json.dumps({"identity": gone, "mark": mark, **more}))
    return Leftovers(str(tmp_path))


def test_a_process_of_a_run_that_is_over_is_a_fault_and_is_ended_by_mending(tmp_path: Path) -> None:
    with procs.new_mark() as mark:
        check = run_of(tmp_path, mark, ended=1.0)
        env = {**os.environ, "FLEET_RUN": mark}
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env) as child:
            procs.wait_until(lambda: [each.level for each in check.run("")] == ["fault"], "the process is seen")
            assert str(child.pid) in next(iter(check.run(""))).text
            assert [each.level for each in check.mend("")] == ["ok"]
            assert child.wait(30) != 0
        assert [each.level for each in check.run("")] == ["ok"]
        assert list(check.mend("")) == []


def test_workers_that_a_run_can_take_over_are_left_alone(tmp_path: Path) -> None:
    with procs.new_mark() as mark:
        check = run_of(tmp_path, mark)
        env = {**os.environ, "FLEET_RUN": mark}
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env) as child:
            procs.wait_until(lambda: [each.level for each in check.run("")] == ["warning"], "the process is seen")
            assert list(check.mend("")) == []
            assert child.poll() is None
            child.communicate(b"\n")


def test_no_runs_and_broken_records_are_no_fault(tmp_path: Path) -> None:
    assert [each.level for each in Leftovers(str(tmp_path)).run("")] == ["ok"]
    for name, text in (("r1", ""), ("r2", "[]"), ("r3", '{"mark": "x"}')):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "driver.json").write_text(text)
    assert [each.level for each in Leftovers(str(tmp_path)).run("")] == ["ok"]
