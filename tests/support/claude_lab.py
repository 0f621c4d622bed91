"""A site whose agents are the real Claude Code, and the scripted model on loopback that they talk to."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import claude_cli
from support.model_server import Call, ModelServer, Reply, Tokens, Turn, bash, say
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


def worker(turn: Turn, *, work: str = "echo did {task} by {name}; sleep 0.3") -> Reply:
    """One subagent: it claims, works and reports under the name it was given, until there is nothing for it."""
    name = turn.prompt.split()[3].rstrip(".")
    said = turn.results[-1] if turn.results else ""
    if claimed := re.match(r"(t\d+) is yours", said):
        return bash(work.format(task=claimed[1], name=name))
    if did := re.match(r"did (t\d+)", said):
        return bash(f"fleet done {did[1]} --agent {name} --result '{said.strip()}'")
    if "no task can be claimed" in said or "gives out no more" in said:
        return say(f"{name}: nothing is left")
    return bash(f"fleet claim {name}")


def host(turn: Turn, instead: Callable[[Turn], Any] = lambda _: None) -> Any:
    """The session itself: it starts the subagents that its brief asks for, and nothing else. `instead` may answer first."""
    if (other := instead(turn)) is not None:
        return other
    if turn.prompt.startswith("Your name is r"):
        return worker(turn)
    named = re.search(r"Their names are ([^:]+):", turn.prompt)
    if named and not turn.results:
        (kind,) = re.findall(r"subagents of the type (\S+),", turn.prompt)
        calls = [
            Call("Agent", {"description": name, "prompt": f"Your name is {name}. Begin.", "subagent_type": kind})
            for name in named[1].split(", ")
        ]
        return Reply(calls)
    return say("all have ended")
