"""`fleet run` and `fleet plan` as commands: what they print, where, and with which status."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.procs import wait_until
from support.project import BOOT, fill
from support.runs import QUICK, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def in_terminal(site: Site, *arguments: str) -> str:
    """Run a command on a terminal of its own; returns all that it drew."""
    ours, theirs = pty.openpty()
    env = site.environment(TERM="xterm-256color", COLUMNS="160", LINES="40")
    with subprocess.Popen(
        [sys.executable, "-c", BOOT, *arguments], cwd=site.root, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as child:
        os.close(theirs)
        drawn = b""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    drawn += os.read(ours, 65536)
                except OSError:
                    break  # the other end is closed
        child.kill()
    os.close(ours)
    return drawn.decode()


def test_on_a_terminal_a_bar_is_drawn_and_the_lines_stay_whole(site: Site) -> None:
    tasks = [site.command(f"sleep 0.6; echo part {n}") for n in range(3)]
    drawn = in_terminal(site, "run", "--force", "--max", "2")

    assert "at work" in drawn
    assert "━" in drawn
    for task in tasks:
        assert f"{task}  done after" in drawn
    assert "r1: 3 done; 3 attempts" in drawn


def test_off_a_terminal_there_are_plain_lines_on_stderr_and_the_answer_on_stdout(site: Site) -> None:
    task = site.command("echo hi")
    answer = site.work()

    assert answer.out.splitlines()[0].startswith("r1: 1 done; 1 attempt in ")
    assert f"{task}  started in headless by command as r1-w1" in answer.err
    assert "\x1b" not in answer.out + answer.err


def test_json_is_one_object_on_stdout_even_if_tasks_failed(site: Site) -> None:
    site.configure(QUICK + "[queue]\nmax_attempts = 1\n")
    site.command("exit 1")
    site.command("true")
    answer = site.work("--json", status=1)

    assert answer.data["states"] == {"done": 1, "failed": 1}
    assert (answer.data["ok"], answer.data["attempts"], answer.data["waiting"]) == (True, 2, 0)


def test_control_characters_of_a_worker_never_reach_the_terminal(site: Site) -> None:
    site.configure(
        QUICK + '[agents.rude]\nargv = ["sh", "-c", "printf \'\\\\033]0;owned\\\\007 \\\\033[31mred\\\\n\'"]\n'
    )
    task = site.add("say it", "--need", "serial", "--provider", "rude")
    site.command("printf '\\033[2J\\033]0;x\\007'; exit 1", "--title", "a \x1b[31mred\x1b[0m title")
    drawn = site.work(status=1)
    told = drawn.out + drawn.err + "".join(site.fleet(name, "t1").out for name in ("why", "show", "log"))

    assert site.state(task) in ("done", "failed")
    assert "\\x1b" in told
    assert not {c for c in told if ord(c) < 32} - {"\n", "\t"}


def test_a_dry_run_starts_nothing(site: Site) -> None:
    task = site.command("echo hi")
    answer = site.fleet("run", "--dry-run")

    assert answer.status == 0
    assert answer.out.startswith("workers: 1")
    assert site.state(task) == "inbox"
    assert not list(site.dir.glob("runs/*"))


def test_a_detached_run_goes_on_by_itself(site: Site, tmp_path: Path) -> None:
    task = site.command("while ! [ -e ../go ]; do sleep 0.1; done")
    with site.driving("--detach", "--json") as driver:
        answer = driver.end()
        assert answer.data["run"] == "r1"
        wait_until(lambda: site.reached(task, "active"), "it runs")
        (tmp_path / "go").touch()
        wait_until(lambda: site.reached(task, "done"), "it is done")
        wait_until(lambda: site.events("run_ended"), "the run has ended")

    assert "done after" in Path(answer.data["log"]).read_text()


def test_nothing_to_do_ends_at_once(site: Site) -> None:
    answer = site.work("--json")

    assert (answer.data["attempts"], answer.data["waiting"], answer.data["states"]) == (0, 0, {})
    assert answer.data["seconds"] < 5


def test_the_plan_is_a_number_an_object_or_a_text_with_reasons(site: Site) -> None:
    for n in range(5):
        site.command(f"echo {n}")
    counted = site.fleet("plan", "--count", "--force", "--max", "3")
    plan = site.json("plan", "--force", "--max", "3")
    text = site.fleet("plan", "--force", "--max", "3").out

    assert counted.out == "3\n"
    assert (plan["workers"], plan["binding"]["name"], plan["binding"]["source"]) == (3, "cap", "command line")
    for ceiling in (*plan["ceilings"], *plan["lanes"][0]["ceilings"]):
        assert ceiling["source"]
        assert ceiling["why"]
    assert [task["id"] for task in plan["first"]] == [f"t{n}" for n in range(1, 6)]
    assert "→ cap" in text
    assert "because you said --force" in text
    assert site.json("plan")["workers"] <= 5


def test_the_plan_shows_what_would_start_together_first(site: Site) -> None:
    for n in range(3):
        site.add(f"https://a.example/{n}", "--provider", "command")
    site.add("https://b.example/", "--provider", "command")

    assert [task["id"] for task in site.json("plan")["first"]] == ["t1", "t4"]


OPENED = """
import json, os, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" and isinstance(args[0], str) else None)
from agent_fleet import cli
status = cli.run(["plan", "--json"])
with open(sys.argv[1], "w") as file:
    json.dump([path for path in opened if "/.agents/" in path], file)
sys.exit(status)
"""


@pytest.mark.parametrize("count", [300, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("each", "shown"),
    [
        ({"target": "true", "need": "command"}, 10),
        ({"target": "https://a.example/x", "need": "browser", "provider": "command"}, 1),
        ({"target": "x", "provider": "nobody-has-it"}, 0),
    ],
    ids=["free", "one host", "no provider"],
)
def test_a_plan_opens_the_files_of_a_few_tasks_however_many_there_are(
    site: Site, tmp_path: Path, count: int, each: dict[str, Any], shown: int
) -> None:
    fill(site.queue(), [each] * count)
    told = tmp_path / "opened.json"
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(told)],
        cwd=site.root,
        env=site.environment(),
        capture_output=True,
        check=False,
        timeout=200,
    )
    took = time.monotonic() - begun
    plan = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr.decode()
    assert plan["counts"]["inbox"] == count
    assert len(plan["first"]) == shown
    bodies = [path for path in json.loads(told.read_text()) if "/inbox/" in path]
    assert len(bodies) <= 12
    assert took < 60
