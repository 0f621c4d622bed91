"""Notifications: only where somebody sees them, never with words that mean something to the program that shows them."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.run.gates import Gate
from agent_fleet.run.notice import Notices, of_walls, order, run
from agent_fleet.testing import FleetProject, script
from support.procs import running, wait_until

SCREEN = {"DISPLAY": ":7"}
PATH = {"PATH": "/usr/bin:/bin"}
DESKTOP = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done >> "$HOME/told"\n'
HOOK = """
import json, os, sys
with open(sys.argv[1], "a") as file:
    print(json.dumps([json.load(sys.stdin), dict(os.environ)]), file=file)
"""


@pytest.mark.parametrize("environ", [{}, SCREEN | {"FLEET_NO_NOTIFY": "1"}])
def test_without_a_screen_or_where_it_is_not_wanted_nothing_is_shown(environ: dict[str, str]) -> None:
    assert order("linux", environ, "t1", "why") is None


def test_text_is_an_argument_and_never_an_option_or_markup() -> None:
    linux = order("linux", {"WAYLAND_DISPLAY": "wayland-0"}, "--help", "<b>captcha & more</b>\nsecond")
    assert linux is not None
    assert linux[-3:] == ("--", "--help", "&lt;b&gt;captcha &amp; more&lt;/b&gt; second")
    mac = order("darwin", {}, '" & quit', "why")
    assert mac is not None
    assert mac[-2:] == ('" & quit', "why")
    assert not any("quit" in part for part in mac[:-2])


def test_a_program_that_is_missing_fails_hangs_or_never_reads_is_named_and_costs_nothing_more(tmp_path: Path) -> None:
    assert "No such file" in run(("no-such-program-here",), {"PATH": str(tmp_path)})
    assert run(("false",), PATH) == "false ended with status 1"
    assert run(("true",), PATH, b"x" * 1_000_000) == ""
    pid = tmp_path / "pid"
    hangs = ("sh", "-c", f"sleep 300 & echo $! > {pid}; wait")
    assert run(hangs, PATH, seconds=0.5) == "sh did not end within 0.5 s"
    wait_until(lambda: not running(int(pid.read_text())), "what it had started is gone")


@pytest.mark.skipif(shutil.which("notify-send") is None, reason="there is no notify-send here")
def test_the_real_notify_send_without_a_bus_is_named_and_does_not_hang(tmp_path: Path) -> None:
    environ = PATH | {"DISPLAY": ":987", "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/nobody"}
    command = order("linux", environ, "a title", "a text")
    assert command is not None
    began = time.monotonic()
    assert run(command, environ) == "notify-send ended with status 1"
    assert time.monotonic() - began < 9


def test_fifty_tasks_of_one_wall_are_one_message_and_many_walls_are_one_too() -> None:
    one = of_walls([(f"t{number}", "Login required: Shop.example") for number in range(50)])
    assert [(each.title, each.text, len(each.tasks)) for each in one] == [
        ("50 tasks wait for you", "login required: shop.example", 50)
    ]
    two = of_walls([("t1", "captcha: a.example"), ("t2", "needs answer: which?"), ("t3", "captcha: a.example")])
    assert [(each.title, each.wall) for each in two] == [
        ("2 tasks wait for you", "captcha: a.example"),
        ("t2 waits for you", "needs answer: which?"),
    ]
    many = of_walls([(f"t{number}", f"needs answer: number {number}?") for number in range(50)])
    assert [(each.title, each.text, each.wall) for each in many] == [("50 tasks wait for you", "needs answer", "")]


class Bench:
    """Notices with a clock that a test moves, and the person's command writing down what it was told."""

    def __init__(self, place: Path, hook: Sequence[str] | None = None, environ: Mapping[str, str] = PATH) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.file = place / "told"
        program = (sys.executable, "-I", "-c", HOOK, str(self.file)) if hook is None else hook
        about = {"project": "/p", "run": "r1"}
        self.notices = Notices(program, environ, about, self.said.append, platform="linux", clock=lambda: self.now)

    def told(self) -> list[tuple[dict[str, Any], dict[str, str]]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [tuple(json.loads(line)) for line in lines]


def test_the_command_gets_one_object_and_the_same_as_variables(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    evil = "needs answer: $(touch x) `id`\n\x1b[2J"
    bench.notices.parked("t1", evil)
    bench.notices.step()
    assert bench.told() == []
    bench.notices.ended({"done": 2, "blocked": 1}, 0, "")

    (first, environ), (last, _) = bench.told()
    assert first == {
        "project": "/p",
        "run": "r1",
        "event": "blocked",
        "title": "t1 waits for you",
        "tasks": ["t1"],
        "text": evil.strip(),
        "wall": evil.strip(),
    }
    assert environ["FLEET_NOTIFY_TASKS"] == "t1"
    assert environ["FLEET_NOTIFY_TEXT"] == "needs answer: $(touch x) `id` \\x1b[2J"
    assert (last["event"], last["title"], last["text"]) == ("ended", "r1 is over", "2 done, 1 blocked")
    assert not (tmp_path / "x").exists()
    assert bench.said == []


def test_what_comes_within_some_seconds_is_told_together_and_the_rest_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(5):
        bench.notices.parked(f"t{number}", "captcha: a.example")
        bench.now += 0.5
        bench.notices.step()
    bench.now += 3
    bench.notices.step()
    wait_until(lambda: len(bench.told()) == 1, "the first five are told")
    bench.notices.parked("t9", "captcha: a.example")
    bench.notices.ended({}, 0, "")
    assert [told["tasks"] for told, _ in bench.told()] == [[f"t{number}" for number in range(5)], ["t9"]]


def test_a_long_wait_is_told_once_for_its_time_and_a_short_one_never(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    gate = Gate(name="claude", kind="limit", why="limit session: used up", since=0.0, until=time.time() + 7200)
    bench.notices.waits(gate, 20.0)
    for _ in range(3):
        bench.notices.waits(gate, 7200.0)
    bench.notices.ended({"done": 1}, 0, "")
    ((told, _),) = bench.told()
    assert told["event"] == "waiting"
    assert told["title"].startswith("claude waits until ")
    assert told["text"] == "limit session: used up"


def test_a_command_that_fails_is_said_once_and_silence_is_silence(tmp_path: Path) -> None:
    bench = Bench(tmp_path, hook=("false",))
    for number in range(3):
        bench.notices.parked(f"t{number}", f"needs answer: {number}?")
    bench.notices.ended({"failed": 1}, 3, "a limit")
    assert bench.said == ["warning: a notification could not be shown: false ended with status 1"]

    quiet = Bench(tmp_path, environ=PATH | SCREEN | {"FLEET_NO_NOTIFY": "1"})
    quiet.notices.parked("t1", "captcha: a.example")
    quiet.notices.ended({"failed": 1}, 0, "")
    assert quiet.told() == []
    assert quiet.said == []


def test_tasks_that_a_run_parks_are_told_to_the_person_at_the_screen_and_to_their_command(
    fleet_project: FleetProject,
) -> None:
    project = fleet_project
    project.program("notify-send", DESKTOP)
    file = project.home / "hook"
    command = json.dumps([sys.executable, "-I", "-c", HOOK, str(file)])
    project.configure(f"[notify]\ncommand = {command}\n")
    tasks = [project.add(script("blocked")) for _ in range(3)]
    project.run("--max", "3")
    assert not (project.home / "told").exists()
    *walls, last = [json.loads(line)[0] for line in file.read_text().splitlines()]
    assert sorted(task for each in walls for task in each["tasks"]) == tasks
    assert {each["wall"] for each in walls} == {"login required: shop.example"}
    assert (last["event"], last["text"]) == ("ended", "3 blocked")

    project.cli("unblock", "--all")
    file.unlink()
    project.cli("run", "--force", "--max", "3", env=SCREEN)
    told = (project.home / "told").read_text(encoding="utf-8")
    assert "for you\nlogin required: shop.example\n" in told
    assert "fleet: r2 is over\n3 blocked\n" in told
    assert file.exists()
