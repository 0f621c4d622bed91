"""The files that bring the worker protocol to an agent's program, and what of them stands in one place.

A receipt beside them says which version wrote them and what they were: a file that differs from its receipt is a person's.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from typing import Literal, NamedTuple

from agent_fleet import __version__, skill

NAME = "fleet-worker"
SKILL = f"skills/{NAME}/SKILL.md"
AGENT = f"agents/{NAME}.md"
RECEIPT = ".agent-fleet.json"

README = """\
# Agent Fleet for Claude Code

Lets a session work the task queue of its project: it claims a task, does it, reports what came of it with evidence, and
takes the next one until nothing can be claimed. Start it with `/fleet:fleet-worker`, or give each of several subagents
`fleet:fleet-worker` a name of its own. The command `fleet` must be on your PATH; the tools of the server `fleet` need
`agent-fleet[mcp]`.
"""

Standing = Literal["absent", "current", "outdated", "foreign"]


class Receipt(NamedTuple):
    """What an installation has left: its version, the digest of every file, and the directories it made."""

    version: str
    files: dict[str, str]
    made: tuple[str, ...]


class Bundle(NamedTuple):
    """Files by their path below `base`, and where their receipt lies. `label` names the place to a person."""

    label: str
    base: str
    receipt: str
    files: dict[str, bytes]

    def path(self, name: str) -> str:
        return os.path.join(self.base, name)

    def left(self) -> Receipt | None:
        """What an earlier installation left here; None if there was none, or its receipt cannot be read."""
        try:
            with open(self.path(self.receipt), encoding="utf-8") as file:
                found = json.load(file)
            files, made = dict(found["files"]), [str(each) for each in found["made"]]
            return Receipt(str(found["version"]), {str(k): str(v) for k, v in files.items()}, tuple(made))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def standing(self, name: str) -> Standing:
        """What stands at one of the places: nothing, this version's file, one that an earlier version wrote, or another's."""
        path = self.path(name)
        if not os.path.lexists(path):
            return "absent"
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                return "foreign"
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return "foreign"
        if data == self.files.get(name):
            return "current"
        left = self.left()
        return "outdated" if left and left.files.get(name) == digest(data) else "foreign"

    def new_receipt(self, made: tuple[str, ...]) -> bytes:
        files = {name: digest(data) for name, data in self.files.items()}
        return json.dumps({"version": __version__, "files": files, "made": made}, indent=1).encode() + b"\n"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def claude(base: str, label: str) -> Bundle:
    """For Claude Code: the skill, and a subagent that has the protocol as its own prompt."""
    files = {SKILL: _skill(), AGENT: _agent()}
    return Bundle(label, base, f"skills/{NAME}/{RECEIPT}", files)


def codex(base: str, label: str) -> Bundle:
    """For Codex: the skill."""
    return Bundle(label, base, f"skills/{NAME}/{RECEIPT}", {SKILL: _skill()})


def plugin(base: str) -> Bundle:
    """A whole plugin for Claude Code: skill, subagent and the tools of `fleet mcp`."""
    about = {
        "name": "fleet",
        "version": __version__,
        "description": "Work the task queue of this project with Agent Fleet",
        "author": {"name": "Agent Fleet"},
        "license": "Apache-2.0",
    }
    server = {"mcpServers": {"fleet": {"command": "fleet", "args": ["mcp"]}}}
    files = {
        ".claude-plugin/plugin.json": _json(about),
        ".mcp.json": _json(server),
        "README.md": README.encode(),
        SKILL: _skill(),
        AGENT: _agent(),
    }
    return Bundle("the plugin", base, RECEIPT, files)


def homes(environ: Mapping[str, str], home: str) -> tuple[str, str]:
    """The directories of Claude Code and of Codex for this user."""
    return (
        os.path.abspath(environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")),
        os.path.abspath(environ.get("CODEX_HOME") or os.path.join(home, ".codex")),
    )


def places(environ: Mapping[str, str], home: str, root: str) -> dict[tuple[str, str], Bundle]:
    """Every place where an installation may lie, by program and scope; Codex reads a project's skills from `.agents`."""
    for_claude, for_codex = homes(environ, home)
    return {
        ("claude", "user"): claude(for_claude, "Claude Code, for you"),
        ("claude", "project"): claude(os.path.join(root, ".claude"), "Claude Code, in this project"),
        ("codex", "user"): codex(for_codex, "Codex, for you"),
        ("codex", "project"): codex(os.path.join(root, ".agents"), "Codex, in this project"),
    }


def _skill() -> bytes:
    head, separator, rest = skill.skill().partition("\n---\n")
    return f'{head}\nmetadata:\n  agent-fleet: "{__version__}"{separator}{rest}'.encode()


def _agent() -> bytes:
    head = (
        "---\n"
        f"name: {NAME}\n"
        "description: Works the task queue of this project with Agent Fleet until nothing can be claimed. Give it a name of"
        " its own, such as worker-2, when you start several.\n"
        "---\n\n"
    )
    return (head + skill.protocol()).encode()


def _json(found: object) -> bytes:
    return json.dumps(found, indent=2).encode() + b"\n"
