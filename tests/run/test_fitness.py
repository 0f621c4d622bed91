"""A slot or a machine on which attempts break off in a row rests, tells so, and comes back by one attempt that tries."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fleet import identity
from agent_fleet.config import Config
from agent_fleet.health import Part
from agent_fleet.model import Outcome, OutcomeKind, Worker
from agent_fleet.run import fitness
from agent_fleet.run.roster import Attempt
from support.procs import wait_until
from support.runs import Site

# breaks off while the file is there, with words that explain it
FRAIL = """
import os, signal, sys
print("I looked at it.", flush=True)
if os.path.exists(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
"""
HERE = identity.identity_of().rpartition(":")[2]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    argv = json.dumps([sys.executable, "-I", "-S", "-c", FRAIL, str(tmp_path / "broken")])
    run = "[run]\nstagger = 0\ngrace = 2\n[queue]\nmax_attempts = 1\n[health]\nrest = 3000.0\n"
    site.configure(f'{run}[providers]\ndefault = "frail"\n[agents.frail]\nargv = {argv}\n')
    return site


def attempt(task: str = "t1", node: str = HERE, provider: str = "frail") -> Attempt:
    worker = Worker(id="w", lane="headless", pid=1, identity=f"1:1:b:n:{node}")
    return Attempt(
        *("r1-1", "", "", task, 1, "headless", provider, "", "", 0.0),
        worker=worker,
    )


def ended(site: Site, kind: OutcomeKind, count: int, *, slot: int = 0, node: str = HERE, at: float = 0.0) -> None:
    """Put so many attempts at different tasks on record."""
    for n in range(count):
        about = (site.queue(), Config("", ""), attempt(f"t{n}", node), Outcome(kind=kind), 2.0)
        fitness.note(*about, slot=slot, ended_by_us=False, now=(at or time.time()) + n / 1000)


def test_a_machine_that_breaks_them_off_rests_says_so_and_comes_back_by_one_attempt(site: Site, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    tasks = [site.add(f"task {n}") for n in range(8)]
    with site.driving("--max", "2") as driver:
        wait_until(lambda: any(row["state"] == "out" for row in health(site)), "the machine rests")
        (row,) = (row for row in health(site) if row["part"] == "node")
        assert (row["name"], row["state"]) == ("this machine", "out")
        planned = site.json("plan", "--max", "2")
        assert planned["binding"]["name"] == "node"
        assert "crashed" in planned["binding"]["why"]
        assert "node this machine" in site.fleet("watch", "--once").out
        waiting = [task for task in tasks if site.reached(task, "inbox")]
        assert waiting
        assert "node" in [each["name"] for each in site.json("why", waiting[0])["reasons"]]
        broken.unlink()
        file = site.dir / fitness.FILE
        file.write_text(
            json.dumps({name: told | {"rests": 0.0} for name, told in json.loads(file.read_text()).items()})
        )
        answer = driver.end()
    assert answer.status == 1, "those that broke off have failed"
    assert all(site.reached(task, "done") for task in waiting)
    (row,) = (row for row in health(site) if row["part"] == "node")
    assert row["state"] == "in"


def health(site: Site) -> list[dict[str, Any]]:
    return fitness.rows(site.queue())


def test_a_slot_that_fails_is_passed_over_and_another_machine_says_nothing_of_this_one(site: Site) -> None:
    ended(site, "failed", 4, slot=0)
    ended(site, "crashed", 4, slot=1, node="elsewhere")
    assert fitness.unfit_slots(site.queue()) == frozenset({0})
    assert fitness.ceiling(site.queue(), []) is None
    task = site.add("say it")
    site.work("--max", "1")
    assert site.reached(task, "done")
    (slot,) = (row for row in health(site) if row["part"] == "slot" and row["name"] == "1")
    assert (slot["state"], slot["failure_rate"]) == ("in", 0.0)


def test_probation_lets_one_start_beside_what_other_machines_do(site: Site) -> None:
    ended(site, "timeout", 4, at=time.time() - 3600)
    here, there = attempt(), attempt(node="elsewhere")
    found = fitness.ceiling(site.queue(), [here, there, there])
    assert found is not None
    assert found.workers == 3


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"node x": {}}',
        '{"moon x": {"recent": []}}',
        '{"node x": {"rests": 0, "recent": [], "row": [], "well": 1e999}}',
    ],
)
def test_a_file_that_cannot_be_read_is_set_aside_and_stops_nobody(site: Site, text: str) -> None:
    (site.dir / fitness.FILE).write_text(text)
    assert fitness.ceiling(site.queue(), []) is None
    assert not (site.dir / fitness.FILE).exists()
    ended(site, "crashed", 4)
    assert fitness.read(site.queue())[Part("node", HERE)].out


def test_what_we_ended_ourselves_and_shell_commands_blame_nothing(site: Site) -> None:
    queue = site.queue()
    for provider, ours in (("frail", True), ("command", False)):
        for n in range(9):
            about = (queue, Config("", ""), attempt(f"t{n}", provider=provider), Outcome(kind="crashed"), 1.0)
            fitness.note(*about, slot=0, ended_by_us=ours)
    assert fitness.read(queue) == {}
