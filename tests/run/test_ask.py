"""`fleet run --ask`: workers may ask where a person can type to them, and nowhere else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agent_fleet.identity import identity_of
from agent_fleet.model import Task
from agent_fleet.run.prompt import compose
from agent_fleet.testing import FleetProject

GLASS = """
import sys
from dataclasses import replace

from agent_fleet.api import hookimpl, is_alive, start_detached, stop_tree

ON_A_TERMINAL = (sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])")

class Glass:
    name = "glass"
    limit = None
    foreground = False
    terminal = True

    def usable(self):
        return None
    def show(self, worker):
        with open(worker.handle + ".shown", "w"):
            return None
    def start(self, launch):
        return start_detached(replace(launch, argv=(*ON_A_TERMINAL, *launch.argv)), lane=self.name)
    def alive(self, worker):
        return is_alive(worker.identity)
    def stop(self, worker, grace):
        return stop_tree(worker.identity, worker.handle, grace)

@hookimpl
def fleet_lanes():
    yield Glass()
"""
READER = '[agents.reader]\nargv = ["sh", "-c", "head -n 4; sleep ${SLOW:-0}"]\nprompt = "stdin"\n'


@pytest.fixture
def project(fleet_project: FleetProject) -> FleetProject:
    (fleet_project.site / "fleet_glass.py").write_text(GLASS)
    fleet_project.offer("lanes", "glass", "fleet_glass")
    fleet_project.configure(READER)
    return fleet_project


def test_where_nobody_could_be_asked_it_is_refused_with_the_way_out(project: FleetProject) -> None:
    project.add("look", "--provider", "reader")
    for lane in ((), ("--lane", "headless"), ("--dry-run",)):
        refused = project.run("--ask", *lane)
        assert refused.status == 2
        assert refused.json["error"] == "--ask needs workers at a terminal: in lane headless nobody could be asked"
        assert "--lane terminal" in refused.json["hint"]
    assert project.cli("status").json["counts"]["inbox"] == 1


def test_at_a_terminal_the_prompt_says_that_a_person_is_there_and_only_with_ask(project: FleetProject) -> None:
    tasks = [project.add("look", "--provider", "reader", *lane) for lane in ((), ("--lane", "glass"))]
    project.run("--max", "2")
    assert all("Nobody is watching" in project.show(task)["attempts"][-1]["result"] for task in tasks)

    project.configure(READER + '[lanes]\nagent = "glass"\n')
    asked = project.add("look", "--provider", "reader")
    alone = project.add("look", "--provider", "reader", "--lane", "headless")
    assert project.run("--ask", "--max", "2").json["states"] == {"done": 2}
    assert "A person sits at this terminal and can be asked" in project.show(asked)["attempts"][-1]["result"]
    assert "Nobody is watching" in project.show(alone)["attempts"][-1]["result"]


def test_only_the_first_lines_of_the_rules_differ() -> None:
    task = Task(id="t1", target="look")
    alone, asked = (compose(task, nonce="n1", ask=ask).splitlines() for ask in (False, True))
    assert [row for row in alone if row not in asked] == alone[:1]
    assert alone[1:] == asked[len(asked) - len(alone) + 1 :]


def crew_of(project: FleetProject, lane: str) -> Path:
    """A session that claims for itself, as a run writes it down; this process stands for it. Returns its log."""
    directory = project.root / ".agents" / "runs" / "r1" / "workers" / "w1"
    directory.mkdir(parents=True)
    log = project.root / ".agents" / "logs" / "r1-w1.log"
    worker = {
        "id": "r1-w1",
        "lane": lane,
        "pid": os.getpid(),
        "identity": identity_of(),
        "handle": str(directory / "x"),
    }
    fields = {"id": "r1-w1", "dir": "", "mark": "r1-none-w1", "task": "", "generation": 0, "lane": lane, "nonce": "n"}
    record = {**fields, "provider": "scripted", "log": str(log), "started": 1.0, "session": "", "worker": worker}
    (directory / "worker.json").write_text(json.dumps(record))
    return log


def test_a_session_that_is_still_open_is_named_and_can_be_brought_before_the_person(project: FleetProject) -> None:
    log = crew_of(project, "glass")
    painted = "\x1b[2J\x1b[3;1Hpainted\x1b[5;1Hrows"
    log.write_text('{"type": "text", "text": "There are two accounts."}\n' + painted + "\n")
    task = project.add("look")
    project.cli("claim", "r1-w1-2", "--owner", str(os.getpid()))
    project.cli("block", task, "--reason", "needs answer: which account?", "--agent", "r1-w1-2")

    ((found,),) = [group["tasks"] for group in project.cli("blocked").json["groups"]]
    assert found["said"] == ["There are two accounts.", "painted", "rows"]
    assert (found["worker"], found["lane"]) == ("r1-w1", "glass")
    text = project.cli("blocked", env={"FLEET_FORMAT": "human"}).out
    assert f"its session is open: r1-w1 in lane glass; fleet blocked --show {task}" in text
    assert project.cli("blocked", "--show", task).json["worker"] == "r1-w1"
    assert (project.root / ".agents" / "runs" / "r1" / "workers" / "w1" / "x.shown").exists()
    assert project.cli("log", task).json["lines"] == found["said"]

    (project.root / ".agents" / "runs" / "r1" / "workers" / "w1" / "exit.json").write_text('{"code": 0}')
    assert project.cli("blocked", "--show", task).json["code"] == "not_found"
    assert "its session is open" not in project.cli("blocked", env={"FLEET_FORMAT": "human"}).out
