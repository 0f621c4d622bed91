"""Workers and disks that misbehave: the driver stays small, goes on, and loses nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.procs import wait_until
from support.runs import QUICK, Site

MIB = 1 << 20


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def most_memory(pid: int) -> int:
    """The largest resident size of a running process so far, in bytes; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


@pytest.mark.parametrize(
    "script",
    [
        "yes '' | head -c 50000000",
        "yes 'a line of a log that says nothing much' | head -c 50000000",
        "head -c 50000000 /dev/zero | tr '\\\\0' x; echo",
    ],
    ids=["empty lines", "lines", "one line"],
)
def test_a_worker_that_prints_fifty_megabytes_leaves_the_driver_small_and_is_done(site: Site, script: str) -> None:
    task = site.command(script)
    other = site.command("echo beside")
    most = 0
    with site.driving() as driver:
        while driver.child.poll() is None:
            most = max(most, most_memory(driver.pid))
            time.sleep(0.05)
        answer = driver.end()

    assert answer.status == 0
    assert (site.state(task), site.state(other)) == ("done", "done")
    assert os.path.getsize(site.dir / "logs" / f"{task}.g1.log") >= 50_000_000
    assert 0 < most < 150 * MIB
    assert len(site.record(task)["result"]) < 20_000


def test_a_log_that_is_gone_is_no_evidence(site: Site) -> None:
    site.configure(QUICK + "[queue]\nmax_attempts = 1\n")
    task = site.command("echo evidence; touch ../began; while ! [ -e ../go ]; do sleep 0.1; done")
    with site.driving() as driver:
        wait_until((site.root.parent / "began").exists, "it runs")
        (site.dir / "logs" / f"{task}.g1.log").unlink()
        (site.root.parent / "go").touch()
        answer = driver.end()

    assert answer.status == 1
    assert site.state(task) == "failed"
    assert site.record(task)["outcome"] == "unknown"
    assert "cannot be read" in site.record(task)["reason"]


def test_a_directory_or_a_pipe_in_the_place_of_a_log_stops_nobody(site: Site) -> None:
    site.configure(QUICK + "[queue]\nmax_attempts = 1\n")
    tasks = [site.command(f"touch ../began-{n}; while ! [ -e ../go ]; do sleep 0.1; done") for n in range(2)]
    with site.driving() as driver:
        wait_until(lambda: len(list(site.root.parent.glob("began-*"))) == 2, "both run")
        for number, task in enumerate(tasks):
            log = site.dir / "logs" / f"{task}.g1.log"
            log.unlink()
            log.mkdir() if number else os.mkfifo(log)
        (site.root.parent / "go").touch()
        driver.end()

    assert [site.state(task) for task in tasks] in (["failed", "failed"], ["done", "failed"])
    assert site.is_clean()


def test_what_stands_in_the_queue_and_is_no_task_stops_nobody(site: Site) -> None:
    task = site.command("echo fine")
    track = next(site.dir.glob("inbox/*"))
    (track / "0000000" / "_" / "t9.g0.json").write_text("{ no json")
    (site.dir / "inbox" / "stranger").write_text("x")
    (site.dir / "runs" / "r7").write_text("not a directory")
    site.work()

    assert site.state(task) == "done"


def small_disk(directory: Path, size: int) -> bool:
    """Mount a small file system here; False where that is not allowed."""
    directory.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(directory)], capture_output=True, check=False
    )
    return done.returncode == 0


def test_a_disk_that_fills_up_during_a_run_ends_it_clearly_and_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    if not small_disk(disk, 24 * MIB):
        pytest.skip("this user may not mount a file system")
    try:
        site = Site(disk)
        shutil.move(site.home, tmp_path / "home")  # the state of the machine lies elsewhere
        site.home = tmp_path / "home"
        tasks = [
            site.command(f"touch {tmp_path}/began-{n}; while ! [ -e {tmp_path}/go ]; do sleep 0.1; done")
            for n in range(6)
        ]
        with site.driving() as driver:
            wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 4, "four run")
            with open(disk / "ballast", "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    pass
            (tmp_path / "go").touch()
            answer = driver.end(200)
        assert answer.status == 1
        assert "No space left" in answer.err + answer.out
        (disk / "ballast").unlink()
        site.work()

        assert {site.state(task) for task in tasks} == {"done"}
        assert site.alive() == []
        assert site.is_clean()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_an_idle_driver_with_eight_workers_costs_little(site: Site) -> None:
    for _ in range(8):
        site.command("sleep 600")
    with site.driving("--max", "8") as driver:
        wait_until(lambda: len(site.events("started")) == 8, "all run")
        time.sleep(1)  # let the starts be over; what is measured is the waiting
        before = cpu_seconds(driver.pid)
        begun = time.monotonic()
        time.sleep(8)
        used = (cpu_seconds(driver.pid) - before) / (time.monotonic() - begun)

    assert used < 0.08, f"{used:.1%} of a core, on {sys.platform}"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
