"""A session of the real Codex that claims for itself, against a scripted model on loopback."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import codex_cli
from support.claimers import by_tools, claimer
from support.procs import wait_until
from support.responses_server import Fault, Reply, ResponsesServer, Turn, say, shell
from support.runs import Site, attempts_of, gone

pytestmark = pytest.mark.real_cli

CONFIG = """
[run]
stagger = 0
grace = 5
[subagent]
seats = 4
[provider.codex]
binary = "{binary}"
sandbox = "{sandbox}"
"""


def brain(turn: Turn) -> Reply:
    """The worker that its brief describes."""
    (name,) = set(re.findall(r"called (r\d+-w\d+)\.", turn.prompt))
    said = turn.results[-1] if turn.results else ""
    if claimed := re.search(r"(t\d+) is yours", said):
        return shell(f"echo did {claimed[1]}")
    if did := re.search(r"did (t\d+)", said):
        return shell(f"fleet done {did[1]} --agent {name} --result 'the shell said did {did[1]}'")
    if "no task can be claimed" in said:
        return say("nothing is left")
    return shell(f"fleet claim {name}")


@pytest.fixture
def server() -> Iterator[ResponsesServer]:
    with ResponsesServer(brain) as found:
        yield found


NOWHERE = """
[provider.claude]
binary = "/nowhere/claude"
"""


class Lab:
    """A site whose agents are the real program, in a sandbox or not."""

    def __init__(self, root: Path, server: ResponsesServer, sandbox: str) -> None:
        self.site = Site(root, CONFIG.format(binary=codex_cli.binary(), sandbox=sandbox))
        agents = codex_cli.environment(root / "agents", server.url)
        self.env = {name: value for name, value in agents.items() if name not in ("PATH", "HOME")}
        self.env["PATH"] = f"{self.site.tools(root / 'bin')}:/usr/local/bin:/usr/bin:/bin"
        self.lane = ("--lane", "subagent", "--provider", "codex", "--max", "1")


def test_one_session_works_the_queue_dry(server: ResponsesServer, tmp_path: Path) -> None:
    lab = Lab(tmp_path, server, "danger-full-access")
    site = lab.site
    tasks = [site.add(f"look at part {number}") for number in range(3)]
    site.work(*lab.lane, env=lab.env)

    assert site.counts() == {"done": 3}
    assert [site.record(task)["result"] for task in tasks] == [f"the shell said did {task}" for task in tasks]
    assert {site.record(task)["worker"] for task in tasks} == {"r1-w1"}
    (over,) = site.events("disbanded")
    assert (over["outcome"], over["seats"]) == ("done", 1)
    assert over["usage"]["input"] > 0
    assert site.is_clean()


def test_in_a_sandbox_one_session_works_its_share_by_the_tools_outside_of_it(tmp_path: Path) -> None:
    """Its own commands reach neither the queue nor its claim; the server has its marks and its limits."""
    tool = by_tools("mcp__fleet.")
    seen: list[str] = []

    def closed(turn: Turn) -> Reply | Fault:
        if not turn.results:
            return shell("fleet claim me; touch .agents/x; echo tried")
        if len(turn.results) == 1:
            seen.append(turn.results[0])
            return tool("claim", {"agent": "r1-w1"})
        return claimer(tool, "r1-w1")(turn)

    with ResponsesServer(closed) as server:
        lab = Lab(tmp_path, server, "workspace-write")
        site = lab.site
        tasks = [site.add(f"look at part {number}") for number in range(3)]
        checked = site.add("checked", "--check", "test -e README || touch README")
        other, shell_task = site.add("for another", "--provider", "claude"), site.command("echo by fleet")
        site.configure(CONFIG.format(binary=codex_cli.binary(), sandbox="workspace-write") + NOWHERE)
        site.work(*lab.lane[:2], "--max", "1", env=lab.env | {"FLEET_PROVIDERS_DEFAULT": "codex"})

    assert "Read-only file system" in seen[0] and not (site.dir / "x").exists()
    assert [site.state(task) for task in (*tasks, checked, shell_task, other)] == ["done"] * 5 + ["inbox"]
    assert {site.record(task)["worker"] for task in (*tasks, checked)} == {"r1-w1"}
    assert {event["agent"] for event in site.events("claimed") if event["task"] in tasks} == {"r1-w1"}
    assert site.record(shell_task)["by"] == "fleet"
    (over,) = site.events("disbanded")
    assert (over["outcome"], over["returned"], over["usage"]["input"] > 0) == ("done", [], True)
    assert "tools of the server `fleet`" in server.turns[0].prompt
    assert site.is_clean()


def test_what_a_session_holds_by_the_tools_returns_when_it_dies(tmp_path: Path) -> None:
    tool = by_tools("mcp__fleet.")
    go = tmp_path / "go"

    def dying(turn: Turn) -> Reply | Fault:
        if turn.results and not go.exists():
            return shell("sleep 600")
        return claimer(tool, "me")(turn)

    with ResponsesServer(dying) as server:
        lab = Lab(tmp_path, server, "workspace-write")
        task = lab.site.add("look")
        with lab.site.driving(*lab.lane, env=lab.env) as driver:
            wait_until(lambda: lab.site.reached(task, "active"), "it is claimed", 60)
            (attempt,) = attempts_of(lab.site)
            alive = lab.site.alive()
            go.touch()
            os.kill(attempt.worker.pid, signal.SIGKILL)
            answer = driver.end()
    assert answer.status == 0, answer
    assert lab.site.reached(task, "done")
    assert [record["charged"] for record in lab.site.records(task)] == [False]
    gone(alive)
    assert lab.site.is_clean()


def test_a_dispatched_worker_cannot_reach_the_queue_from_its_sandbox(tmp_path: Path) -> None:
    """The sandbox must not be opened for the queue: what is in the queue runs outside of it."""

    def dispatched(turn: Turn) -> Reply:
        (nonce,) = set(re.findall(r"FLEET-([0-9a-z]+) DONE", turn.prompt))
        if not turn.results:
            return shell("fleet claim me; touch .agents/x; echo $?")
        return say(f"it said: {turn.results[-1]}\n\nFLEET-{nonce} DONE")

    with ResponsesServer(dispatched) as server:
        lab = Lab(tmp_path, server, "workspace-write")
        task = lab.site.add("look")
        waiting = lab.site.add("wait", "--needs", task)
        lab.site.work("--lane", "headless", "--provider", "codex", "--max", "1", env=lab.env)

    assert lab.site.events("mustered") == []
    assert [lab.site.state(each) for each in (task, waiting)] == ["done", "done"]
    assert "Read-only file system" in lab.site.record(task)["result"]
    assert not (lab.site.dir / "x").exists()
