"""Files that cannot be used: every command goes on working, and what lay in a state directory is set aside and named."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from support.project import Project


def zero_byte(path: Path) -> None:
    path.write_bytes(b"")


def of(path: Path) -> str:
    """The task that a file's name speaks of."""
    return path.name.partition(".")[0]


def truncated(path: Path) -> None:
    path.write_text(json.dumps({"v": 1, "id": of(path), "target": "some"})[:-6])


def no_object(path: Path) -> None:
    path.write_bytes(b'["t90"]')


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00\x80" * 100)


def deep(path: Path) -> None:
    path.write_bytes(b"[" * 200_000)


def stranger(path: Path) -> None:
    """A body that leads out of the queue, if it were believed."""
    body = {"v": 1, "id": of(path), "target": "x", "need": "agent", "priority": 5, "gate": "../../../../outside"}
    path.write_text(json.dumps(body))


def another(path: Path) -> None:
    body = {"v": 1, "id": "t1", "target": "x", "need": "agent", "priority": 5, "gate": "_"}
    path.write_text(json.dumps(body))


def wrong_types(path: Path) -> None:
    body = {"v": 1, "id": of(path), "target": "x", "need": "agent", "priority": "5", "touches": 3, "needs": ["../x"]}
    path.write_text(json.dumps(body))


