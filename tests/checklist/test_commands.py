"""`from-note`, `to-note` and `init --checklist`, as typed."""

from __future__ import annotations

import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_fleet import cli
from agent_fleet.checklist import page
from agent_fleet.commands import from_note
from agent_fleet.queue import finish
from agent_fleet.queue.finish import Proof
from support.project import Project, enlist, git, take

NOTE = """\
# Mine

## READY

- [ ] !! First thing
  why
  check: true
- [ ] Second thing
  needs: First thing
  touches: src/
- [ ] Same
- [ ] Same
- [ ] ? Which one
- [x] Old

## Ideas

- [ ] Not yet
"""


def write(project: Project, text: str, name: str = "TASKS.md") -> Path:
    path = project.root / name
    path.write_bytes(text.encode())
    return path


def added(answer: dict[str, Any]) -> list[str]:
    return [each["target"] for each in answer["added"]]


def work(project: Project, count: int, state: str = "done", **record: Any) -> list[str]:
    """Claim tasks and end them all in one state."""
    queue = project.queue()
    worked = []
    for _ in range(count):
        claimed = take(queue, enlist(queue))
        assert claimed is not None
        whole = {"outcome": state, "result": "it `works`\nwell <!-- ", "charged": False, **record}
        finish.finish(queue, claimed.task, Proof(generation=claimed.generation), state, whole)
        worked.append(claimed.task)
    queue.journal.close()
    return worked


def test_a_note_becomes_tasks_once(project: Project) -> None:
    write(project, NOTE)
    dry = project.json("from-note", "--dry-run")
    assert project.json("status")["counts"]["inbox"] == 0
    first = project.json("from-note")
    assert added(first) == added(dry) == ["First thing", "Second thing", "Same", "Same"]
    assert [each["id"] for each in dry["added"]] == [None] * 4
    assert [each["line"] for each in first["added"]] == [5, 8, 11, 12]
    assert ([each["line"] for each in first["left"]], first["elsewhere"]) == ([13], {"Ideas": 1})
    again = project.json("from-note")
    assert (added(again), again["known"], again["gone"]) == ([], 4, [])
    task = project.json("show", "t2")["task"]
    assert (task["needs"], task["touches"], task["trust"]) == (["t1"], ["src"], "person")
    assert task["source"].startswith("TASKS.md#")
    assert project.json("show", "t1")["task"]["notes"] == "why"
    assert (project.root / "TASKS.md").read_text() == NOTE


def test_many_at_once_add_each_item_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, "".join(f"- [ ] item {at}\n" for at in range(20)))
    look, start = from_note._look, threading.Barrier(3)

    def slow_look(*arguments: Any) -> Any:
        found = look(*arguments)
        time.sleep(0.2)  # whoever may look now, before this one has added, does
        return found

    def add() -> None:
        start.wait(30)
        assert cli.run(["from-note", "--project", str(project.root)]) == 0

    monkeypatch.setattr(from_note, "_look", slow_look)
    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(add) for _ in range(3)]:
            future.result(timeout=60)
    assert project.json("status")["counts"]["inbox"] == 20


@pytest.mark.parametrize("state", ["inbox", "active", "done", "blocked", "failed"])
def test_an_item_is_known_whatever_became_of_its_task(project: Project, state: str) -> None:
    write(project, "- [ ] one\n")
    project.json("from-note")
    if state == "active":
        project.json("claim", "w", "--owner", "1")
    elif state != "inbox":
        work(project, 1, state)
    assert project.state("t1") == state
    assert added(project.json("from-note")) == []


def test_a_finished_task_ticks_its_item_with_what_was_observed(project: Project) -> None:
    path = write(project, NOTE)
    project.json("from-note")
    assert work(project, 2) == ["t1", "t2"]
    answer = project.json("to-note")
    assert [each["id"] for each in answer["ticked"]] == ["t1", "t2"]
    day = path.read_text().split("\n- ")[-1][:10]
    log = "".join(
        f"- {day} {task} {text}: `it 'works' well <!--`\n"
        for task, text in (("t1", "First thing"), ("t2", "Second thing"))
    )
    ticked = NOTE.replace("[ ] !! First", "[x] !! First").replace("[ ] Second", "[x] Second")
    assert path.read_text() == f"{ticked}\n## Log\n\n{log}"
    assert project.json("to-note")["ticked"] == []
    assert work(project, 1) == ["t3"]
    project.json("to-note")
    assert path.read_text().startswith(f"{ticked.replace('[ ] Same', '[x] Same', 1)}\n## Log\n\n{log}- ")
    assert path.read_text().count("## Log") == 1
    assert added(project.json("from-note")) == []


@pytest.mark.parametrize("state", ["blocked", "failed"])
def test_what_did_not_end_well_is_not_ticked(project: Project, state: str) -> None:
    path = write(project, NOTE)
    project.json("from-note")
    work(project, 1, state)
    assert project.json("to-note")["ticked"] == []
    assert path.read_text() == NOTE


def test_done_without_a_word_is_no_evidence_but_a_check_is(project: Project) -> None:
    path = write(project, "- [ ] a\n- [ ] b\n")
    project.json("from-note")
    work(project, 1, result="  ")
    work(project, 1, result="", check={"command": "make check", "code": 0})
    answer = project.json("to-note")
    assert ([each["id"] for each in answer["ticked"]], answer["unproved"]) == (["t2"], ["t1"])
    assert path.read_text().startswith("- [ ] a\n- [x] b\n")
    assert "t2 b: `passed: make check`" in path.read_text()


