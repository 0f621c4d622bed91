"""Replaying the journal against the directories: every disagreement is named, every crash's gap is recognised.

A transition is journalled after its rename, so a process that dies in between leaves a gap of one step. A gap is legal where
the next step could have happened; everything else is a disagreement: a task that is nowhere, in two places, at an older
lease than the journal has seen, or in a state that no step leads to.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from agent_fleet import journal
from agent_fleet.queue import names, records
from agent_fleet.queue.store import Queue

_MOVES = {
    "added": "inbox",
    "claimed": "active",
    "reclaimed": None,
    "returned": None,
    "finished": None,
    "unblocked": "inbox",
    "reset": "inbox",
}
_STEPS = {
    "inbox": {"active"},
    "active": {"inbox", "done", "blocked", "failed"},
    "blocked": {"inbox"},
    "failed": {"inbox"},
    "done": set(),
}


class Report(NamedTuple):
    """What `verify` found: `faults` are disagreements; `notes` are gaps that a crash explains, and files set aside."""

    tasks: int
    lines: int
    faults: list[str]
    notes: list[str]


class _Seen(NamedTuple):
    state: str
    generation: int
    line: int


def verify(queue: Queue) -> Report:
    """Compare the journal with the directories. Reads every task file; changes nothing but setting bad files aside."""
    faults: list[str] = []
    notes: list[str] = []
    try:
        queue.journal.set_strange_aside()
    except OSError as error:
        notes.append(f"the journal cannot be set aside: {error.strerror}")
    told, set_aside, lines = _replay(queue, faults, notes)
    there = _inventory(queue, faults)
    for task in sorted(told.keys() | there.keys(), key=names.number_of):
        _compare(queue, task, told.get(task), there.get(task, []), task in set_aside, faults, notes)
    notes += queue.notices
    return Report(len(there), lines, faults, notes)


def _replay(queue: Queue, faults: list[str], notes: list[str]) -> tuple[dict[str, _Seen], set[str], int]:
    told: dict[str, _Seen] = {}
    done: dict[str, tuple[int, int]] = {}
    set_aside: set[str] = set()
    lines = 0
    for number, event in journal.read(queue.journal.path):
        lines += 1
        if event is None:
            notes.append(f"journal line {number} is torn: a process died while it was written, or the disk was full")
            continue
        kind, task = event.get("event"), event.get("task")
        if kind == "quarantined":
            set_aside |= _ids_in(str(event.get("file", "")))
        if kind not in _MOVES or not isinstance(task, str) or not names.is_id(task):
            continue
        state = _MOVES[str(kind)] or event.get("to")
        generation = event.get("gen")
        if state not in names.STATES or not isinstance(generation, int):
            faults.append(f"journal line {number} says nothing that can be understood about {task}")
            continue
        if state == "done":
            lease, line = done.setdefault(task, (generation, number))
            if lease != generation:
                faults.append(f"{task} was done twice: journal lines {line} and {number}")
        before = told.get(task)
        # two processes write their lines in either order, so a later line may tell of an earlier lease
        if before is None or (generation, _rank(state)) >= (before.generation, _rank(before.state)):
            told[task] = _Seen(str(state), generation, number)
    return told, set_aside, lines


def _rank(state: str) -> int:
    """Order of states within one lease: it begins active and ends in any other."""
    return 0 if state == "active" else 1


def _ids_in(file: str) -> set[str]:
    name = file.rpartition("/")[2]
    parsed = names.parse_entry(name) or names.parse_active(name)
    return {parsed[0]} if parsed else set()


def _inventory(queue: Queue, faults: list[str]) -> dict[str, list[tuple[str, int]]]:
    seen: dict[str, list[tuple[str, int, str]]] = {}

    def note(task: str, state: str, generation: int, path: str) -> None:
        if queue.body(path, task) is not None:
            seen.setdefault(task, []).append((state, generation, path))

    for task, generation, _, _, name in queue.active():
        note(task, "active", generation, queue.path("active", name))
    for task, generation, _, path in queue.waiting():
        note(task, "inbox", generation, path)
    for state in names.SETTLED:
        for task, generation, path in queue.settled(state):
            note(task, state, generation, path)
    there: dict[str, list[tuple[str, int]]] = {}
    for task, places in seen.items():
        # a task that moved while the directories were read was met twice, but is only in one of them
        left = places if len(places) == 1 else [place for place in places if os.path.exists(place[2])]
        there[task] = [(state, generation) for state, generation, _ in left]
        if len(left) > 1:
            where = ", ".join(f"{state} (lease {generation})" for state, generation in there[task])
            faults.append(f"{task} is in two places: {where}")
    return there


def _compare(
    queue: Queue,
    task: str,
    told: _Seen | None,
    places: list[tuple[str, int]],
    set_aside: bool,
    faults: list[str],
    notes: list[str],
) -> None:
    if not places:
        if set_aside:
            notes.append(f"{task} was set aside: its file could not be used")
        elif told is not None and queue.find(task) is None:
            faults.append(
                f"{task} is lost: the journal last saw it in {told.state} (line {told.line}), and no directory holds it"
            )
        return
    state, generation = places[0]
    if state == "done" and records.outcome(queue, task, generation) is None:
        faults.append(f"{task} is done, but nothing on record says what was observed")
    if told is None:
        if generation or state not in ("inbox", "active"):
            faults.append(f"{task} is in {state}, but the journal never saw it added")
        else:
            notes.append(f"the journal never saw {task} added: its adder died, or the disk was full, at the last step")
        return
    if (state, generation) == (told.state, told.generation):
        return
    why = _gap(queue, task, told, state, generation)
    (notes if why.startswith("note: ") else faults).append(why.removeprefix("note: "))


def _gap(queue: Queue, task: str, told: _Seen, state: str, generation: int) -> str:
    """What the difference between the journal's last line and the directories means; notes are explained by one crash each."""
    last = f"{told.state} (lease {told.generation}, line {told.line})"
    where = f"{task} is in {state} (lease {generation}); the journal last saw it in {last}"
    if generation < told.generation:
        return f"{where}: a lease was lowered"
    if generation == told.generation:
        legal = state in _STEPS[told.state] and state != "active"
        agrees = state == "inbox" or _agrees(queue, task, state, generation)
        return f"note: {where}: a step was not written down" if legal and agrees else f"{where}: no step leads there"
    if told.state == "done":
        return f"{where}: a finished task was given out again"
    if state in names.SETTLED and not _agrees(queue, task, state, generation):
        return f"{where}: nothing on record explains it"
    return f"note: {where}: {generation - told.generation} leases were not written down"


def _agrees(queue: Queue, task: str, state: str, generation: int) -> bool:
    outcome: dict[str, Any] = records.outcome(queue, task, generation) or {}
    return outcome.get("state") == state
