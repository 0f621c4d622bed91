"""A project in a temporary directory, worked on by the real `fleet` in child processes with an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agent_fleet import identity
from agent_fleet.queue import intake, lease
from agent_fleet.queue.claim import Claim, Claimed, Rules
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import Habits, task_body

_LOOKS = 5  # at directories, for a task that is being moved

BOOT = "import sys; from agent_fleet.cli import main; main()"

SCRIPT = """
import encodings.idna, importlib, io, json, os, sys
from agent_fleet import cli
user, commands = json.load(sys.stdin)
answers = []
if user:  # who may perhaps not read the program: so what it needs is loaded before
    from agent_fleet.commands.table import COMMANDS
    import agent_fleet.clicked, agent_fleet.config, agent_fleet.project, urllib.parse
    import agent_fleet.queue.intake, agent_fleet.queue.touches
    for arguments in commands:
        importlib.import_module("agent_fleet.commands." + COMMANDS[arguments[0]][0])
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
for arguments in commands:
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    status = cli.run(arguments)
    told = [stream.flush() or stream.buffer.getvalue().decode() for stream in (sys.stdout, sys.stderr)]
    answers.append([status, *told])
sys.stdout = sys.__stdout__
print(json.dumps(answers))
"""


class Answer(NamedTuple):
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """The one JSON object on stdout; the test fails if there is anything else."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        assert self.out == json.dumps(found) + "\n"
        return found


class Project:
    """One project root; `fleet(...)` runs a command in it and says how it ended."""

    def __init__(self, root: Path, *, home: Path, name: str = ".agents") -> None:
        self.root = root
        self.home = home
        self.dir = root / name
        for directory in (root, home):
            directory.mkdir(parents=True, exist_ok=True)

    def environment(self, **more: str) -> dict[str, str]:
        """A whole environment: nothing of this process's own gets in but the path of programs."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "LANG": "C.UTF-8",
            "FLEET_LANES_BROWSER": "headless",  # a test opens no window that it has not asked for
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **more,
        }

    def tools(self, directory: Path) -> Path:
        """Make a directory with a `fleet` that runs these sources, for an agent's own tools."""
        directory.mkdir(parents=True)
        script = directory / "fleet"
        path = self.environment()["PYTHONPATH"]
        script.write_text(f"#!/bin/sh\nPYTHONPATH='{path}' exec '{sys.executable}' -c '{BOOT}' \"$@\"\n")
        script.chmod(0o755)
        return directory

    def start(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, **settings: Any
    ) -> subprocess.Popen[bytes]:
        """Start a command without waiting for it."""
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        return subprocess.Popen(
            [sys.executable, "-c", BOOT, *arguments],
            cwd=cwd or self.root,
            env=self.environment(**(env or {})),
            **settings,
        )

    def fleet(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        **settings: Any,
    ) -> Answer:
        """Run a command to its end. The test fails if a traceback reaches anybody."""
        with self.start(*arguments, cwd=cwd, env=env, **{"stdin": subprocess.PIPE, **settings}) as child:
            out, err = child.communicate(stdin, timeout=120)
        answer = Answer(child.returncode, (out or b"").decode(), (err or b"").decode())
        assert "Traceback" not in answer.out + answer.err, answer.err
        return answer

    def script(self, *commands: Sequence[str], cwd: Path | None = None, user: int = 0) -> list[Answer]:
        """Run several commands in one child process, which is faster; `user` is the id of another user to run them as.

        The test fails if an exception leaves one of them.
        """
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            cwd=cwd or self.root,
            env=self.environment(),
            input=json.dumps([user, commands]).encode(),
            capture_output=True,
            timeout=250,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return [Answer(*answer) for answer in json.loads(done.stdout)]

    def json(self, *arguments: str, status: int = 0, **settings: Any) -> dict[str, Any]:
        """Run a command with `--json`; the test fails unless it ends with `status`."""
        answer = self.fleet(*arguments, "--json", **settings)
        assert answer.status == status, (arguments, answer)
        return answer.data

    def add(self, *arguments: str) -> str:
        return str(self.json("add", *arguments)["id"])

    def queue(self) -> Queue:
        return Queue(str(self.dir))

    def files(self) -> list[str]:
        """Every file below the queue directory."""
        return sorted(str(path.relative_to(self.dir)) for path in self.dir.rglob("*") if not path.is_dir())

    def place(self, task: str) -> str:
        """The file of a task, found by looking at the directories alone; the test fails unless there is exactly one.

        A file that is moved while the directories are gone through may be seen twice or not at all, so another look is taken then.
        """
        states = ("inbox", "active", "done", "blocked", "failed")
        found: list[str] = []
        for _ in range(_LOOKS):
            found = [name for name in self.files() if name.split("/")[0] in states and _is_of(name, task)]
            if len(found) == 1:
                return found[0]
        raise AssertionError((task, found))

    def state(self, task: str) -> str:
        return self.place(task).split("/")[0]


def _is_of(name: str, task: str) -> bool:
    return name.rpartition("/")[2].startswith(task + ".g")


def git(directory: Path, *arguments: str) -> str:
    """Run git with no configuration of this machine."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{f"GIT_{who}_{what}": "nobody@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    options = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *options, *arguments], cwd=directory, env=environ, check=True, capture_output=True, text=True
    ).stdout


def repository(directory: Path) -> Path:
    """A git repository with one commit, and a name for whoever commits there."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", ".")
    git(directory, "config", "user.name", "nobody")
    git(directory, "config", "user.email", "nobody@example.com")
    (directory / "README").write_text("x")
    git(directory, "add", "README")
    git(directory, "commit", "-qm", "first")
    return directory


# --------------------------------------------------------------------------------------- the library, in this process


def new_queue(directory: Path) -> Queue:
    queue = Queue(str(directory))
    queue.create()
    return queue


def fill(queue: Queue, tasks: Sequence[str | Mapping[str, Any]]) -> list[str]:
    """Add tasks by their fields, or by their text alone."""
    fields = [{"target": task} if isinstance(task, str) else dict(task) for task in tasks]
    return intake.add(queue, [task_body(each, Habits()) for each in fields])


def enlist(queue: Queue, agent: str = "worker", who: str | None = None) -> lease.Owner:
    return lease.enlist(queue, who or identity.identity_of(), agent=agent, lane="")


def take(queue: Queue, holder: lease.Owner, *, host_max: int = 1) -> Claimed | None:
    """One claim, as a worker makes it."""
    return Claim(queue, holder, Rules(lambda _host: host_max, {})).take()
