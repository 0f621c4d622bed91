"""The tasks of the queue that came from one note."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agent_fleet.checklist.identity import digest_in
from agent_fleet.queue import names, records
from agent_fleet.queue.store import Queue
from agent_fleet.text import line

_TEXT, _EVIDENCE = 100, 160
# forward, as tasks go, and then once more where those come to that go back
_ORDER = ("inbox", "active", *names.SETTLED, "inbox", "active")


class Origin(NamedTuple):
    """A task that came from an item of a note. `digest` is the item's."""

    task: str
    state: str
    generation: int
    digest: str
    text: str


def origins(queue: Queue, file: str) -> list[Origin]:
    """Every task that came from this file, oldest first, seen even if it moves meanwhile."""
    found: dict[str, Origin] = {}
    missed: dict[str, None] = {}
    strangers: set[str] = set()
    for state in _ORDER:
        for task, generation, path in queue.places(state):
            if task in strangers:
                continue
            if task in found:
                found[task] = found[task]._replace(state=state, generation=generation)
                continue
            body = queue.body(path, task)
            if body is None:
                missed[task] = None
            elif not _remember(found, task, state, generation, body, file):
                strangers.add(task)
    for task in missed:
        place = queue.find(task)
        body = queue.body(place.path, task) if place and task not in found and task not in strangers else None
        if place and body is not None:
            _remember(found, task, place.state, place.generation, body, file)
    return sorted(found.values(), key=lambda origin: names.number_of(origin.task))


def _remember(
    found: dict[str, Origin], task: str, state: str, generation: int, body: dict[str, Any], file: str
) -> bool:
    digest = digest_in(body.get("source", ""), file)
    if digest:
        found[task] = Origin(task, state, generation, digest, body["target"])
    return bool(digest)


def log_line(queue: Queue, origin: Origin) -> str:
    """The line that the log gets for a task that is done with evidence, always the same; empty where there is none."""
    record = records.outcome(queue, origin.task, origin.generation) if origin.state == "done" else None
    evidence = _evidence(record) if record else ""
    if not record or not evidence:
        return ""
    shown = line(evidence, _EVIDENCE).replace("`", "'")  # as code, so that nothing in it is read as markup
    return f"- {_day(record.get('ended'))} {origin.task} {line(origin.text, _TEXT)}: `{shown}`"


def logs(told: Mapping[str, str], past: Iterable[Origin]) -> dict[str, list[str]]:
    """The log lines of each item, by its digest; `told` has them by task, empty where there is none."""
    found: dict[str, list[str]] = {}
    for origin in past:
        if told.get(origin.task):
            found.setdefault(origin.digest, []).append(told[origin.task])
    return found


def _evidence(record: dict[str, Any]) -> str:
    """What was observed; else, that the check passed."""
    result = str(record.get("result") or "").strip()
    check = record.get("check")
    if not result and isinstance(check, dict) and check.get("code") == 0:
        return f"passed: {check.get('command')}"
    return result


def _day(at: object) -> str:
    """The day of a time, by UTC."""
    if not isinstance(at, int | float) or not 0 <= at < 1e11:
        return "undated"
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d")
