"""A site whose agents are the real Claude Code, and the scripted model on loopback that they talk to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from support import claude_cli
from support.model_server import ModelServer, Reply, Tokens, Turn, say
from support.runs import Site

CONFIG = """
[run]
stagger = 0
grace = 5
[provider.claude]
binary = "{binary}"
"""


class Lab:
    """A site whose agents are the real program, and the model that they talk to."""

    def __init__(self, root: Path, server: ModelServer) -> None:
        self.site = Site(root, CONFIG.format(binary=claude_cli.binary()))
        self.server = server
        self.env = {
            name: value
            for name, value in claude_cli.environment(root / "agents", server.url).items()
            if name not in ("PATH", "HOME")
        }
        self.env["PATH"] = f"{self.site.tools(root / 'bin')}:/usr/local/bin:/usr/bin:/bin"

    def work(self, *arguments: str, status: int = 0) -> None:
        self.site.work(*arguments, status=status, env=self.env)

    def used(self, record: dict[str, Any]) -> Tokens:
        usage = record["usage"]
        return Tokens(
            input=usage["input"],
            cache_write=usage["cache_write"],
            cache_read=usage["cache_read"],
            output=usage["output"] + usage["reasoning"],
        )


def verdict(turn: Turn, text: str, word: str = "DONE") -> Reply:
    """A last message with the verdict line that the prompt of this attempt asks for."""
    (nonce,) = set(re.findall(r"FLEET-([0-9a-z]+) DONE", turn.prompt))
    return say(f"{text}\n\nFLEET-{nonce} {word}")


def task_of(turn: Turn) -> str:
    (task,) = set(re.findall(r"exactly one task, (t\d+)\.", turn.prompt))
    return str(task)
