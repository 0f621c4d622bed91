"""The real Codex lists the skill and the tools, and works a queue dry through each."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support import codex_cli
from support.claimers import LONG, LONG_DIGEST, NASTY, by_shell, by_tools, claimer, reader
from support.project import Project, git
from support.responses_server import Brain, ResponsesServer, say, script, shell

pytestmark = pytest.mark.real_cli

SERVER = '\n[mcp_servers.fleet]\ncommand = "fleet"\nargs = ["mcp"]\nrequired = true\n'


BYPASS = "--dangerously-bypass-approvals-and-sandbox"


class Session:
    """A project, and a person's own Codex in it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "codex"
        self.project = Project(root / "project", home=root / "home")
        git(self.project.root, "init", "-q")
        self.project.json("init")
        self.bin = self.project.tools(root / "bin")
        self.server: ResponsesServer | None = None

    def add(self, text: str) -> str:
        """Add a task with any text."""
        return str(self.project.json("add", "-", stdin=text.encode())["id"])

    def run(self, brain: Brain, prompt: str, *arguments: str, settings: str = "", install: bool = True) -> str:
        """One session to its end; returns what the model was told first."""
        with ResponsesServer(brain) as server:
            self.server = server
            env = codex_cli.environment(self.home, server.url)
            env["PATH"] = f"{self.bin}:{env['PATH']}"
            with (self.home / "codex" / "config.toml").open("a", encoding="utf-8") as file:
                file.write(settings)
            if install:
                subprocess.run(["fleet", "install-skill", "--codex"], env=env, check=True, capture_output=True)
            done = subprocess.run(
                [codex_cli.binary(), "exec", "--json", *arguments, prompt],
                cwd=self.project.root,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        return json.dumps(server.turns[0].body)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def dry(session: Session, tasks: list[str]) -> None:
    assert [session.project.state(task) for task in tasks] == ["done"] * len(tasks)
    lines = (session.project.dir / "journal.jsonl").read_text().splitlines()
    owners = {event["owner"] for event in map(json.loads, lines) if event["event"] == "claimed"}
    assert len(owners) == 1
    assert session.project.fleet("verify").status == 0


def test_the_skill_is_listed_and_a_queue_is_worked_dry_with_the_commands(session: Session) -> None:
    tasks = [session.project.add(text) for text in ("one", "two with 'quotes'", "three")]
    told = session.run(claimer(by_shell(shell)), "use the skill fleet-worker", BYPASS)
    assert "- fleet-worker: Work the task queue" in told
    dry(session, tasks)


def test_commands_work_in_the_sandbox_if_it_lets_them_write_the_queue(session: Session) -> None:
    tasks = [session.add("one"), session.add("two")]
    roots = f"sandbox_workspace_write.writable_roots={json.dumps([str(session.project.dir)])}"
    closed = ("--sandbox", "workspace-write")
    session.run(claimer(by_shell(shell)), "use the skill", *closed)
    assert session.server
    assert "Read-only file system" in session.server.turns[-1].results[-1]
    assert [session.project.state(task) for task in tasks] == ["inbox", "inbox"]
    session.run(claimer(by_shell(shell)), "use the skill", *closed, "-c", roots, install=False)
    assert [session.project.state(task) for task in tasks] == ["done", "done"]
    assert session.project.fleet("verify").status == 0


def test_the_skill_of_one_project_is_listed_there_and_git_does_not_see_it(session: Session) -> None:
    session.project.json("install-skill", "--codex", "--scope", "project")
    told = session.run(script(say("hello")), "hello", install=False)
    assert "- fleet-worker: Work the task queue" in told
    assert git(session.project.root, "status", "--porcelain") == ""


def test_the_tools_work_a_queue_dry_inside_the_sandbox(session: Session) -> None:
    tasks = [session.add(text) for text in NASTY]
    told = session.run(claimer(by_tools("mcp__fleet.")), "work the queue", settings=SERVER, install=False)
    assert "mcp__fleet" in told
    dry(session, tasks)
    assert session.server
    read = "\n".join(session.server.turns[-1].results)
    assert all(f"What is to be done:\n{text}\n" in read for text in NASTY)


@pytest.mark.parametrize("way", ["commands", "tools"])
def test_a_text_too_long_for_its_tools_reaches_it_as_a_file(session: Session, way: str) -> None:
    session.add(LONG)
    ask = by_tools("mcp__fleet.") if way == "tools" else by_shell(shell)
    session.run(reader(ask, shell), "go", BYPASS, settings=SERVER if way == "tools" else "", install=False)
    assert session.server
    assert LONG_DIGEST in session.server.turns[-1].results[-1]
