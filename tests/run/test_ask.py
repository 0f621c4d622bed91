"""`fleet run --ask`: workers may ask where a person can type to them, and nowhere else."""

from __future__ import annotations

import pytest

from agent_fleet.model import Task
from agent_fleet.run.prompt import compose
from agent_fleet.testing import FleetProject

GLASS = """
from agent_fleet.api import hookimpl, is_alive, start_detached, stop_tree

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
        return start_detached(launch, lane=self.name)
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
