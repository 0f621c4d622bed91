"""`fleet watch`: true at every look, at little cost, and gone without a trace on the terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_fleet.config import load
from agent_fleet.run import snapshot
from agent_fleet.testing import FleetProject, script
from support.procs import wait_until
from support.project import BOOT
from support.runs import Site, attempts_of

LOOK = """
import collections, json, sys
calls = collections.Counter()
def count(event, args):
    if event in ("open", "os.rename", "os.remove", "os.mkdir") and ".agents" in str(args[0]):
        calls[event] += 1
    elif event.split(".")[0] in ("subprocess", "pty") or event in ("os.fork", "os.exec", "os.posix_spawn", "os.system"):
        calls["spawned"] += 1
from agent_fleet.config import load
from agent_fleet.queue.store import Queue
from agent_fleet.run import snapshot
queue, config = Queue(sys.argv[1]), load("/", queue_dir="", environ={})
sys.addaudithook(count)
seen = snapshot.take(queue, config, sys.argv[-1])
print(json.dumps([dict(calls), seen]))
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def look(site: Site) -> tuple[dict[str, int], dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(site.dir)],
        env=site.environment(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    calls, seen = json.loads(done.stdout)
    return calls, seen


def test_workers_walls_and_what_bounds_the_run_are_seen_while_it_is_on(site: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    task = site.command(f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done", "--title", "the [bold]long[/bold] one")
    other = site.add("https://shop.example/1")
    site.json("claim", "someone", "--owner", str(os.getpid()), "--lane", "browser")
    with site.driving() as driver:
        wait_until(lambda: len(attempts_of(site)) == 1 and site.reached(task, "active"), "the worker is at work")
        log = site.dir / "logs" / f"{task}.g1.log"
        wait_until(lambda: log.exists() and log.stat().st_size, "it has said something")
        seen = site.json("watch")
        text = site.fleet("watch").out
        future = time.time() + 86400
        os.utime(log, (future, future))
        stepped = snapshot.take(site.queue(), load("/", queue_dir="", environ={}), "/nowhere", now=time.time() - 7200)
        go.touch()
        driver.end()

    mine, theirs = seen["workers"]
    assert (mine["task"], mine["state"], mine["provider"], mine["agent"]) == (task, "at work", "command", "r1-w1")
    assert mine["memory"] > 1 << 20
    assert 0 <= mine["last_event"] <= mine["age"] + 1
    assert (theirs["task"], theirs["host"], theirs["agent"]) == (other, "shop.example", "someone")
    assert (theirs["age"], theirs["last_event"], theirs["memory"], theirs["provider"]) == (None, None, None, None)
    assert seen["runs"] == [{"id": "r1", "alive": True}]
    assert seen["bound_by"]["at_work"] == 1
    assert seen["needs_you"] == []
    assert "the [bold]long[/bold] one" in text
    assert "r1: " in text
    assert "\x1b" not in text
    assert [worker["last_event"] for worker in stepped["workers"]] == [0.0, None]
    assert all(worker["age"] in (0.0, None) for worker in stepped["workers"])
    after = site.json("watch")
    assert (after["runs"], after["bound_by"], len(after["workers"])) == ([], None, 1)


def test_what_needs_the_person_stands_first_and_gates_tell_when_they_open(fleet_project: FleetProject) -> None:
    project = fleet_project
    for _ in range(2):
        project.add(script("blocked", wall="captcha: shop.example"))
    project.run("--max", "2")
    (project.root / ".agents" / "gates.json").write_text(
        json.dumps({"claude": {"until": time.time() + 7190, "since": 1, "strikes": 1, "why": "limit session: used up"}})
    )
    text = project.cli("watch", env={"FLEET_FORMAT": "human"}).out.splitlines()
    assert text[0] == "2 tasks wait for you (fleet blocked):"
    assert text[1].split() == ["2", "captcha:", "shop.example", "t1,", "t2"]
    assert any(row.startswith("claude waits until ") and "in 1 h 59 min: limit session: used up" in row for row in text)


def test_a_look_costs_as_much_on_a_long_queue_as_on_a_short_one_and_changes_nothing(site: Site) -> None:
    site.json("add-batch", "-", stdin=b"\n".join(b"task %d" % number for number in range(20)))
    few, _ = look(site)
    site.json("add-batch", "-", stdin=b"\n".join(b"task %d" % number for number in range(3000)))
    before = sorted(path.relative_to(site.dir) for path in site.dir.rglob("*"))
    many, seen = look(site)

    assert sorted(path.relative_to(site.dir) for path in site.dir.rglob("*")) == before
    assert many == few
    assert set(many) <= {"open"}
    assert seen["counts"] == {"inbox": 3020, "active": 0, "done": 0, "blocked": 0, "failed": 0}


@pytest.mark.parametrize("ending", ["Ctrl-C", "SIGTERM"])
def test_on_a_terminal_it_draws_on_the_other_screen_and_leaves_it_as_it_was(site: Site, ending: str) -> None:
    site.add("the only task", "--title", "evil \x1b[2Jtitle")
    site.json("claim", "someone", "--owner", str(os.getpid()))
    terminal, inside = pty.openpty()
    child = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "-c", BOOT, "watch", "--interval", "0.1"],
        cwd=site.root,
        env=site.environment(TERM="xterm-256color", COLUMNS="150", LINES="40"),
        stdin=inside,
        stdout=inside,
        stderr=inside,
    )
    os.close(inside)
    shown = _until(terminal, b"evil", b"")
    if ending == "Ctrl-C":
        os.write(terminal, b"\x03")
    else:
        child.terminate()
    shown = _until(terminal, None, shown)
    os.close(terminal)
    assert child.wait(60) == 0
    assert b"\x1b[?1049h" in shown
    assert b"evil \\x1b[2Jtitle" in shown
    last = shown[shown.rindex(b"\x1b[?1049l") :]
    assert b"\x1b[?25h" in last + shown[-200:]
    assert b"Traceback" not in shown


def _until(terminal: int, word: bytes | None, shown: bytes) -> bytes:
    """What a terminal gets until a word of it, or until its program has ended."""
    end = time.monotonic() + 60
    while time.monotonic() < end and (word is None or word not in shown):
        if select.select([terminal], [], [], 1)[0]:
            try:
                shown += os.read(terminal, 1 << 16)
            except OSError:  # Linux: the other end was closed
                return shown
    assert word is None or word in shown
    return shown