def directory(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("{}")


def dangling(path: Path) -> None:
    path.symlink_to("/nonexistent/target")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def link_outside(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


BAD: tuple[Callable[[Path], None], ...] = (
    zero_byte,
    truncated,
    no_object,
    no_text,
    deep,
    stranger,
    another,
    wrong_types,
    directory,
    dangling,
    loop,
    link_outside,
    fifo,
    unix_socket,
)
NAMED = (
    "inbox/5.agent/0000000/_/t{}.g0.json",
    "active/t{}.g1+1x1xaaaaaaaa+_.json",
    *tuple(f"{state}/0000000/t{{}}.g1.json" for state in ("done", "blocked", "failed")),
)
FOREIGN = (
    "inbox",
    "inbox/5.agent",
    "inbox/5.agent/0000000",
    "inbox/5.agent/0000000/_",
    "active",
    "done",
    "done/0000000",
    "blocked",
    "failed/0000000",
)
ASIDE = (
    "records/notes.txt",
    "records/0000000/t1.g1.json",
    "owners/notes.json",
    "seq/notes",
    "seq/99999999999999999999",
    "staging/notes",
    "runs/notes",
    "logs/notes",
    "quarantine/notes",
    "queue.json",
    "holds.json",
    "journal.jsonl",
)
DIRECTORIES = (
    "inbox",
    "active",
    "done",
    "blocked",
    "failed",
    "records",
    "owners",
    "seq",
    "staging",
    "runs",
    "logs",
    "quarantine",
)


COMMANDS = (
    (("status",), 0),
    (("list", "--all"), 0),
    (("show", "t1"), 0),
    (("blocked",), 0),
    (("status", "--json"), 0),
    (("log", "t1"), 4),
    (("add", "one more"), 0),
    (("claim", "w"), 0),
    (("heartbeat", "t1"), 0),
    (("done", "t1", "--result", "seen"), 0),
    (("claim", "w"), 0),
    (("fail", "t2", "--reason", "broke"), 0),
    (("reset", "--older-than", "0"), 0),
    (("claim", "w"), 0),
    (("block", "t2", "--reason", "login required: x"), 0),
    (("unblock", "--all"), 0),
    (("list", "inbox", "--json"), 0),
)


def check_all_work(project: Project) -> None:
    """Run everything that reads or writes the queue: each does what it should."""
    for (command, status), answer in zip(COMMANDS, project.script(*(command for command, _ in COMMANDS)), strict=True):
        assert answer.status == status, (command, answer)


def no_faults(project: Project) -> None:
    (answer,) = project.script(("verify", "--json"))
    assert answer.data["faults"] == []


@pytest.fixture
def two(tmp_path: Path) -> Project:
    """A project with two tasks."""
    made = Project(tmp_path / "project", home=tmp_path / "home")
    assert {answer.status for answer in made.script(("init", "."), ("add", "good one"), ("add", "good two"))} == {0}
    return made


def make(project: Project, place: str, bad: Callable[[Path], None]) -> Path:
    path = project.dir / place
    if path.is_symlink() or path.is_file():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    bad(path)
    return path


@pytest.mark.parametrize("place", NAMED)
def test_a_bad_task_file_is_set_aside_and_named_and_nothing_stops(two: Project, place: str) -> None:
    paths = [make(two, place.format(90 + number), bad) for number, bad in enumerate(BAD)]
    check_all_work(two)
    (last,) = two.script(("list", "--all"))
    assert last.status == 0
    assert [path for path in paths if os.path.lexists(path)] == []
    aside = sorted(name.partition("-")[2] for name in os.listdir(two.dir / "quarantine"))
    assert aside == sorted(str(path.relative_to(two.dir)).replace("/", "-") for path in paths)
    no_faults(two)


@pytest.mark.parametrize("place", FOREIGN)
def test_a_stranger_in_a_state_directory_is_set_aside_and_named(two: Project, place: str) -> None:
    # a directory with any name may be a gate: its contents are what is judged
    kinds = [
        bad
        for bad in (zero_byte, directory, dangling, loop, fifo)
        if not (bad is directory and place.endswith("0000000"))
    ]
    paths = [make(two, f"{place}/notes-{number}", bad) for number, bad in enumerate(kinds)]
    (first,) = two.script(("list", "--all"))
    assert first.status == 0
    for path in paths:
        assert not os.path.lexists(path)
        assert f"set aside {path.relative_to(two.dir)}" in first.err
    check_all_work(two)
    no_faults(two)


@pytest.mark.parametrize("bad", [zero_byte, directory, fifo])
@pytest.mark.parametrize("place", ASIDE)
def test_a_bad_file_beside_the_states_stops_nothing(two: Project, place: str, bad: Callable[[Path], None]) -> None:
    make(two, place, bad)
    check_all_work(two)
    if place != "journal.jsonl":
        no_faults(two)


def test_a_queue_that_lost_its_journal_says_so(two: Project) -> None:
    for command in (("claim", "w"), ("done", "t1", "--result", "seen")):
        two.json(*command)
    make(two, "journal.jsonl", fifo)
    answer = two.fleet("verify")
    assert answer.status == 1
    assert "t1 is in done, but the journal never saw it added" in answer.err
    assert two.fleet("show", "t1").status == 0


@pytest.mark.parametrize("bad", [None, zero_byte])
@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_directory_of_the_queue_that_is_missing_or_a_file_is_put_back(
    project: Project, name: str, bad: Callable[[Path], None] | None
) -> None:
    project.add("before")
    shutil.rmtree(project.dir / name)
    if bad:
        bad(project.dir / name)
    work = (
        ("add", "one", "--json"),
        ("add", "two", "--json"),
        ("status",),
        ("list",),
        ("claim", "w"),
        ("blocked",),
        ("reset",),
    )
    answers = project.script(*work, ("list", "--all", "--json"))
    assert [answer.status for answer in answers] == [0] * 8, answers
    assert (project.dir / name).is_dir()
    added = {answers[0].data["id"], answers[1].data["id"]}
    ids = [task["id"] for task in answers[-1].data["tasks"]]
    assert len(ids) == len(set(ids))
    assert len(added) == 2
    assert added <= set(ids)


@pytest.mark.parametrize("bad", [zero_byte, dangling, fifo, directory])
@pytest.mark.parametrize(
    "place", ["inbox/5.agent", "inbox/5.agent/0000000", "inbox/5.agent/0000000/_", "done/0000000", "records/0000000"]
)
def test_a_file_where_a_directory_belongs_does_not_stop_a_task(
    project: Project, place: str, bad: Callable[[Path], None]
) -> None:
    make(project, place, bad)
    work = (("add", "one", "--json"), ("claim", "w", "--json"), ("done", "t1", "--result", "seen", "--json"))
    added, claimed, done = (answer.data for answer in project.script(*work))
    assert added["id"] == claimed["id"] == "t1"
    assert done["state"] == "done"
    no_faults(project)


def test_a_torn_journal_is_healed_and_noted(project: Project) -> None:
    project.add("good one")
    with (project.dir / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"at":1,"event":"clai')
    project.json("claim", "w")
    report = project.json("verify")
    assert report["faults"] == []
    assert any("torn" in note for note in report["notes"])
    lines = (project.dir / "journal.jsonl").read_bytes().split(b"\n")
    assert json.loads(lines[-2])["event"] == "claimed"


def test_an_owner_record_that_is_not_whole_is_written_again(project: Project) -> None:
    project.add("good one")
    project.json("claim", "w")
    (record,) = (project.dir / "owners").iterdir()
    record.write_bytes(b"")
    project.add("good two")
    project.json("claim", "w")
    assert json.loads(record.read_text())["agent"] == "w"


def test_a_name_with_control_characters_does_not_reach_the_terminal(project: Project) -> None:
    project.add("good one")
    (project.dir / "inbox" / "evil\x1b]0;owned\x07\x1b[2J\udcff").write_bytes(b"")
    answer = project.fleet("list")
    assert "set aside" in answer.err
    assert "\x1b" not in answer.err + answer.out


def test_a_name_that_nearly_fills_the_limit_of_the_file_system_is_set_aside(project: Project) -> None:
    (project.dir / "inbox" / ("é" * 127)).write_bytes(b"")
    assert "set aside" in project.fleet("list").err


def test_a_regular_file_stays_private_to_nobody_but_its_owner(project: Project) -> None:
    """No file of the queue is writable for others, whatever the umask was."""
    project.add("good one")
    project.json("claim", "w")
    for name in project.files():
        assert not stat.S_IMODE((project.dir / name).stat().st_mode) & 0o022, name
