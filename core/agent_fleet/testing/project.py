"""A project of its own for a test: a directory with a queue, a home, and the real `fleet` in child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agent_fleet.plugins import Family

PATIENCE = 150.0

_USER = """\
[providers]
default = "scripted"

[run]
stagger = 0.0
grace = 2.0

[plugin.scripted]
state = {state}
"""


class Answer(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on its standard output; AssertionError if that is anything else."""
        try:
            found = json.loads(self.out)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise AssertionError(f"the command gave no JSON object (status {self.status}): {self.out}{self.err}")
        return found


class FleetProject:
    """A project below `place`. Nothing of this process's environment reaches its commands but the path of programs.

    The provider `scripted` is offered and is the default, as by an installed distribution; tasks choose what it does by
    `script(...)` in their text.
    """

    def __init__(self, place: Path) -> None:
        self.root = place / "project"
        self.home = place / "home"
        self.site = place / "site"
        self.bin = place / "bin"
        for directory in (self.root, self.home / "tmp", self.site, self.bin):
            directory.mkdir(parents=True)
        user = self.home / ".config" / "agent-fleet" / "config.toml"
        user.parent.mkdir(parents=True)
        user.write_text(_USER.format(state=json.dumps(str(self.home / "scripted"))), encoding="utf-8")
        self.offer("providers", "scripted", "agent_fleet.testing.provider")
        self.cli("init").json  # noqa: B018  fails with what it printed

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a command here: programs come from `bin`, then from this process's own path."""
        return {
            "PATH": os.pathsep.join([str(self.bin), os.environ.get("PATH", os.defpath)]),
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "LANG": "C.UTF-8",
            "AGENT_ROOT": str(self.root),
            "AGENT_FLEET_STATE_DIR": str(self.home / "state"),
            "FLEET_LANES_BROWSER": "headless",
            "PYTHONPATH": os.pathsep.join([str(self.site), *(path for path in sys.path if path)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
        }

    def offer(self, family: str | Family[Any], name: str, module: str) -> None:
        """Make a module that can be imported a plugin here, as a distribution does that an installer brought."""
        group = f"agent_fleet.{family}" if isinstance(family, str) else family.group
        info = self.site / f"fleet_project_{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fleet-project-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")

    def program(self, name: str, text: str) -> Path:
        """Put a script on the path of this project's commands and agents. Its first line has to be a `#!` line."""
        path = self.bin / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o700)
        return path

    def configure(self, toml: str) -> None:
        """Write the project's own settings; those that the fixture made lie below them."""
        (self.root / ".agents" / "config.toml").write_text(toml, encoding="utf-8")

    def cli(self, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Answer:
        """Run `fleet` with these arguments, answering in JSON. A traceback is an AssertionError."""
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "agent_fleet", *arguments],
                cwd=self.root,
                env=self.environment | {"FLEET_FORMAT": "json"} | dict(env or {}),
                input=stdin,
                capture_output=True,
                encoding="utf-8",
                errors="backslashreplace",
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise AssertionError(f"fleet {' '.join(arguments)} did not end within {PATIENCE:g} s") from None
        if "Traceback (most recent call last)" in done.stderr:
            raise AssertionError(f"fleet {' '.join(arguments)} ended with a traceback: {done.stderr}")
        return Answer(done.returncode, done.stdout, done.stderr)

    def add(self, target: str, *options: str) -> str:
        """Add a task; its id."""
        return str(self.cli("add", *options, "--", target).json["id"])

    def plan(self, *options: str) -> dict[str, Any]:
        return self.cli("plan", *options).json

    def run(self, *options: str) -> Answer:
        """Work the queue, with room for one worker at least whatever this machine is busy with."""
        return self.cli("run", "--force", *options)

    def show(self, task: str) -> dict[str, Any]:
        return self.cli("show", task).json

    def close(self) -> None:
        """End whatever a run has left behind."""
        if any((self.root / ".agents" / "runs").glob("*")):
            self.cli("stop")


def script(mode: str, **parameters: Any) -> str:
    """The words that, anywhere in a task's text, tell the scripted agent what to do."""
    return f"SCRIPT: {json.dumps({'mode': mode, **parameters})}"