def test_an_item_that_the_person_opens_again_is_new_work(project: Project) -> None:
    path = write(project, "- [ ] water the plants\n")
    project.json("from-note")
    work(project, 1)
    project.json("to-note")
    path.write_text(path.read_text().replace("[x]", "[ ]"))
    opened = path.read_text()
    assert project.json("to-note")["reopened"] == ["t1"]
    assert path.read_text() == opened
    assert [each["id"] for each in project.json("from-note")["added"]] == ["t2"]
    assert added(project.json("from-note")) == []
    work(project, 1)
    assert [each["id"] for each in project.json("to-note")["ticked"]] == ["t2"]
    assert path.read_text().count("water the plants: `") == 2
    assert added(project.json("from-note")) == []


def test_an_edited_item_is_new_and_the_old_task_is_named(project: Project) -> None:
    path = write(project, "- [ ] port 8080\n")
    project.json("from-note")
    path.write_text("- [ ] port 8081\n")
    answer = project.json("from-note")
    assert added(answer) == ["port 8081"]
    assert [(each["id"], each["state"]) for each in answer["gone"]] == [("t1", "inbox")]
    assert "t1" in project.fleet("from-note").out
    work(project, 2)
    assert project.json("to-note")["gone"] == ["t1"]
    assert path.read_text().startswith("- [x] port 8081\n\n## Log\n")


def test_one_item_that_cannot_be_a_task_adds_none_and_names_its_line(project: Project) -> None:
    write(project, "- [ ] good\n- [ ] bad\n  touches: ../out\n")
    for more in ((), ("--dry-run",)):
        assert "line 2" in project.json("from-note", *more, status=2)["error"]
    write(project, "- [ ] good\n- [ ] bad\n  needs: t99\n")
    for more in ((), ("--dry-run",)):
        assert "t99" in project.json("from-note", *more, status=2)["error"]
    assert project.json("status")["counts"]["inbox"] == 0


def test_a_log_that_would_land_in_an_open_block_is_not_written(project: Project) -> None:
    path = write(project, "- [ ] a\n\n```\nnever closed\n")
    project.json("from-note")
    work(project, 1)
    before = path.read_bytes()
    assert "open" in project.json("to-note", status=2)["error"]
    assert path.read_bytes() == before


def test_a_named_note_is_a_source_of_its_own(project: Project) -> None:
    write(project, "- [ ] a\n")
    (project.root / "docs").mkdir()
    other = write(project, "- [ ] a\n", "docs/plan.md")
    assert len(project.json("from-note")["added"]) == 1
    assert len(project.json("from-note", "plan.md", cwd=project.root / "docs")["added"]) == 1
    work(project, 2)
    assert [each["id"] for each in project.json("to-note", "docs/plan.md")["ticked"]] == ["t2"]
    assert "[x]" in other.read_text()
    assert "[ ]" in (project.root / "TASKS.md").read_text()


def test_the_configured_note_comes_first(project: Project) -> None:
    write(project, "- [ ] usual\n")
    write(project, "- [ ] own\n", "NOTES.md")
    assert added(project.json("from-note", env={"FLEET_CHECKLIST_FILE": "NOTES.md"})) == ["own"]
    assert project.json("from-note", env={"FLEET_CHECKLIST_FILE": "gone.md"}, status=4)["code"] == "not_found"


def test_without_a_queue_or_a_note(tmp_path: Path) -> None:
    project = Project(tmp_path / "new", home=tmp_path / "home")
    assert project.json("from-note", status=4)["hint"]
    write(project, "- [ ] a\n")
    assert added(project.json("from-note", "--dry-run")) == ["a"]
    assert not project.dir.exists()
    assert added(project.json("from-note")) == ["a"]


@pytest.mark.parametrize("name", ["", *page.NAMES, "NOTES.md"])
def test_init_writes_a_starter_only_if_asked_and_only_if_there_is_none(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path / "new", home=tmp_path / "home")
    env = {"FLEET_CHECKLIST_FILE": "NOTES.md"} if name == "NOTES.md" else {}
    git(project.root, "init", "-q")
    project.json("init", env=env)
    assert git(project.root, "status", "--porcelain") == ""
    if name:
        write(project, "mine", name)
    answer = project.json("init", "--checklist", env=env)
    assert answer["checklist"] == str(project.root / (name or "TASKS.md"))
    assert answer["checklist_created"] is (not name)
    assert (project.root / (name or "TASKS.md")).read_text() == ("mine" if name else page.STARTER)
    if not name:
        assert added(project.json("from-note")) == []
        assert git(project.root, "status", "--porcelain") == "?? TASKS.md\n"


def spent(tmp_path: Path, size: int) -> float:
    """Processor seconds of looking again at a note of so many items that are all in the queue, and of ticking three."""
    project = Project(tmp_path / f"of-{size}", home=tmp_path / "home")
    path = write(project, "# TODO\n" + "".join(f"- [ ] item {at}\n  touches: src/{at % 7}\n" for at in range(size)))
    assert len(project.json("from-note")["added"]) == size
    work(project, 3)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert project.json("from-note")["known"] == size
    assert len(project.json("to-note")["ticked"]) == 3
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert path.read_text().count("[x]") == 3
    return after.ru_utime - before.ru_utime


@pytest.mark.slow
def test_a_long_note_costs_in_proportion(tmp_path: Path) -> None:
    assert spent(tmp_path, 15_000) < 9 * spent(tmp_path, 3_000)
