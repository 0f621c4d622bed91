"""Real processes for tests: started below a mark, waited for with a deadline, and swept at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import agent_fleet
from agent_fleet.process import marked
from agent_fleet.queue import names

PATIENCE = 120.0
KEEPER = os.path.join(os.path.dirname(agent_fleet.__file__), "run", "keeper.py")


def wait_until(holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait until `holds()` is true; fail the test if it is not within `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


def running(pid: int) -> bool:
    """Whether a process runs, read from the system by itself and not through the code under test."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in (b"Z", b"X")


def pids_in(directory: Path) -> list[int]:
    """The pids that scripts below wrote, each as the name of an empty file."""
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())


@contextmanager
def new_mark() -> Iterator[str]:
    """A mark that nothing else carries; whatever still carries it at the end is killed."""
    mark = f"test-{uuid.uuid4().hex}"
    try:
        yield mark
    finally:
        for _ in range(100):
            left = marked(mark)
            for proc in left:
                try:
                    os.kill(proc.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if not left:
                break


def environment(mark: str, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "FLEET_WORKER": mark, **more}


def python(code: str) -> list[str]:
    """A command that runs Python code with nothing but the standard library."""
    return [sys.executable, "-I", "-S", "-c", code]


class Attempt:
    """One lease, one worker directory and the keeper that is started there."""

    def __init__(self, root: Path, mark: str, argv: list[str], /, **order: Any) -> None:
        self.dir = root / "runs" / "r1" / "workers" / "w1"
        self.dir.mkdir(parents=True)
        self.active = root / "active"
        self.owners = root / "owners"
        for directory in (self.active, self.owners, root / "logs"):
            directory.mkdir(exist_ok=True)
        self.log = root / "logs" / "t1.g3.log"
        self.lease = self.active / names.active_name("t1", 3, "driver", "_")
        self.lease.write_text("{}")
        take = {
            "from": str(self.lease),
            "active_dir": str(self.active),
            "owners_dir": str(self.owners),
            "task": "t1",
            "generation": 3,
            "gate": "_",
            "agent": "claude",
            "lane": "headless",
        }
        fields = {"argv": argv, "cwd": str(root), "env": environment(mark), "stdin": "", "log": str(self.log)}
        limits = {"total": 0, "first_byte": 0, "idle": 0, "grace": 1.0, "max_log": 0}
        self.order = {**fields, "mark": mark, "take": take, **limits, **order}

    def start(self, *, close_streams: bool = False) -> subprocess.Popen[bytes]:
        (self.dir / "keeper.json").write_text(json.dumps(self.order))
        command = [sys.executable, "-I", "-S", KEEPER, str(self.dir)]
        if close_streams:
            command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
        with open(self.dir / "stderr", "wb") as stderr:
            return subprocess.Popen(
                command,
                env=environment(self.order["mark"]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    def run(self) -> dict[str, Any]:
        with self.start() as keeper:
            assert keeper.wait(PATIENCE) == 0, (self.dir / "stderr").read_text()
        return self.exit()

    def exit(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.dir / "exit.json").read_bytes())
        return record

    def ended(self) -> bool:
        return (self.dir / "exit.json").exists()

    def owner(self) -> dict[str, Any]:
        """The record of whoever holds the lease now."""
        (name,) = os.listdir(self.active)
        parsed = names.parse_active(name)
        assert parsed is not None
        record: dict[str, Any] = json.loads((self.owners / f"{parsed[2]}.json").read_bytes())
        return record
