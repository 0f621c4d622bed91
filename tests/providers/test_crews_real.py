"""Sessions of the real CLIs on a terminal: they begin with their brief, work with tools, and tell when a turn has ended."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.api import Crew, Launch
from agent_fleet.testing.crews import new_crew
from agent_fleet_providers.claude import Claude
from agent_fleet_providers.codex import Codex
from support import claude_cli, codex_cli
from support.claimers import by_shell, by_tools, claimer
from support.jobs import settings
from support.model_server import ModelServer, Reply, Turn, bash, say
from support.responses_server import Fault, ResponsesServer, shell
from support.runs import Site
from support.terminal import Terminal, terminal

pytestmark = pytest.mark.real_cli

TITLED = re.compile(rb"\x1b\][02];[^\x07\x1b]")  # xterm's ctlseqs: the window gets another title


def started(launch: Launch) -> AbstractContextManager[Terminal]:
    return terminal(launch.argv, launch.env, Path(launch.cwd))


def crew_in(root: Path, env: dict[str, str]) -> Crew:
    crew = new_crew(root, 1, interactive=True)
    ours = {name: value for name, value in crew.env.items() if name.startswith(("FLEET_", "AGENT_"))}
    return replace(crew, env={**env, **ours, "TERM": "xterm-256color"})


def turns(crew: Crew) -> list[dict[str, Any]]:
    path = Path(crew.env["FLEET_TURNS"])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_claude_on_a_terminal(tmp_path: Path) -> None:
    def brain(turn: Turn) -> Reply:
        return say("this turn is over") if turn.results else bash("echo I am $FLEET_AGENT")

    with ModelServer(brain) as server:
        crew = crew_in(tmp_path, claude_cli.environment(tmp_path / "home", server.url))
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["test-key"], "rejected": []},
            "projects": {crew.cwd: {"hasTrustDialogAccepted": True}},
        }
        (tmp_path / "home" / "claude" / ".claude.json").write_text(json.dumps(known))
        claude = Claude(settings(tmp_path, f'[provider.claude]\nbinary = "{claude_cli.binary()}"\n'))
        with started(claude.crew(crew)) as screen:
            assert screen.until(lambda: turns(crew), 90), screen.printed
        assert not TITLED.search(screen.printed)

    assert server.turns[0].prompt == crew.brief
    assert server.turns[1].results == ["I am r1-w1"]
    assert turns(crew)[0]["last_assistant_message"] == "this turn is over"


@pytest.mark.parametrize("sandbox", ["danger-full-access", "workspace-write"])
def test_codex_on_a_terminal(tmp_path: Path, sandbox: str) -> None:
    """In a sandbox it has the tools of `fleet mcp`, whose server knows whose tree it is in."""
    tools = sandbox != "danger-full-access"
    site = Site(tmp_path)
    task = site.add("look")
    ask = by_tools("mcp__fleet.") if tools else by_shell(shell)
    work = claimer(ask, "r1-w1")

    def is_told(text: str) -> bool:
        """Whether a turn is of the session itself: it has one of its own too, in which it finds a title."""
        return text.startswith(crew.brief) and "User prompt:" not in text

    def brain(turn: Turn) -> Reply | Fault:
        return work(turn) if is_told(turn.prompt) else say("a title")

    with ResponsesServer(brain) as server:
        env = codex_cli.environment(tmp_path / "agents", server.url)
        crew = crew_in(tmp_path, env | {"PATH": f"{site.tools(tmp_path / 'bin')}:{env['PATH']}"})
        crew = replace(
            crew, cwd=str(site.root), env={**crew.env, "AGENT_ROOT": str(site.root), "FLEET_WORKER": "r1-00-w1"}
        )
        with (tmp_path / "agents" / "codex" / "config.toml").open("a") as file:
            file.write(f'\n[projects."{crew.cwd}"]\ntrust_level = "trusted"\n')
        toml = f'[provider.codex]\nbinary = "{codex_cli.binary()}"\nsandbox = "{sandbox}"\n'
        with started(Codex(settings(tmp_path, toml)).crew(crew)) as screen:
            assert screen.until(
                lambda: any(is_told(text) for turn in turns(crew) for text in turn["input-messages"]), 90
            ), screen.printed

    assert not TITLED.search(screen.printed)
    assert site.state(task) == "done"
    (claimed,) = site.events("claimed")
    assert (claimed["agent"], claimed["worker"]) == ("r1-w1", "r1-w1")
