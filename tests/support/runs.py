"""A project whose queue is worked by the real `fleet run` in processes of their own, and what its journal says of that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_fleet import journal, process
from agent_fleet.queue import names, records
from agent_fleet.run import roster
from support.procs import running, wait_until
from support.project import Answer, Project

QUICK = """
[health]
rest = 0.5
[run]
stagger = 0
grace = 2
"""


class Site(Project):
    """A project with a configuration that does not wait, and with the state directory of its own machine."""

    def __init__(self, root: Path, config: str = "") -> None:
        super().__init__(root / "project", home=root / "home")
        self.json("init")
        self.configure(config)

    def configure(self, config: str) -> None:
        (self.dir / "config.toml").write_text(config if "[run]" in config else QUICK + config, encoding="utf-8")

    def command(self, text: str, *arguments: str) -> str:
        """Add a task that is a shell command."""
        return self.add(text, "--need", "command", *arguments)

    def work(self, *arguments: str, status: int = 0, env: Mapping[str, str] | None = None) -> Answer:
        """Run the queue to its end with room for four workers."""
        with self.driving(*arguments, env=env) as driver:
            answer = driver.end()
        assert answer.status == status, answer
        return answer

    def reached(self, task: str, state: str) -> bool:
        """Whether a task is in this state now; it may be moving while it is looked for."""
        place = self.queue().find(task)
        return place is not None and place.state == state

    def record(self, task: str) -> dict[str, Any]:
        """The last outcome of a task."""
        return records.outcomes(self.queue(), task)[-1]

    def records(self, task: str) -> list[dict[str, Any]]:
        return records.outcomes(self.queue(), task)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """What the journal says, of these kinds."""
        lines = journal.read(str(self.dir / "journal.jsonl"))
        return [event for _, event in lines if event is not None and event["event"] in kinds]

    def intervals(self) -> dict[str, list[tuple[float, float]]]:
        """When each task was active, by its claims and what ended them."""
        began: dict[str, float] = {}
        found: dict[str, list[tuple[float, float]]] = {}
        for event in self.events("claimed", "finished", "returned", "reclaimed"):
            if event["event"] == "claimed":
                began[event["task"]] = event["at"]
            else:
                found.setdefault(event["task"], []).append((began.pop(event["task"]), event["at"]))
        return found

    def counts(self) -> dict[str, int]:
        files = [name.split("/")[0] for name in self.files()]
        return {state: count for state in names.STATES if (count := files.count(state))}

    def is_clean(self) -> bool:
        """Whether the journal and the directories agree."""
        return self.fleet("verify").status == 0

    def marks(self) -> list[str]:
        """The mark of every run, ended or not."""
        found = []
        for path in sorted((self.dir / "runs").glob("r*/driver.json")):
            found.append(json.loads(path.read_text())["mark"])
        return found

    def alive(self) -> list[int]:
        """What lives of all runs."""
        return [proc.pid for mark in self.marks() for proc in process.marked(mark)]

    @contextmanager
    def driving(
        self,
        *arguments: str,
        room: Sequence[str] = ("--force", "--max", "4"),
        env: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Iterator[Driving]:
        """A run in the background; whatever is left of it at the end of the block is killed."""
        with self.start("run", *room, *arguments, env=env, **settings) as child:
            try:
                yield Driving(child)
            finally:
                if child.poll() is None:
                    child.kill()
                while left := self.alive():
                    for pid in left:
                        _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Driving:
    """A driver that runs."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        self.pid = child.pid

    def end(self, timeout: float = 120.0) -> Answer:
        """Wait for its end; a run that does not end fails the test."""
        out, err = self.child.communicate(timeout=timeout)
        answer = Answer(self.child.returncode, (out or b"").decode(), (err or b"").decode())
        assert "Traceback" not in answer.out + answer.err, answer.err
        return answer

    def kill(self) -> None:
        self.child.kill()
        self.child.communicate(timeout=30)


def overlap(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Whether two intervals share more than a moment: the journal rounds to a millisecond, and is written after the rename."""
    return max(first[0], second[0]) + 0.002 < min(first[1], second[1])


def gone(pids: list[int]) -> None:
    """Wait until none of these runs."""
    wait_until(lambda: not any(running(pid) for pid in pids), f"{pids} are gone")


def attempts_of(site: Site) -> list[roster.Attempt]:
    return [attempt for run, _ in roster.runs(site.queue()) for attempt in roster.attempts(site.queue(), run)]
