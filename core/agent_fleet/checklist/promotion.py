"""Which items of a note become tasks, and why others do not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent_fleet.checklist.identity import Names, digests, names_of, source
from agent_fleet.checklist.item import Detail, Entry, detail, entries, ref
from agent_fleet.checklist.outline import Outline
from agent_fleet.errors import FleetError
from agent_fleet.queue.task import Habits, task_body


class Promotion(NamedTuple):
    """`bodies` are the new tasks of the items `new`. `left` are taken items that stay with the person, and why.

    `known` counts items that are in the queue already, `elsewhere` open items by the section that is left alone, and `gone`
    are digests of tasks whose item is not in the note any more.
    """

    new: Sequence[Entry]
    bodies: Sequence[dict[str, Any]]
    left: Sequence[tuple[Entry, str]]
    known: int
    elsewhere: Mapping[str, int]
    gone: Sequence[str]


def promotion(
    note: Outline, file: str, standing: Mapping[str, str], remembered: Sequence[str], habits: Habits
) -> Promotion:
    """What is to be added. `standing` has the id of the task that stands for an item, `remembered` every digest in the queue.

    Raises FleetError, with the line, for an item that cannot be a task.
    """
    found = entries(note)
    marks = digests(found)
    offered = [at for at, entry in enumerate(found) if entry.item.is_taken and entry.item.is_open]
    fresh = [at for at in offered if marks[at] not in standing and not found[at].marks.left]
    details = {at: detail(note, found[at]) for at in fresh}
    names = names_of(found, [ref(note, entry) for entry in found])
    needs, waiting = _needs(found, details, names, [standing.get(mark, "") for mark in marks])
    new = [at for at in fresh if at not in waiting]
    bodies = [
        _body(found[at], details[at], source(file, marks[at]), [_named(marks, one) for one in needs[at]], habits)
        for at in new
    ]
    left = [
        (found[at], _why(found[at], waiting.get(at, ""), standing.get(marks[at], "")))
        for at in offered
        if found[at].marks.left or at in waiting
    ]
    others = Counter(entry.item.section for entry in found if entry.item.is_open and not entry.item.is_taken)
    present = set(marks)
    known = sum(1 for at in offered if marks[at] in standing)
    gone = [digest for digest in dict.fromkeys(remembered) if digest not in present]
    return Promotion([found[at] for at in new], bodies, left, known, dict(others), gone)


def _why(entry: Entry, waiting: str, task: str) -> str:
    """Why an item stays with the person; one that was added before it was marked is named, since its task is still there."""
    return (entry.marks.left or waiting) + (f", but {task} came from it" if task else "")


def _needs(
    found: Sequence[Entry], details: Mapping[int, Detail], names: Names, tasks: Sequence[str]
) -> tuple[dict[int, list[int | str]], dict[int, str]]:
    """What each new item needs, as items of this batch and ids; and the items that wait for one that is not added."""
    needs: dict[int, list[int | str]] = {at: [] for at in details}
    dependents: dict[int, list[int]] = {}
    blocked: list[tuple[int, int]] = []
    for at, inside in details.items():
        for value in inside.needs:
            for one in names.meant(found[at], value):
                if isinstance(one, str):
                    needs[at].append(one)
                elif not found[one].item.is_open:
                    continue
                elif tasks[one]:
                    needs[at].append(tasks[one])
                elif one in details:
                    needs[at].append(one)
                    dependents.setdefault(one, []).append(at)
                else:
                    blocked.append((at, one))
    waiting: dict[int, str] = {}
    while blocked:
        at, cause = blocked.pop()
        if at not in waiting:
            waiting[at] = f"it needs line {found[cause].line}, which is not done and stays with you"
            blocked += [(other, cause) for other in dependents.get(at, ())]
    return needs, waiting


def _named(marks: Sequence[str], one: int | str) -> str:
    return one if isinstance(one, str) else f"item {marks[one]}"


def _body(entry: Entry, inside: Detail, origin: str, needs: Sequence[str], habits: Habits) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "target": entry.text,
        "notes": inside.notes,
        "priority": entry.marks.priority,
        "touches": list(inside.touches),
        "needs": list(needs),
        "check": inside.check,
        "source": origin,
        "trust": "person",
        "ref": f"item {origin.rpartition('#')[2]}",
    }
    if entry.marks.is_serial:
        fields["need"] = "serial"
    elif entry.marks.is_parallel:
        fields["need"] = "agent"
    try:
        return task_body(fields, habits)
    except FleetError as error:
        raise FleetError(error.code, f"line {entry.line}: {error.message}", hint=error.hint) from None
