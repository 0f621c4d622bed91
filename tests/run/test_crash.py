"""Deaths at any moment: no task is lost, none is done twice, none runs beside itself, and nothing is left behind."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from support import project
from support.gadgets import Gadgets
from support.procs import wait_until
from support.runs import QUICK, Site, attempts_of, overlap

# Fails at once, and leaves a file that says so, if another instance of the same task is at work.
ALONE = (
    "exec 9>>../locks/{n}; flock -n 9 || {{ touch ../twice-{n}; exit 1; }}; "
    "echo $FLEET_TASK $FLEET_GENERATION >> ../effects; sleep 0.3; echo ok"
)


def fill(site: Site, count: int) -> list[str]:
    """Add commands that write down each run of theirs and notice if they are not alone."""
    (site.root.parent / "locks").mkdir()
    return project.fill(site.queue(), [{"target": ALONE.format(n=n), "need": "command"} for n in range(count)])


def effects(site: Site) -> list[str]:
    path = site.root.parent / "effects"
    return path.read_text().splitlines() if path.exists() else []


def settled_once(site: Site, tasks: list[str]) -> None:
    """Fail unless each task is done by exactly one attempt that counts, and every other one is accounted for."""
    assert not list(site.root.parent.glob("twice-*"))
    assert site.counts() == {"done": len(tasks)}
    done = [event["task"] for event in site.events("finished") if event["to"] == "done"]
    assert len(done) == len(set(done)) <= len(tasks)
    seen = effects(site)
    for task in tasks:
        records = site.records(task)
        assert [record["outcome"] for record in records].count("done") == 1
        assert not any(record["charged"] for record in records)
        runs = [line for line in seen if line.split()[0] == task]
        assert len(runs) == len(set(runs)) >= 1  # no lease ever started its command twice
        told = {f"{task} {record['generation']}" for record in records}
        uncharged = [event for event in site.events("reclaimed", "returned") if event["task"] == task]
        assert len(set(runs) - told) <= len(uncharged)


@pytest.mark.slow
def test_a_driver_killed_at_twenty_random_moments_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    site = Site(tmp_path)
    tasks = fill(site, 40)
    chance = random.Random(7)
    hit = 0
    for _ in range(20):
        with site.start("run", "--force", "--max", "4") as driver:
            deadline = time.monotonic() + chance.uniform(0.3, 1.6)
            while driver.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            hit += driver.poll() is None
            driver.kill()
            driver.communicate(timeout=60)
    site.work()

    assert hit >= 10  # otherwise most drivers ended by themselves, and nothing was shown

    settled_once(site, tasks)
    assert site.alive() == []
    assert site.is_clean()


def test_a_worker_whose_driver_dies_goes_on_and_the_next_run_takes_it_over(tmp_path: Path) -> None:
    site = Site(tmp_path)
    task = site.command("echo began >> ../began; while ! [ -e ../go ]; do sleep 0.1; done; echo ended")
    with site.driving() as driver:
        wait_until((tmp_path / "began").exists, "it runs")
        driver.kill()
        with site.driving() as second:
            (tmp_path / "go").touch()
            answer = second.end()

    assert answer.status == 0
    assert "taking over 1 workers of r1" in answer.err
    assert (tmp_path / "began").read_text() == "began\n"
    assert site.state(task) == "done"
    assert site.record(task)["run"] == "r1"
    assert site.is_clean()


def test_a_worker_that_ended_while_no_driver_lived_is_settled_by_the_next(tmp_path: Path) -> None:
    site = Site(tmp_path)
    task = site.command("echo began >> ../began; sleep 0.5; echo ended", "--check", "test -e ../began")
    with site.driving() as driver:
        wait_until((tmp_path / "began").exists, "it runs")
        driver.kill()
        wait_until(lambda: list(site.dir.glob("runs/r1/workers/*/exit.json")), "it ended")
        assert site.state(task) == "active"
        site.work()

    assert site.state(task) == "done"
    assert (tmp_path / "began").read_text() == "began\n"


def test_a_driver_that_dies_while_it_looks_after_another_ones_workers_hands_both_on(tmp_path: Path) -> None:
    site = Site(tmp_path)
    tasks = [site.command(f"echo x >> ../began-{n}; while ! [ -e ../go ]; do sleep 0.1; done") for n in range(2)]
    with site.driving("--max", "1") as first:
        wait_until(lambda: list(tmp_path.glob("began-*")), "the first runs")
        first.kill()
        with site.driving("--max", "2") as second:
            wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 2, "the second runs")
            second.kill()
            (tmp_path / "go").touch()
            site.work()

    assert [site.state(task) for task in tasks] == ["done", "done"]
    assert [(tmp_path / f"began-{n}").read_text() for n in range(2)] == ["x\n", "x\n"]
    assert attempts_of(site) == []


def test_a_worker_whose_driver_dies_in_the_moment_of_its_start_is_found_and_settled(tmp_path: Path) -> None:
    site = Site(tmp_path)
    gadgets = Gadgets(site, tmp_path)
    task = site.command("echo x >> ../began; sleep 1", "--lane", "deadly")
    with site.driving(env=gadgets.env) as driver:
        assert driver.end().status == -9
        wait_until((tmp_path / "began").exists, "the worker goes on")
        site.work(env=gadgets.env)

    assert site.state(task) == "done"
    assert (tmp_path / "began").read_text() == "x\n"
    assert site.record(task)["worker"] == "r1-w1"
    assert site.is_clean()


def test_a_keeper_that_is_killed_returns_its_task_uncharged(tmp_path: Path) -> None:
    site = Site(tmp_path, QUICK)
    task = site.command("if [ -e ../began ]; then echo again; else touch ../began; sleep 600; fi")
    with site.driving() as driver:
        wait_until((tmp_path / "began").exists, "it runs")
        (attempt,) = attempts_of(site)
        os.kill(attempt.worker.pid, 9)
        answer = driver.end()

    assert answer.status == 0
    assert site.state(task) == "done"
    assert not any(record["charged"] for record in site.records(task))
    assert site.alive() == []


def test_two_drivers_at_once_share_the_work(tmp_path: Path) -> None:
    site = Site(tmp_path)
    tasks = fill(site, 12)
    with site.driving() as first, site.driving() as second:
        answers = [first.end(), second.end()]

    assert [answer.status for answer in answers] == [0, 0]
    settled_once(site, tasks)
    assert len(effects(site)) == len(tasks)
    assert site.is_clean()


def test_a_driver_dies_beside_another_which_takes_its_workers_over(tmp_path: Path) -> None:
    site = Site(tmp_path)
    held = site.command("touch ../held; while ! [ -e ../go ]; do sleep 0.1; done")
    other = site.command("echo after", "--needs", held)
    with site.driving() as first:
        wait_until((tmp_path / "held").exists, "it runs")
        with site.driving() as second:
            wait_until(lambda: len(list(site.dir.glob("runs/r*"))) == 2, "both are there")
            first.kill()
            (tmp_path / "go").touch()
            answer = second.end()

    assert answer.status == 0
    assert [site.state(task) for task in (held, other)] == ["done", "done"]


def test_a_driver_works_beside_agents_that_claim_by_themselves(tmp_path: Path) -> None:
    site = Site(tmp_path)
    tasks = fill(site, 8)
    claimed = [site.json("claim", "hand", "--owner", str(os.getpid()))["id"] for _ in range(2)]
    with site.driving() as driver:
        wait_until(lambda: site.counts().get("done") == 6, "the rest is done")
        for task in claimed:
            site.json("done", task, "--agent", "hand", "--result", "I did it by hand")
        answer = driver.end()

    assert answer.status == 0
    assert site.counts() == {"done": 8}
    assert {event["task"] for event in site.events("started")} == set(tasks) - set(claimed)
    spans = [span for each in site.intervals().values() for span in each]
    assert any(overlap(one, other) for one in spans for other in spans if one != other)
    assert site.is_clean()
