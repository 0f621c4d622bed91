"""A worker that lost its lease changes nothing; who holds a lease can prove it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fleet.errors import FleetError
from agent_fleet.queue import finish, records
from agent_fleet.queue.conclusion import Ending, conclude
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue
from support.project import BOOT, Project, enlist, fill, take

REPORTS = {
    "done": ("--result", "it said yes"),
    "block": ("--reason", "login required: example.com"),
    "fail": ("--reason", "it broke"),
    "heartbeat": (),
}


def stale(project: Project) -> str:
    """A task that A held until it was reset, and that B holds now."""
    task = project.add("something")
    assert project.json("claim", "A")["generation"] == 1
    assert project.json("reset", "--older-than", "0")["reset"] == [task]
    assert project.json("claim", "B")["generation"] == 2
    return task


@pytest.mark.parametrize("proof", [("--generation", "1"), ("--agent", "A")], ids=["generation", "agent"])
@pytest.mark.parametrize("verb", REPORTS)
def test_a_worker_that_lost_its_lease_is_refused_and_nothing_moves(
    project: Project, verb: str, proof: tuple[str, str]
) -> None:
    task = stale(project)
    before = project.place(task)
    refused = project.json(verb, task, *REPORTS[verb], *proof, status=2)
    assert refused["ok"] is False
    assert refused["code"] == "lease_lost"
    assert "lease lost" in refused["error"]
    assert project.place(task) == before
    assert project.json("done", task, "--result", "B did it", "--generation", "2")["state"] == "done"
    late = project.json(verb, task, *REPORTS[verb], *proof, status=2)
    assert late["code"] == "lease_lost"
    assert project.state(task) == "done"
    (attempt,) = project.json("show", task)["attempts"]
    assert (attempt["agent"], attempt["result"]) == ("B", "B did it")
    assert project.json("verify")["faults"] == []


def test_the_environment_of_a_worker_proves_its_lease(project: Project) -> None:
    task = stale(project)
    old = {"FLEET_TASK": task, "FLEET_GENERATION": "1"}
    new = {"FLEET_TASK": task, "FLEET_GENERATION": "2"}
    assert project.json("done", task, "--result", "x", env=old, status=2)["code"] == "lease_lost"
    assert project.json("heartbeat", task, env=new)["generation"] == 2
    assert project.json("done", task, "--result", "x", env=new)["state"] == "done"


def test_a_result_that_comes_too_late_is_kept_beside_the_truth(queue: Queue) -> None:
    (task,) = fill(queue, ["something"])
    claimed = take(queue, enlist(queue))
    assert claimed
    place = queue.require(task)
    finish.hand_back(queue, task, Proof(force=True), "reset by a person")
    again = take(queue, enlist(queue, "other"))
    assert again
    record = {"outcome": "done", "result": "late"}
    (fate,) = conclude(queue, [Ending(task, place, "done", record, None)])
    assert isinstance(fate, FleetError)
    assert fate.code == "lease_lost"
    assert queue.require(task).generation == 2
    assert records.outcomes(queue, task) == []
    late = Path(queue.path("records", "0000000", f"{task}.g1.late.json"))
    assert json.loads(late.read_text())["result"] == "late"


class Snatched(Queue):
    """A queue on a file system without locks: somebody takes the task between the record and the rename."""

    def move(self, source: str, target: str) -> bool:
        os.rename(source, source.replace("active/t1.g1+", "active/t1.g2+"))
        return super().move(source, target)


def test_a_record_whose_task_was_snatched_before_the_rename_is_no_truth(queue: Queue) -> None:
    (task,) = fill(queue, ["something"])
    assert take(queue, enlist(queue))
    with pytest.raises(FleetError) as caught:
        finish.finish(Snatched(queue.dir), task, Proof(generation=1), "done", {"outcome": "done", "result": "late"})

    assert caught.value.code == "lease_lost"
    assert records.outcomes(queue, task) == []
    assert Path(queue.path("records", "0000000", f"{task}.g1.late.json")).exists()


@pytest.mark.parametrize("verb", REPORTS)
def test_a_task_that_nobody_holds_takes_no_report(project: Project, verb: str) -> None:
    task = project.add("something")
    before = project.files()
    refused = project.json(verb, task, *REPORTS[verb], status=2)
    assert refused["code"] == "not_active"
    assert refused["hint"]
    assert project.files() == before


@pytest.mark.parametrize("state", ["done", "blocked", "failed"])
@pytest.mark.parametrize("extra", [(), ("--force",), ("--generation", "1"), ("--agent", "A")], ids=str)
def test_a_task_is_reported_done_from_no_state_but_active(project: Project, state: str, extra: tuple[str, ...]) -> None:
    task = project.add("something")
    project.json("claim", "A")
    end = {"done": ("done", "--result"), "blocked": ("block", "--reason"), "failed": ("fail", "--final", "--reason")}
    verb, *options = end[state]
    project.json(verb, task, *options, "because")
    before = project.files()
    refused = project.json("done", task, "--result", "again", *extra, status=2)
    assert refused["code"] in ("not_active", "lease_lost")
    assert project.state(task) == state
    assert project.files() == before


def test_an_unknown_task_is_not_found(project: Project) -> None:
    assert project.json("done", "t99", "--result", "x", status=4)["code"] == "not_found"
    assert project.json("done", "nonsense", "--result", "x", status=4)["code"] == "not_found"


def test_somebody_who_proves_nothing_is_refused_and_force_is_recorded(project: Project) -> None:
    task = project.add("something")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        project.json("claim", "A", "--owner", str(other.pid))
        before = project.place(task)
        for verb, options in REPORTS.items():
            assert project.json(verb, task, *options, status=2)["code"] == "not_holder"
        assert project.place(task) == before
        project.json("done", task, "--result", "I saw it myself", "--force")
        shown = project.json("show", task)
        other.communicate(b"\n")
    assert shown["attempts"][0]["forced"] is True
    assert [event.get("forced") for event in shown["history"] if event["event"] == "finished"] == [True]


def test_the_process_that_claimed_reports_without_any_proof(project: Project) -> None:
    """The agent's shell and fleet itself stand between; the owner is the agent above them."""
    tasks = [project.add("one"), project.add("two")]
    agent = (
        "import subprocess, sys\n"
        f"def fleet(*a): return subprocess.run([sys.executable, '-c', {BOOT!r}, *a], capture_output=True, text=True)\n"
        "print(fleet('claim', 'A').returncode)\n"
        f"print(fleet('heartbeat', {tasks[0]!r}).returncode)\n"
        f"print(fleet('done', {tasks[0]!r}, '--result', 'seen').returncode)\n"
        "print(fleet('claim', 'A').returncode)\n"
        f"print(fleet('fail', {tasks[1]!r}, '--reason', 'broke').returncode)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", agent],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == ["0"] * 5
    assert project.state(tasks[0]) == "done"
    assert project.state(tasks[1]) == "inbox"


def test_an_attempt_is_charged_for_a_failure_and_for_nothing_else(project: Project) -> None:
    task = project.add("something")
    for reason in ("one", "two"):
        project.json("claim", "A")
        project.json("block", task, "--reason", "needs answer: which?")
        project.json("unblock", task, "--answer", "this one")
        project.json("claim", "A")
        project.json("reset", task)
        project.json("claim", "A")
        answer = project.json("fail", task, "--reason", reason)
        assert answer["state"] == "inbox"
    assert project.json("claim", "A")["answers"] == ["this one", "this one"]
    last = project.json("fail", task, "--reason", "three")
    assert (last["state"], last["attempt"]) == ("failed", 3)
    reasons = [each["reason"] for each in project.json("show", task)["attempts"] if each["charged"]]
    assert reasons == ["one", "two", "three"]
    assert project.json("verify")["faults"] == []


def test_a_report_of_nothing_is_refused(project: Project) -> None:
    task = project.add("something")
    project.json("claim", "A")
    for verb, option in (("done", "--result"), ("block", "--reason"), ("fail", "--reason")):
        assert project.json(verb, task, option, "  ", status=2)["code"] == "bad_input"
    assert project.state(task) == "active"
