"""The real Claude Code lists the skill, the plugin and the tools, and works a queue dry through each, with no rule but theirs."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support import claude_cli
from support.claimers import LONG, LONG_DIGEST, NASTY, by_shell, by_tools, claimer, reader
from support.model_server import Brain, Call, Fault, ModelServer, Reply, Turn, bash, say, script
from support.project import Project, git

pytestmark = pytest.mark.real_cli

SERVER = {"mcpServers": {"fleet": {"command": "fleet", "args": ["mcp"]}}}


class Session:
    """A project, and a person's own Claude Code in it."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root / "project", home=root / "home")
        git(self.project.root, "init", "-q")
        self.project.json("init")
        self.env = claude_cli.environment(root / "claude", "")
        self.env["PATH"] = f"{self.project.tools(root / 'bin')}:{self.env['PATH']}"
        self.server: ModelServer | None = None

    def fleet(self, *arguments: str) -> None:
        subprocess.run(["fleet", *arguments], cwd=self.project.root, env=self.env, check=True, capture_output=True)

    def run(self, brain: Brain, prompt: str, *arguments: str) -> list[dict[str, Any]]:
        """One session to its end; returns its events."""
        with ModelServer(brain) as server:
            self.server = server
            done = subprocess.run(
                [claude_cli.binary(), "-p", prompt, "--output-format", "stream-json", "--verbose", *arguments],
                cwd=self.project.root,
                env={**self.env, "ANTHROPIC_BASE_URL": server.url},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def add(self, text: str) -> str:
        """Add a task with any text."""
        return str(self.project.json("add", "-", stdin=text.encode())["id"])

    def states(self, tasks: list[str]) -> list[str]:
        return [self.project.state(task) for task in tasks]

    def holders(self) -> set[str]:
        """The processes that held the tasks, by the journal: an owner's key begins with its pid and start."""
        lines = (self.project.dir / "journal.jsonl").read_text().splitlines()
        return {event["owner"].rpartition("x")[0] for event in map(json.loads, lines) if event["event"] == "claimed"}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    yield Session(tmp_path)


def first(events: list[dict[str, Any]], **wanted: str) -> dict[str, Any]:
    return next(event for event in events if all(event.get(key) == value for key, value in wanted.items()))


def dry(session: Session, tasks: list[str], events: list[dict[str, Any]]) -> None:
    """Every task was done, for one and the same process, and nothing was denied."""
    assert session.states(tasks) == ["done"] * len(tasks), events[-1]
    assert len(session.holders()) == 1
    assert first(events, type="result")["permission_denials"] == []
    assert session.project.fleet("verify").status == 0


def test_the_skill_works_a_queue_dry_and_brings_the_permission_for_it(session: Session) -> None:
    session.fleet("install-skill", "--claude")
    tasks = [session.project.add(text) for text in ("one", "two with 'quotes'", "three")]
    events = session.run(claimer(by_shell(bash)), "/fleet-worker go")
    init = first(events, type="system", subtype="init")
    assert "fleet-worker" in init["skills"]
    assert "fleet-worker" in init["agents"]
    assert session.server
    assert "The queue alone" in session.server.turns[0].prompt
    dry(session, tasks, events)


def test_the_skill_of_one_project_is_listed_there_and_git_does_not_see_it(session: Session) -> None:
    session.fleet("install-skill", "--claude", "--scope", "project")
    events = session.run(script(say("hello")), "hello")
    init = first(events, type="system", subtype="init")
    assert {"fleet-worker"} <= {*init["skills"]} & {*init["agents"]}
    assert git(session.project.root, "status", "--porcelain") == ""


def test_the_plugin_works_a_queue_dry_through_its_skill_and_its_tools(session: Session, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    session.fleet("install-skill", "--plugin", str(plugin))
    tasks = [session.project.add(text) for text in ("one", "two")]
    ask = by_tools("mcp__plugin_fleet_fleet__")
    allowed = ("--plugin-dir", str(plugin), "--allowedTools", "mcp__plugin_fleet_fleet")
    events = session.run(claimer(ask), "/fleet:fleet-worker go", *allowed)
    init = first(events, type="system", subtype="init")
    assert "fleet" in [each["name"] for each in init["plugins"]]
    assert "fleet:fleet-worker" in init["skills"]
    assert "fleet:fleet-worker" in init["agents"]
    dry(session, tasks, events)

    more = [session.project.add(text) for text in ("three", "four")]
    session.run(claimer(by_shell(bash)), "/fleet:fleet-worker go", "--plugin-dir", str(plugin))
    assert session.states(more) == ["done", "done"]


def test_the_tools_alone_work_a_queue_dry(session: Session) -> None:
    tasks = [session.add(text) for text in NASTY]
    server = ("--mcp-config", json.dumps(SERVER), "--strict-mcp-config", "--allowedTools", "mcp__fleet")
    events = session.run(claimer(by_tools("mcp__fleet__")), "work the queue", *server)
    init = first(events, type="system", subtype="init")
    assert [(each["name"], each["status"]) for each in init["mcp_servers"]] == [("fleet", "connected")]
    wanted = {"claim", "heartbeat", "done", "block", "fail", "plan", "why"}
    assert {f"mcp__fleet__{name}" for name in wanted} <= {*init["tools"]}
    dry(session, tasks, events)
    assert session.server
    read = "\n".join(session.server.turns[-1].results)
    assert all(f"What is to be done:\n{text}\n" in read for text in NASTY)


@pytest.mark.parametrize("way", ["commands", "tools"])
def test_a_text_too_long_for_its_tools_reaches_it_as_a_file(session: Session, way: str) -> None:
    session.add(LONG)
    server = ("--mcp-config", json.dumps(SERVER), "--strict-mcp-config") if way == "tools" else ()
    ask = by_tools("mcp__fleet__") if way == "tools" else by_shell(bash)
    events = session.run(reader(ask, bash), "go", *server, "--allowedTools", "Bash", "mcp__fleet")
    assert first(events, type="result")["result"].startswith(LONG_DIGEST)


def _dispatcher(names: Sequence[str]) -> Brain:
    """The model of a session that has one subagent a name work the queue, and of those subagents."""

    def brain(turn: Turn) -> Reply | Fault:
        mine = re.search(r"your name is (\S+)", turn.prompt)
        if mine:
            return claimer(by_shell(bash), mine[1])(turn)
        if turn.results or "worker" not in turn.prompt:
            return say("they are at work")
        given = [{"description": "work", "subagent_type": "fleet-worker", "prompt": f"your name is {n}"} for n in names]
        return Reply([Call("Agent", each) for each in given])

    return brain


def test_subagents_of_one_session_share_the_queue_under_names_of_their_own(session: Session) -> None:
    session.fleet("install-skill", "--claude")
    tasks = [session.add(f"part {number}") for number in range(6)]
    brain = _dispatcher(("worker-1", "worker-2"))
    events = session.run(brain, "start two workers", "--allowedTools", "Agent", "Bash(fleet *)")
    dry(session, tasks, events)
    lines = (session.project.dir / "journal.jsonl").read_text().splitlines()
    agents = {event["agent"] for event in map(json.loads, lines) if event["event"] == "claimed"}
    assert agents == {"worker-1", "worker-2"}
    assert session.server
    assert any("The queue alone" in json.dumps(turn.body["system"]) for turn in session.server.turns)


def test_tasks_of_a_session_that_dies_return(session: Session) -> None:
    """What is claimed through the tools is held by the session, not by the server: `/exit` is enough."""
    task = session.project.add("one")
    server = ("--mcp-config", json.dumps(SERVER), "--strict-mcp-config", "--allowedTools", "mcp__fleet")

    def brain(turn: Any) -> Reply:
        return say("I go") if turn.results else Reply([Call("mcp__fleet__claim", {"agent": "worker-1"})])

    session.run(brain, "claim and go", *server)
    assert session.project.json("claim", "other")["id"] == task
    assert session.project.json("show", task)["generation"] == 2
