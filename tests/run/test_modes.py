"""All that a worker can do, at once and many times over: each task ends as it deserves, and every token is accounted for."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from agent_fleet import process
from agent_fleet.queue import records
from agent_fleet.queue.store import Queue
from agent_fleet.testing import FleetProject
from support.project import fill
from support.runs import overlap

pytestmark = pytest.mark.slow

CONFIG = """
[run]
stagger = 0.0
grace = 1.0
backoff = 0.05
first_byte = 12.0
idle = 10.0
[queue]
max_attempts = 2
[capacity]
max_mem_per_worker = "150 MiB"
"""
CLASSES = ("input", "cache_write", "cache_read", "output", "reasoning")


class Kind(NamedTuple):
    """What a worker does in each lease (the last for all that follow), how its task ends, and how its first attempt does."""

    steps: list[dict[str, Any]]
    state: str
    first: str
    priority: int = 5
    fields: Mapping[str, Any] = MappingProxyType({})


def _always(state: str, first: str, mode: str, **told: Any) -> Kind:
    return Kind([{"mode": mode, **told}], state, first)


def _once(first: str, mode: str, **told: Any) -> Kind:
    """Met in the first lease, gone in the next."""
    return Kind([{"mode": mode, **told}, {"mode": "ok"}], "done", first)


KINDS = {
    "ok": _always("done", "done", "ok", seconds=0.2),
    "reads-stdin": _always("done", "done", "reads-stdin"),
    "writes-result-late": _always("done", "done", "writes-result-late"),
    "lone-surrogate": _always("done", "done", "lone-surrogate"),
    "50-MB-line": _always("done", "done", "50-MB-line", mb=5),
    "changes-cwd": _always("done", "done", "changes-cwd"),
    "double-forks": _always("done", "done", "double-forks"),
    "own-session-child": _always("done", "done", "own-session-child"),
    "own-tmux-server": _always("done", "done", "own-tmux-server"),
    "fork-burst": _always("done", "done", "fork-burst", count=20),
    "429-burst-then-ok": Kind([{"mode": "429-burst-then-ok", "fails": 1, "retries": 1}], "done", ""),
    "exit0-limit": _once("limit", "exit0-limit", resets_in=0.5),
    "exit1-limit": _once("limit", "exit1-limit", resets_in=0.5),
    "429-forever": _once("limit", "429-forever", retries=1),
    "overload": _once("overload", "overload", retries=1),
    "silent-before-first-byte": _once("timeout", "silent-before-first-byte", seconds=300),
    "stall": _once("timeout", "stall", seconds=300),
    "ignores-sigterm": _once("timeout", "ignores-sigterm", seconds=300),
    "partial-json": _once("unknown", "partial-json"),
    "crash": _once("crashed", "crash"),
    "unknown-exit": _once("unknown", "unknown-exit"),
    "ok-empty": _always("failed", "failed", "ok-empty"),
    "failed": _always("failed", "failed", "failed"),
    "dirty-worktree-exit": _always("failed", "failed", "dirty-worktree-exit"),
    "false-done": _always("failed", "failed", "false-done")._replace(fields={"check": "test -e report.txt"}),
    "leaks-memory": _always("failed", "", "leaks-memory", mb=300),
    "usage-over-budget": _always("failed", "budget", "usage-over-budget", tokens=50_000),
    "blocked": _always("blocked", "blocked", "blocked"),
    # walls come last, since each ends the starts of its run
    "auth-401": _once("auth", "auth-401")._replace(priority=9),
    "wrong-identity": _once("auth", "wrong-identity")._replace(priority=9),
    "onboarding-screen": _once("auth", "onboarding-screen", seconds=0.2)._replace(priority=9),
}
WALLS = ("auth-401", "wrong-identity", "onboarding-screen")


class Mix:
    """A project with many tasks of every kind."""

    def __init__(self, project: FleetProject, counts: dict[str, int]) -> None:
        project.configure(CONFIG)
        self.project = project
        self.queue = Queue(str(project.root / ".agents"))
        kinds = [name for name, count in counts.items() for _ in range(count)]
        random.Random(11).shuffle(kinds)
        ids = fill(self.queue, [_fields(name, number) for number, name in enumerate(kinds)])
        self.kinds = dict(zip(ids, kinds, strict=True))

    def finish(self, *room: str, most: int) -> int:
        """Work the queue until nothing waits, by no more runs than this: a wall needs a new one. How many it took."""
        for run in range(1, most + 1):
            answer = self.project.run(*room)
            if not any(True for _ in self.queue.waiting()):
                return run
        raise AssertionError(f"after {most} runs tasks still wait: {answer.err[-3000:]}")

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        lines = (self.project.root / ".agents" / "journal.jsonl").read_text().splitlines()
        return [event for line in lines if (event := json.loads(line))["event"] in kinds]

    def logs(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """The events in the output of each attempt."""
        for path in sorted((self.project.root / ".agents" / "logs").glob("t*.log")):
            yield path.name, [event for line in path.read_bytes().splitlines() if (event := _event(line)) is not None]

    def sent(self) -> tuple[Counter[str], float]:
        """All tokens by class and all money that the agents themselves said they used, by their own output."""
        tokens: Counter[str] = Counter()
        money = 0.0
        for _, events in self.logs():
            told = [event for event in events if event["type"] == "usage"]
            if told:
                tokens.update({name: told[-1][name] for name in CLASSES})
                money += told[-1]["money"]
        return tokens, money

    def alive(self) -> list[int]:
        found = []
        for path in self.queue.listing("runs"):
            mark = json.loads(Path(self.queue.path("runs", path, "driver.json")).read_text())["mark"]
            found += [proc.pid for proc in process.marked(mark)]
        return found

    def check_states(self) -> None:
        places = {task: self.queue.find(task) for task in self.kinds}
        states = {task: place.state if place else "lost" for task, place in places.items()}
        wrong = {
            task: (kind, states[task], [each.get("reason") for each in records.outcomes(self.queue, task)])
            for task, kind in self.kinds.items()
            if states[task] != KINDS[kind].state
        }
        assert not wrong

    def check_accounts(self) -> None:
        """The agents' own words, the records and `fleet cost` tell the same sum."""
        tokens, money = self.sent()
        cost = self.project.cli("cost").json["total"]
        assert {name: cost["tokens"][name] for name in CLASSES} == dict(tokens)
        assert cost["money"]["amount"] == pytest.approx(money, abs=1e-6)
        recorded: Counter[str] = Counter()
        for task in self.kinds:
            for each in records.outcomes(self.queue, task):
                recorded.update({name: each["usage"][name] for name in CLASSES})
        assert recorded == tokens

    def check_nothing_ran_twice(self) -> None:
        started = Counter((event["task"], event["gen"]) for event in self.events("started"))
        assert max(started.values()) == 1
        for name, events in self.logs():
            assert len([event for event in events if event["type"] == "started"]) <= 1, name
        spans: dict[str, list[tuple[float, float]]] = {}
        began: dict[str, float] = {}
        for event in self.events("claimed", "finished", "returned", "reclaimed"):
            if event["event"] == "claimed":
                began[event["task"]] = event["at"]
            elif event["task"] in began:
                spans.setdefault(event["task"], []).append((began.pop(event["task"]), event["at"]))
        for task, found in spans.items():
            found.sort()
            assert not any(overlap(one, other) for one, other in itertools.pairwise(found)), task
        finals = Counter(event["task"] for event in self.events("finished") if event["to"] != "inbox")
        assert max(finals.values()) == 1, "a task that has ended is never worked on again"


