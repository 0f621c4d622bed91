"""What a run came to, read from the journal, the records and the directories alone: coverage first, then the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agent_fleet import journal
from agent_fleet.queue import records
from agent_fleet.queue.store import BadFileError, Queue, read_json
from agent_fleet.run.diffstat import sentence
from agent_fleet.text import count


class RunLine(NamedTuple):
    """One run: when it began and ended (None: it has not, or nobody wrote it down), and how its tasks were left."""

    id: str
    started: float | None
    ended: float | None
    states: dict[str, int]
    attempts: int


class TaskLine(NamedTuple):
    """What a run did for one task: its attempts by outcome, the state the task is in now, the last thing that was said, and what
    the last one left in a worktree, if it had one.
    """

    task: str
    title: str
    state: str
    attempts: tuple[str, ...]
    evidence: str
    checked: bool
    seconds: float
    work: str = ""


class Coverage(NamedTuple):
    """How much of what a run took on is answered: `asked` tasks, `done` of them, the rest by what became of it."""

    asked: int
    done: int
    others: dict[str, int]

    @property
    def is_whole(self) -> bool:
        return self.asked > 0 and self.done == self.asked

    def __str__(self) -> str:
        rest = ", ".join(f"{number} {name}" for name, number in sorted(self.others.items()))
        return f"{self.done} of {count(self.asked, 'task')} done" + (f"; {rest}" if rest else "")


def runs(queue: Queue) -> list[RunLine]:
    """Every run of this project that left a trace, first run first."""
    found: dict[str, dict[str, Any]] = {}
    for _, event in journal.read(queue.journal.path):
        run = event.get("run") if event else None
        if event is None or not isinstance(run, str):
            continue
        line = found.setdefault(run, {"attempts": 0})
        kind = event.get("event")
        if kind == "run_started":
            line["started"] = event.get("at")
        elif kind == "run_ended":
            line |= {"ended": event.get("at"), "states": event.get("states")}
        elif kind in ("started", "mustered"):
            line["attempts"] += 1
    return [
        RunLine(
            run,
            line.get("started"),
            line.get("ended") or _ended(queue, run),
            line.get("states") or {},
            line["attempts"],
        )
        for run, line in sorted(found.items(), key=lambda item: _number(item[0]))
    ]


def tasks(queue: Queue, run: str) -> Iterator[TaskLine]:
    """Every task that a run started an attempt at, in the order of the first."""
    works = _works(queue, run)
    for task, leases in _started(queue, run).items():
        place = queue.find(task)
        body = queue.body(place.path, task) if place else None
        outcomes = [records.outcome(queue, task, generation) or {} for generation in leases]
        last = outcomes[-1]
        done = last.get("outcome") == "done"
        yield TaskLine(
            task=task,
            title=str((body or {}).get("title") or (body or {}).get("target") or ""),
            state=place.state if place else "set aside" if queue.set_aside(task) else "lost",
            attempts=tuple(str(outcome.get("outcome") or "not settled") for outcome in outcomes),
            evidence=str(last.get("result" if done else "reason") or ""),
            checked=bool(last.get("check")),
            seconds=sum(_seconds(outcome, begun) for outcome, begun in zip(outcomes, leases.values(), strict=True)),
            work=works.get(task, ""),
        )


def coverage(lines: list[TaskLine], untouched: int = 0) -> Coverage:
    """How much of a run is answered. A task that is back in the inbox is not: nobody has said what became of it.

    Nor are the `untouched`, which still waited when the run ended: what a limit kept from starting is missing all the same.
    """
    others: dict[str, int] = {"not started": untouched} if untouched else {}
    for line in lines:
        if line.state != "done":
            name = {"inbox": "not answered", "active": "at work"}.get(line.state, line.state)
            others[name] = others.get(name, 0) + 1
    return Coverage(len(lines) + untouched, sum(line.state == "done" for line in lines), others)


def untouched(queue: Queue, run: str) -> int:
    """How many tasks waited when a run ended that it had not begun; 0 for one that has not ended or did not say."""
    told = 0
    for _, event in journal.read(queue.journal.path):
        if event and event.get("event") == "run_ended" and event.get("run") == run:
            number = event.get("untouched")
            told = number if isinstance(number, int) and number > 0 else 0
    return told


def _started(queue: Queue, run: str) -> dict[str, dict[int, float]]:
    """When each lease began under which a run worked: those that it started, and those that its sessions claimed."""
    found: dict[str, dict[int, float]] = {}
    for _, event in journal.read(queue.journal.path):
        if event and _is_of_run(event, run):
            task, generation, at = event.get("task"), event.get("gen"), event.get("at")
            if isinstance(task, str) and isinstance(generation, int):
                found.setdefault(task, {})[generation] = float(at) if isinstance(at, int | float) else 0.0
    return found


def _works(queue: Queue, run: str) -> dict[str, str]:
    """What the last attempt of each task left in its worktree, in words."""
    events = (event for _, event in journal.read(queue.journal.path) if event and event.get("event") == "worktree")
    return {str(event.get("task")): sentence(event) for event in events if event.get("run") == run}


def _seconds(outcome: dict[str, Any], begun: float) -> float:
    """How long an attempt took: by its process, or, where a session worked many tasks, from its claim to its report."""
    exit, ended = outcome.get("exit"), outcome.get("ended")
    if isinstance(exit, dict):
        return float(exit.get("seconds") or 0.0)
    return max(0.0, ended - begun) if isinstance(ended, int | float) and begun else 0.0


def _is_of_run(event: dict[str, Any], run: str) -> bool:
    if event.get("event") == "started":
        return bool(event.get("run") == run)
    return event.get("event") == "claimed" and str(event.get("worker") or "").partition("-")[0] == run


def _ended(queue: Queue, run: str) -> float | None:
    """When a run ended whose driver died before it could say so in the journal."""
    try:
        ended = read_json(queue.path("runs", run, "driver.json")).get("ended")
    except (BadFileError, FileNotFoundError, NotADirectoryError):
        return None
    return ended if isinstance(ended, int | float) else None


def _number(run: str) -> tuple[int, str]:
    return (int(run[1:]), run) if run[1:].isdigit() else (0, run)
