"""A session of the real Codex that claims for itself, against a scripted model on loopback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import codex_cli
from support.responses_server import Reply, ResponsesServer, Turn, say, shell
from support.runs import Site

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


def test_in_a_sandbox_that_keeps_the_queue_from_it_its_tasks_are_dispatched(tmp_path: Path) -> None:
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
        lab.site.work(*lab.lane, env=lab.env)

    assert lab.site.events("mustered") == []
    assert [lab.site.state(each) for each in (task, waiting)] == ["done", "done"]
    assert "Read-only file system" in lab.site.record(task)["result"]
    assert not (lab.site.dir / "x").exists()
