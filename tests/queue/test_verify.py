"""The journal against the directories: every damage is named, and every gap of a single crash is recognised as one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent_fleet.queue.store import Queue
from agent_fleet.queue.verify import verify
from support.project import Project, fill

STORY = (
    ("add", "one"),
    ("add", "two"),
    ("add", "three"),
    ("claim", "A"),
    ("claim", "A"),
    ("claim", "A"),
    ("block", "t1", "--reason", "login required: x"),
    ("unblock", "t1"),
    ("claim", "A"),
    ("done", "t1", "--result", "seen"),
    ("fail", "t2", "--reason", "broke"),
    ("claim", "A"),
    ("fail", "t2", "--reason", "broke", "--final"),
    ("reset", "t2"),
    ("reset", "t3"),
    ("claim", "A"),
)


def lines_of(project: Project) -> list[bytes]:
    return (project.dir / "journal.jsonl").read_bytes().splitlines(keepends=True)


def test_every_single_missing_line_is_a_note_and_never_a_fault(project: Project) -> None:
    """A process that dies between its rename and its line leaves exactly this; the story has every kind of transition."""
    for length in range(1, len(STORY) + 1):
        (answer,) = project.script(STORY[length - 1])
        assert answer.status == 0, answer
        whole = lines_of(project)
        clean = verify(project.queue())
        assert clean.faults == clean.notes == [], length
        (project.dir / "journal.jsonl").write_bytes(b"".join(whole[:-1]))
        gap = verify(project.queue())
        assert gap.faults == []
        assert len(gap.notes) == 1, (STORY[length - 1], gap.notes)
        (project.dir / "journal.jsonl").write_bytes(b"".join(whole))
    for missing in range(len(lines_of(project))):
        whole = lines_of(project)
        (project.dir / "journal.jsonl").write_bytes(b"".join(whole[:missing] + whole[missing + 1 :]))
        assert verify(project.queue()).faults == []
        (project.dir / "journal.jsonl").write_bytes(b"".join(whole))
    assert project.json("verify")["faults"] == []


def test_lines_that_two_processes_wrote_in_either_order_are_no_fault(project: Project) -> None:
    for command in STORY[:11]:
        assert project.script(command)[0].status == 0
    whole = lines_of(project)
    for first in range(len(whole) - 1):
        swapped = [*whole[:first], whole[first + 1], whole[first], *whole[first + 2 :]]
        (project.dir / "journal.jsonl").write_bytes(b"".join(swapped))
        assert verify(project.queue()).faults == []


@pytest.fixture
def told(project: Project) -> Project:
    """t1 done, t2 blocked, t3 active, t4 waiting."""
    story = [("add", "x")] * 4 + [("claim", "A")] * 3
    answers = project.script(*story, ("done", "t1", "--result", "seen"), ("block", "t2", "--reason", "2fa: x"))
    assert {answer.status for answer in answers} == {0}
    return project


def faults(project: Project) -> list[str]:
    refused = project.json("verify", status=1)
    assert refused["code"] == "corrupt"
    return [str(detail) for detail in refused["details"]]


@pytest.mark.parametrize("task", ["t1", "t2", "t3", "t4"])
def test_a_lost_task_is_named(told: Project, task: str) -> None:
    (told.dir / told.place(task)).unlink()
    (fault,) = faults(told)
    assert f"{task} is lost" in fault


@pytest.mark.parametrize("task", ["t1", "t2", "t4"])
def test_a_task_in_two_places_is_named(told: Project, task: str) -> None:
    target = told.dir / "failed" / "0000000"
    target.mkdir(exist_ok=True)
    shutil.copy(told.dir / told.place(task), target / f"{task}.g1.json")
    assert any(f"{task} is in two places" in fault for fault in faults(told))


def test_a_lowered_lease_is_named(told: Project) -> None:
    active = told.dir / told.place("t3")
    active.rename(active.with_name(active.name.replace(".g1+", ".g0+")))
    (fault,) = faults(told)
    assert "t3" in fault
    assert "lowered" in fault


def test_a_done_task_without_a_record_is_named(told: Project) -> None:
    (told.dir / "records" / "0000000" / "t1.g1.json").unlink()
    (fault,) = faults(told)
    assert "t1 is done, but nothing on record" in fault


def test_a_task_that_was_put_into_done_by_hand_is_named(told: Project) -> None:
    waiting = told.dir / told.place("t4")
    waiting.rename(told.dir / "done" / "0000000" / waiting.name)
    assert any("t4" in fault and "no step leads there" in fault for fault in faults(told))


def test_a_done_task_from_elsewhere_is_named(told: Project) -> None:
    body = json.loads((told.dir / told.place("t1")).read_text()) | {"id": "t77"}
    (told.dir / "done" / "0000000" / "t77.g1.json").write_text(json.dumps(body))
    assert any("t77" in fault and "never saw it added" in fault for fault in faults(told))


def test_a_task_that_was_finished_and_given_out_again_is_named(told: Project) -> None:
    done = told.dir / told.place("t1")
    done.rename(told.dir / "inbox" / "5.agent" / "0000000" / "_" / "t1.g2.json")
    (fault,) = faults(told)
    assert "a finished task was given out again" in fault


def test_a_task_that_was_done_under_two_leases_is_named(told: Project) -> None:
    line = {"at": 1, "event": "finished", "task": "t1", "gen": 7, "to": "done"}
    with (told.dir / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps(line) + "\n")
    assert any("t1 was done twice" in fault for fault in faults(told))


def test_a_journal_line_that_says_nothing_is_named(told: Project) -> None:
    with (told.dir / "journal.jsonl").open("a") as journal:
        journal.write('{"event":"finished","task":"t3","gen":"?","to":"nowhere"}\n')
    assert any("says nothing that can be understood" in fault for fault in faults(told))


def test_verifying_changes_nothing(queue: Queue) -> None:
    fill(queue, ["one", "two"])
    before = sorted(Path(queue.dir).rglob("*"))
    verify(queue)
    assert sorted(Path(queue.dir).rglob("*")) == before
