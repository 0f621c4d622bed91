"""`fleet launch`: windows with a command of the person's, whose agents claim by themselves; on a real tmux."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fleet_lanes._tmux import Tmux
from support.desktop import require
from support.procs import running, wait_until
from support.runs import Site, gone

AGENT = """\
name=agent-$FLEET_SLOT
printf '%s\\0' "$@" > "$FLEET_WORKER.words"
env > "$FLEET_WORKER.env"
while id=$(fleet claim $name --json | sed -n 's/.*"id": "\\(t[0-9]*\\)".*/\\1/p') && [ "$id" ]; do
  until [ -e go ]; do sleep 0.1; done
  fleet done $id --agent $name --result "seen by $name"
done
until [ -e over ]; do sleep 0.1; done
"""


class Windows:
    """A site with an agent for its windows."""

    def __init__(self, root: Path) -> None:
        self.site = Site(root)
        self.tools = self.site.tools(root / "tools")
        self.script = root / "agent.sh"
        self.script.write_text(AGENT)
        self.env = {"PATH": f"{self.tools}{os.pathsep}{os.environ['PATH']}"}

    def launch(self, number: int, *words: str, status: int = 0) -> dict[str, Any]:
        text = shlex.join(["sh", str(self.script), *words])
        return self.site.json("launch", str(number), "--cmd", text, "--tmux", "--force", status=status, env=self.env)

    def tmux(self, *arguments: str) -> str:
        socket = Tmux(str(self.site.dir), self.site.environment()).socket
        done = subprocess.run(
            ["tmux", "-S", socket, *arguments], capture_output=True, text=True, timeout=30, check=False
        )
        return done.stdout.strip()

    def sessions(self) -> list[dict[str, Any]]:
        return list(self.site.json("status")["sessions"])

    def end(self) -> None:
        for name in ("go", "over"):
            (self.site.root / name).touch()


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[Windows]:
    require("tmux")
    windows = Windows(tmp_path)
    yield windows
    windows.site.fleet("stop")
    gone(windows.site.alive())


def test_agents_of_launched_windows_work_the_queue_and_are_seen(windows: Windows) -> None:
    site = windows.site
    words = ["two words", "'quoted' \"twice\"", "$HOME `id` ; exit", "-x", "😀"]
    found = windows.launch(2, *words)
    assert (found["run"], found["opened"]) == ("r1", 2)
    assert "attach" in found["notes"][0]
    assert windows.tmux("list-windows", "-t", "fleet", "-F", "#{window_name}").split() == ["r1-w1", "r1-w2"]

    tasks = [site.add(f"task {n}") for n in range(3)]
    windows.end()
    wait_until(lambda: not windows.sessions(), "the windows are closed")
    later = windows.launch(1)
    wait_until(lambda: all(site.reached(task, "done") for task in tasks), "all are done")
    assert later["run"] == "r2"
    assert {site.record(task)["by"] for task in tasks} == {"agent"}
    assert {site.record(task)["lane"] for task in tasks} == {"terminal"}
    assert [site.record(task)["charged"] for task in tasks] == [False] * 3

    sent = sorted(site.root.glob("r1-*.words"))
    assert [path.read_bytes().split(b"\0")[:-1] for path in sent] == [[word.encode() for word in words]] * 2
    envs = [
        dict(row.split("=", 1) for row in path.read_text().splitlines() if "=" in row)
        for path in site.root.glob("r1-*.env")
    ]
    assert len({env["FLEET_PORT"] for env in envs}) == len({env["FLEET_TMP"] for env in envs}) == 2
    assert {env["FLEET_AGENT"] for env in envs} == {"r1-w1", "r1-w2"}
    assert site.is_clean()


def test_sessions_are_shown_with_what_they_hold_and_a_closed_window_returns_it(windows: Windows) -> None:
    site = windows.site
    first, second = site.add("one"), site.add("two")
    windows.launch(3)
    wait_until(lambda: len(site.queue().active()) == 2, "two are claimed")
    sessions = windows.sessions()
    assert sorted(task for each in sessions for task in each["tasks"]) == [first, second]
    assert {(each["lane"], each["provider"], each["waits"]) for each in sessions} == {("terminal", None, False)}
    seen = site.fleet("watch").out
    assert "by a command of yours, 1 seat, holds nothing" in seen and first in seen

    holder = next(each["session"] for each in sessions if first in each["tasks"])
    windows.tmux("kill-window", "-t", f"fleet:{holder}")
    wait_until(lambda: site.reached(first, "inbox"), "its task is back")
    wait_until(lambda: len(windows.sessions()) == 2, "its session is over")
    assert site.reached(second, "active")
    assert site.records(first) == []
    (over,) = site.events("disbanded")
    assert (over["worker"], over["returned"]) == (holder, [first])
    assert "window was closed" in over["reason"]


def test_stop_ends_the_windows_and_returns_what_they_held(windows: Windows) -> None:
    site = windows.site
    task = site.add("one")
    windows.launch(2)
    wait_until(lambda: site.reached(task, "active"), "it is claimed")
    alive = site.alive()
    assert site.json("stop")["stopped"] == ["r1"]
    gone(alive)
    assert site.reached(task, "inbox")
    assert windows.tmux("list-windows") == ""
    (run,) = site.json("runs")["runs"]
    assert (run["alive"], run["ended"] is not None) == (False, True)
    assert site.is_clean()


def test_a_drained_launch_gives_out_nothing_more_and_leaves_the_windows(windows: Windows) -> None:
    site = windows.site
    task, other = site.add("one"), site.add("two")
    windows.launch(1)
    wait_until(lambda: site.reached(task, "active"), "it is claimed")
    site.json("stop", "--drain")
    wait_until((site.dir / "runs/r1/workers/w1/enough").exists, "the order was heard")
    (site.root / "go").touch()
    wait_until(lambda: site.reached(task, "done"), "what it held is done")
    assert site.reached(other, "inbox")
    assert len(windows.sessions()) == 1


def test_windows_outlive_their_launcher_and_a_run_leaves_them_alone(windows: Windows) -> None:
    site = windows.site
    task = site.add("one")
    found = windows.launch(1)
    wait_until(lambda: site.reached(task, "active"), "it is claimed")
    os.kill(found["pid"], signal.SIGKILL)
    wait_until(lambda: not running(found["pid"]), "the launcher is gone")
    shell = site.command("echo beside them")
    assert site.fleet("run", "--force").status == 0
    assert site.reached(shell, "done") and site.reached(task, "active")
    (session,) = windows.sessions()
    assert session["tasks"] == [task]
    assert "windows of r1 go on without a driver" in site.fleet("doctor").out
    windows.end()
    wait_until(lambda: site.reached(task, "done"), "it is done")
    wait_until(lambda: not windows.sessions(), "its window is closed")
    site.command("echo once more")
    assert site.fleet("run", "--force").status == 0
    assert [event["worker"] for event in site.events("disbanded")] == ["r1-w1"]
    assert json.loads((site.dir / "runs/r1/driver.json").read_text())["ended"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--cmd", "no-such-program -x"], "not_found", "no program 'no-such-program'"),
        (["--cmd", "sh 'open"], "bad_input", "cannot be split"),
        (["--cmd", "''"], "bad_input", "names no command"),
        (["--cmd", "true", "--windows"], "unusable", "there is no display"),
        (["--cmd", "true", "--lane", "headless", "--tmux"], "usage", "opens no terminals"),
    ],
)
def test_what_cannot_be_launched_is_refused_before_anything_is_opened(
    tmp_path: Path, words: list[str], code: str, said: str
) -> None:
    site = Site(tmp_path)
    answer = site.fleet("launch", "2", *words, "--json")
    assert (answer.data["code"], said in answer.data["error"]) == (code, True)
    assert not list((site.dir / "runs").glob("r*"))


def test_a_worker_launches_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.json("launch", "1", "--cmd", "true", status=2, env={"FLEET_WORKER": "x"})["code"] == "refused"
