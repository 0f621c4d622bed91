"""Sessions of the real CLIs on a terminal: they begin with their brief, work with tools, and tell when a turn has ended."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.api import Crew, Launch
from agent_fleet.testing.crews import new_crew
from agent_fleet_providers.claude import Claude
from agent_fleet_providers.codex import Codex
from support import claude_cli, codex_cli
from support.jobs import settings
from support.model_server import ModelServer, Reply, Turn, bash, say
from support.procs import wait_until
from support.responses_server import ResponsesServer, shell

pytestmark = pytest.mark.real_cli

OPEN = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def on_a_terminal(launch: Launch) -> Iterator[bytearray]:
    """The session on a terminal of its own, which answers nothing but where its cursor is; what it prints comes in."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, b"\x28\0\x78\0\0\0\0\0")  # 40 rows of 120 columns
    argv = [sys.executable, "-c", OPEN, *launch.argv]
    printed = bytearray()

    def read() -> None:
        try:
            while piece := os.read(ours, 65536):
                printed.extend(piece)
                if b"\x1b[6n" in piece:
                    os.write(ours, b"\x1b[1;1R")
        except OSError:
            pass  # the other side is gone

    with subprocess.Popen(
        argv,
        cwd=launch.cwd,
        env=dict(launch.env),
        start_new_session=True,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as child:
        os.close(theirs)
        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield printed
        finally:
            child.kill()
            child.wait()
            reader.join()
            os.close(ours)


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
        with on_a_terminal(claude.crew(crew)):
            wait_until(lambda: turns(crew), "a turn has ended", 90)

    assert server.turns[0].prompt == crew.brief
    assert server.turns[1].results == ["I am r1-w1"]
    assert turns(crew)[0]["last_assistant_message"] == "this turn is over"


def test_codex_on_a_terminal(tmp_path: Path) -> None:
    def brain(turn: Turn) -> Reply:
        return shell("echo I am $FLEET_AGENT") if turn.prompt == crew.brief and not turn.results else say("it is over")

    with ResponsesServer(brain) as server:
        crew = crew_in(tmp_path, codex_cli.environment(tmp_path / "home", server.url))
        with (tmp_path / "home" / "codex" / "config.toml").open("a") as file:
            file.write(f'\n[projects."{crew.cwd}"]\ntrust_level = "trusted"\n')
        toml = f'[provider.codex]\nbinary = "{codex_cli.binary()}"\nsandbox = "danger-full-access"\n'
        with on_a_terminal(Codex(settings(tmp_path, toml)).crew(crew)):
            # it ends a turn of its own too, in which it finds a title
            wait_until(
                lambda: any(crew.brief in turn["input-messages"] for turn in turns(crew)), "a turn has ended", 90
            )

    assert any("I am r1-w1" in result for turn in server.turns for result in turn.results)
