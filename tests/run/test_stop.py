"""Stopping a run: whatever its workers have started is gone, nothing else is, and the tasks are back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.procs import pids_in, running, wait_until
from support.runs import QUICK, Site, attempts_of, gone

# A worker that wants to stay: a child in a session of its own; a double fork that is nobody's child, ignores SIGTERM and
# carries no mark; and a shell that ignores SIGTERM too. Each writes its pid.
CLINGING = """
import os, signal, sys, time
pids = sys.argv[1]
def note():
    open(os.path.join(pids, str(os.getpid())), "w").close()
def stay():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note()
    time.sleep(600)
if sys.argv[2:]:
    stay()
if os.fork() == 0:
    os.setsid()
    stay()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execve(sys.executable, [sys.executable, "-I", __file__, pids, "last"], {})
    os._exit(0)
stay()
"""


class Nest:
    """A site whose tasks start processes that cling to life; `pids` are theirs."""

    def __init__(self, root: Path, config: str = "") -> None:
        self.site = Site(root, config)
        self.noted = root / "pids"
        self.noted.mkdir()
        script = root / "clinging.py"
        script.write_text(CLINGING)
        self.task = self.site.command(f"exec '{sys.executable}' -I '{script}' '{self.noted}'")

    @property
    def pids(self) -> list[int]:
        return pids_in(self.noted)

    def settle_down(self) -> None:
        wait_until(lambda: len(self.pids) == 3 and all(running(pid) for pid in self.pids), "the worker has started all")

    def is_as_before(self) -> bool:
        """Whether the task is back as if nothing had happened."""
        site = self.site
        return site.state(self.task) == "inbox" and not any(record["charged"] for record in site.records(self.task))


@pytest.fixture
def nest(tmp_path: Path) -> Nest:
    return Nest(tmp_path)


@contextmanager
def bystander(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else's with the name that a worker's would have, ignoring SIGTERM as well."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, cwd=directory) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            yield other
        finally:
            other.kill()


def test_stop_ends_the_whole_tree_and_nobody_else_and_returns_the_task(nest: Nest) -> None:
    with bystander(nest.site.root) as other, nest.site.driving() as driver:
        nest.settle_down()
        answer = nest.site.fleet("stop")
        left = [pid for pid in nest.pids if running(pid)]
        ended = driver.end()

        assert (answer.status, left) == (0, [])
        assert other.poll() is None
        assert ended.status == 0
        assert nest.is_as_before()
        assert nest.site.alive() == []
        assert nest.site.is_clean()


def test_stop_after_the_driver_was_killed_ends_and_returns_all_the_same(nest: Nest) -> None:
    with nest.site.driving() as driver:
        nest.settle_down()
        driver.kill()
        assert all(running(pid) for pid in nest.pids)
        answer = nest.site.fleet("stop")

        assert answer.status == 0
        assert not any(running(pid) for pid in nest.pids)
        assert nest.is_as_before()
        assert nest.site.is_clean()
        assert "no run is at work" in nest.site.fleet("stop").out


def test_stop_ends_a_driver_that_hangs(nest: Nest) -> None:
    with nest.site.driving() as driver:
        nest.settle_down()
        os.kill(driver.pid, signal.SIGSTOP)
        answer = nest.site.fleet("stop", "--grace", "1")

        assert answer.status == 0
        assert not any(running(pid) for pid in [*nest.pids, driver.pid])
        assert nest.is_as_before()


def test_stop_may_be_said_twice_at_once(nest: Nest) -> None:
    with nest.site.driving():
        nest.settle_down()
        with nest.site.start("stop") as first, nest.site.start("stop") as second:
            first.communicate(timeout=120)
            second.communicate(timeout=120)

        assert (first.returncode, second.returncode) == (0, 0)
        gone(nest.pids)
        assert nest.is_as_before()


def test_stop_with_no_run_is_fine_and_of_an_unknown_run_is_not(tmp_path: Path) -> None:
    site = Site(tmp_path)

    assert site.fleet("stop").status == 0
    assert site.json("stop", "r9", status=4)["code"] == "not_found"


def test_a_drained_run_finishes_what_it_has_and_starts_nothing_more(tmp_path: Path) -> None:
    site = Site(tmp_path)
    first = site.command("while ! [ -e ../go ]; do sleep 0.1; done")
    second = site.command("echo never", "--needs", first)
    with site.driving() as driver:
        wait_until(lambda: site.reached(first, "active"), "it runs")
        assert site.fleet("stop", "--drain").status == 0
        (tmp_path / "go").touch()

        assert driver.end().status == 0
    assert (site.state(first), site.state(second)) == ("done", "inbox")


def test_one_interrupt_drains_and_two_stop(tmp_path: Path) -> None:
    site = Site(tmp_path)
    task = site.command("sleep 600")
    other = site.command("echo later", "--needs", task)
    with site.driving() as driver:
        wait_until(lambda: attempts_of(site) and site.events("started"), "it runs")
        driver.child.send_signal(signal.SIGINT)
        time.sleep(0.5)  # not for luck: a run that took this for the end would be caught by the next line
        assert driver.child.poll() is None
        driver.child.send_signal(signal.SIGINT)
        answer = driver.end()

    assert answer.status == 0
    assert "Ctrl-C again" in answer.err
    assert (site.state(task), site.state(other)) == ("inbox", "inbox")
    assert not any(record["charged"] for record in site.records(task))


def test_a_stopped_check_is_given_up_with_all_that_it_started(tmp_path: Path) -> None:
    site = Site(tmp_path)
    task = site.command("true", "--check", "sleep 600 & echo $! > ../pid; wait")
    with site.driving() as driver:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), "the check runs")
        pid = int((tmp_path / "pid").read_text())
        assert site.fleet("stop").status == 0
        assert driver.end().status == 0

    assert not running(pid)
    assert site.state(task) == "inbox"
    assert not site.record(task)["charged"]


def test_a_check_whose_driver_was_killed_is_ended_by_stop(tmp_path: Path) -> None:
    site = Site(tmp_path)
    task = site.command("true", "--check", "sleep 600 & echo $! > ../pid; wait")
    with site.driving() as driver:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), "the check runs")
        pid = int((tmp_path / "pid").read_text())
        driver.kill()
        assert running(pid)
        path = next(site.dir.glob(f"active/{task}.*"))
        path.write_text(path.read_text().replace("sleep 600 & echo $! > ../pid; wait", "true"))
        assert site.fleet("stop").status == 0

    assert not running(pid)
    assert site.state(task) == "done"


def test_a_worker_may_not_run_or_stop_its_own_fleet(tmp_path: Path) -> None:
    site = Site(tmp_path)

    assert site.json("run", status=2, env={"FLEET_WORKER": "r1-x-w1"})["code"] == "refused"
    assert site.json("stop", status=2, env={"FLEET_WORKER": "r1-x-w1"})["code"] == "refused"


def test_a_worker_directory_that_is_gone_costs_nobody_the_run(tmp_path: Path) -> None:
    site = Site(tmp_path, QUICK)
    task = site.command("if [ -e ../second ]; then echo fine; else touch ../second; sleep 1; fi")
    with site.driving() as driver:
        wait_until((tmp_path / "second").exists, "it runs")
        shutil.rmtree(site.dir / "runs" / "r1" / "workers")
        answer = driver.end()

    assert answer.status == 0
    assert site.state(task) == "done"
    assert site.alive() == []