def _fields(kind: str, number: int) -> dict[str, Any]:
    told = KINDS[kind]
    steps = [{**step, "key": f"k{number}"} for step in told.steps]
    return {"target": f"part {number} SCRIPT: {json.dumps(steps)}", "priority": told.priority, **told.fields}


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "type" in found else None


def test_two_hundred_tasks_of_every_kind_end_as_they_deserve_and_add_up(fleet_project: FleetProject) -> None:
    counts = {name: 1 if name in WALLS else 4 for name in KINDS}
    counts["ok"] += 200 - sum(counts.values())
    mix = Mix(fleet_project, counts)
    runs = mix.finish("--max", "8", most=20)

    assert sum(counts.values()) == len(mix.kinds) == 200
    mix.check_states()
    for task, kind in mix.kinds.items():
        first = records.outcomes(mix.queue, task)[0]
        assert KINDS[kind].first in ("", first["outcome"]), (kind, first)
        assert first["charged"] == (first["outcome"] not in ("done", "blocked", "limit", "auth", "overload")), kind
        assert first["outcome"] != "done" or first["result"], kind
    mix.check_accounts()
    mix.check_nothing_ran_twice()
    assert mix.alive() == []
    assert len(mix.events("run_started")) == runs
    assert fleet_project.cli("verify").status == 0


@contextmanager
def driving(project: FleetProject, *room: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-P", "-m", "agent_fleet", "run", "--force", *room]
    with subprocess.Popen(
        command, cwd=project.root, env=project.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as driver:
        try:
            yield driver
        finally:
            driver.kill()


def test_a_driver_killed_at_twenty_moments_of_such_a_run_loses_nothing_and_repeats_nothing(
    fleet_project: FleetProject,
) -> None:
    counts = {name: 1 if name in WALLS else 2 for name in KINDS}
    counts["ok"] += 60 - sum(counts.values())
    mix = Mix(fleet_project, counts)
    chance = random.Random(5)
    hit = 0
    for _ in range(20):
        with driving(fleet_project, "--max", "4") as driver:
            deadline = time.monotonic() + chance.uniform(0.4, 2.5)
            while driver.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            hit += driver.poll() is None
    assert hit >= 10, "most drivers were killed, and did not end by themselves"
    mix.finish("--max", "8", most=20)

    mix.check_states()
    mix.check_accounts()
    mix.check_nothing_ran_twice()
    assert mix.alive() == []
    assert fleet_project.cli("verify").status == 0
