"""The contract of the command line: one object on stdout, a status that says what happened, and never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fleet.commands.table import COMMANDS, GROUPS
from agent_fleet.errors import CODES
from support.project import BOOT, Project

QUEUE_COMMANDS = "blocked status list show log unblock reset verify claim heartbeat done block fail".split()
NEEDS_TASK = ("show", "log", "heartbeat", "done", "block", "fail")
EXTRA = {"done": ("--result", "x"), "block": ("--reason", "x"), "fail": ("--reason", "x")}


def test_every_command_has_help_and_loads(project: Project) -> None:
    names = list(COMMANDS)
    for name, answer in zip(names, project.script(*((name, "--help") for name in names)), strict=True):
        assert answer.status == 0, (name, answer)
        assert answer.out.startswith(f"Usage: fleet {name}")
        assert "--json" in answer.out
        assert answer.err == ""


def test_the_overview_shows_every_command_once_with_the_five_of_every_day_first(project: Project) -> None:
    answer = project.fleet("--help")
    listed = [
        line.split()[0] for line in answer.out.splitlines() if line.startswith("  ") and line.split()[0] in COMMANDS
    ]
    assert sorted(listed) == sorted(COMMANDS)
    assert listed[:5] == ["init", "add", "plan", "run", "blocked"]
    assert {group for _, group, _ in COMMANDS.values()} == set(GROUPS)
    assert project.fleet().out == answer.out
    assert project.fleet("-h").out == answer.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "add", "x"),
        ("add", "--json", "x"),
        ("add", "x", "--json"),
        ("--format", "json", "add", "x"),
        ("add", "x", "--format=json"),
    ],
)
def test_global_options_stand_before_and_after_the_command(project: Project, arguments: tuple[str, ...]) -> None:
    answer = project.fleet(*arguments)
    assert answer.status == 0
    assert answer.data["ok"] is True
    assert answer.data["id"] == "t1"


def test_every_answer_is_one_object_and_nothing_else(project: Project) -> None:
    story = [
        ("add", "x"),
        ("add-batch", "-"),
        ("claim", "w"),
        ("heartbeat", "t1"),
        ("block", "t1", "--reason", "2fa: x"),
        ("blocked",),
        ("unblock", "t1"),
        ("claim", "w"),
        ("fail", "t1", "--reason", "x"),
        ("claim", "w"),
        ("done", "t1", "--result", "x"),
        *((name,) for name in ("status", "list", "verify", "where", "reset", "version")),
        ("show", "t1"),
    ]
    for command in story:
        answer = project.fleet(*command, "--json", stdin=b"from a batch" if command[0] == "add-batch" else b"")
        assert answer.status == 0, (command, answer)
        assert answer.data["ok"] is True
        assert answer.err == ""


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("nonsense",), 2, "usage"),
        (("list", "--nonsense"), 2, "usage"),
        (("list", "nowhere"), 2, "usage"),
        (("add",), 2, "usage"),
        (("add", "x", "--priority", "many"), 2, "usage"),
        (("add", "x", "--priority", "12"), 2, "bad_input"),
        (("add", "x", "--budget", "money"), 2, "bad_input"),
        (("add", "x", "--file", "y"), 2, "usage"),
        (("add", "--file", "nowhere"), 2, "bad_input"),
        (("add-batch", "nowhere"), 4, "not_found"),
        (("claim",), 2, "usage"),
        (("claim", "w\x1b"), 2, "bad_input"),
        (("claim", "w", "--wait", "nan"), 2, "bad_input"),
        (("claim", "w", "--wait", "-1"), 2, "bad_input"),
        (("claim", "w", "--owner", "999999999"), 4, "not_found"),
        (("claim", "w"), 3, "nothing_to_claim"),
        (("done", "t1"), 2, "usage"),
        (("show", "t1"), 4, "not_found"),
        (("log", "t1"), 4, "not_found"),
        (("unblock",), 2, "usage"),
        (("unblock", "t1"), 4, "not_found"),
        (("reset", "t1"), 4, "not_found"),
        (("reset", "t1", "--older-than", "5"), 2, "usage"),
        (("reset", "--older-than", "nan"), 2, "usage"),
        (("run", "--stagger", "inf"), 2, "usage"),
        (("stop", "--grace", "nan"), 2, "usage"),
        *(
            (("deploy", "--task", "x", f"--{name}", "nan"), 2, "usage")
            for name in ("money", "coverage", "seconds", "confidence", "tolerated", "found")
        ),
        (("list", "--project", "/nonexistent"), 4, "not_found"),
        (("list", "--config", "/nonexistent"), 0, ""),
    ],
)
def test_a_refusal_has_a_status_a_code_and_a_way_on(
    project: Project, arguments: tuple[str, ...], status: int, code: str
) -> None:
    told = project.fleet(*arguments, "--json")
    assert told.status == status
    if not code:
        return
    refused = told.data
    assert refused["ok"] is False
    assert refused["code"] == code
    assert CODES[code][0] == status
    assert refused["error"]
    assert not refused["error"].endswith(".")
    assert isinstance(refused["details"], list)
    assert told.err == ""
    human = project.fleet(*arguments)
    assert human.status == status
    assert human.out == ""
    assert human.err.startswith("error: ")
    assert "\nhint: " in human.err
    assert "\x1b" not in human.err


def test_a_near_miss_is_named(project: Project) -> None:
    assert "did you mean `fleet status`?" in project.fleet("statsu").err


def test_no_queue_is_said_with_the_way_to_one(tmp_path: Path) -> None:
    project = Project(tmp_path / "empty", home=tmp_path / "home")
    for name in QUEUE_COMMANDS:
        arguments = (name, *(("t1",) if name in (*NEEDS_TASK, "unblock", "reset") else ()), *EXTRA.get(name, ()))
        arguments += ("w",) if name == "claim" else ()
        answer = project.fleet(*arguments, "--project", ".", "--json")
        assert answer.status == 4, (name, answer)
        assert answer.data["code"] == "not_found"
        assert "fleet init" in answer.data["hint"]
    assert os.listdir(project.root) == []


def test_the_other_format_says_the_same(project: Project) -> None:
    import toon_format

    project.json("add", "a | title", "--touches", "src", "--budget", "tokens=5")
    for command in (("list",), ("show", "t1"), ("status",), ("where",)):
        toon = project.fleet(*command, "--format", "toon")
        assert toon.status == 0
        expected, got = project.json(*command), toon_format.decode(toon.out.rstrip("\n"))
        assert {name: got[name] for name in got if name != "active"} == {
            name: expected[name] for name in expected if name != "active"
        }
    refused = project.fleet("show", "t9", "--format", "toon")
    assert refused.status == 4
    assert toon_format.decode(refused.out.rstrip("\n"))["code"] == "not_found"


def test_no_control_character_of_a_task_reaches_the_terminal(project: Project) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\r\x08"
    fields = {"target": f"t{evil}", "title": f"x{evil}", "notes": f"n{evil}", "check": "", "kind": f"k{evil}"}
    project.json("add-batch", "-", stdin=json.dumps(fields).encode())
    seen = [project.fleet("list"), project.fleet("claim", "w"), project.fleet("show", "t1")]
    seen += [
        project.fleet("block", "t1", "--reason", f"needs answer: {evil}"),
        project.fleet("blocked"),
        project.fleet("show", "t1"),
    ]
    seen += [project.fleet("unblock", "t1", "--answer", evil), project.fleet("claim", "w"), project.fleet("status")]
    (project.dir / "logs").mkdir(exist_ok=True)
    (project.dir / "logs" / "t1.g2.log").write_text(f"printed {evil}\n")
    seen += [project.fleet("log", "t1"), project.fleet("show", evil), project.fleet("fail", "t1", "--reason", evil)]
    for answer in seen:
        for sign in ("\x1b", "\x07", "\x08", "\x9b", "\u202e", "\r"):
            assert sign not in answer.out + answer.err, answer


def test_a_reader_that_goes_away_is_no_error(project: Project) -> None:
    project.json("add-batch", "-", stdin=b"\n".join(b"x" * 200 for _ in range(2_000)))
    for stream in ("stdout", "stderr"):
        near, far = os.pipe()
        os.close(near)
        try:
            wide = stream == "stdout"
            child = project.start("list", "--all", stdout=far) if wide else project.start("nonsense", stderr=far)
        finally:
            os.close(far)
        out, err = child.communicate(timeout=60)
        assert (out or b"") + (err or b"") == b""
        assert child.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_an_answer_that_cannot_be_written_is_an_error_in_one_line(project: Project) -> None:
    project.add("x")
    with open("/dev/full", "wb") as full:
        child = project.start("list", stdout=full)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert err.startswith(b"error: ")
    assert b"Traceback" not in err
    assert b"Exception ignored" not in err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_break_nothing(project: Project, closed: str) -> None:
    project.add("x")
    for command in ("list", "nonsense", "add-batch -"):
        line = f"exec {sys.executable} -c '{BOOT}' {command} {closed}"
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=project.root, env=project.environment(), capture_output=True, check=False
        )
        assert done.returncode in (0, 1, 2), (command, done)
        assert b"Traceback" not in done.stdout + done.stderr, done
        assert b"Exception ignored" not in done.stderr, done


def test_both_names_of_the_program_are_installed_as_one(project: Project) -> None:
    import importlib.metadata

    found = {
        point.name: point.value
        for point in importlib.metadata.entry_points(group="console_scripts")
        if point.name in ("fleet", "agent-fleet")
    }
    assert found == {"fleet": "agent_fleet.cli:main", "agent-fleet": "agent_fleet.cli:main"}
