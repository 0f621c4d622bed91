"""`fleet show`: one task and everything that happened to it."""

from __future__ import annotations

import datetime
import os
from typing import Any

import click

from agent_fleet import journal
from agent_fleet.commands import Shared, command
from agent_fleet.ledger import usage_from
from agent_fleet.prices import COUNTS
from agent_fleet.queue import lease, records
from agent_fleet.run.diffstat import Work, sentence
from agent_fleet.text import line, printable

_OWN = ("at", "event", "task")


@command("show", help="Show task ID and everything that happened to it.")
@click.argument("task", metavar="ID")
def command_line(shared: Shared, task: str) -> None:
    show(shared, task)


def show(shared: Shared, task: str) -> None:
    """Answer with one task and its history."""
    queue = shared.queue
    place = queue.require(task)
    body = queue.body(place.path, task) or {}
    history = [event for _, event in journal.read(queue.journal.path) if event and event.get("task") == task]
    found = {
        "id": task,
        "state": place.state,
        "generation": place.generation,
        "owner": lease.describe(lease.owner(queue, place.owner)) if place.owner else None,
        "task": body,
        "answers": records.answers(queue, task),
        "answered": records.answered(queue, task),
        "attempts": [_with_work(record, history) for record in records.outcomes(queue, task)],
        "history": history,
    }
    shared.emit(found, lambda: _text(found))


def _text(found: dict[str, Any]) -> str:
    body = found["task"]
    rows = [f"{found['id']}  {found['state']}  lease {found['generation']}"]
    if found["owner"]:
        rows.append(f"held by {line(found['owner']['agent'] or '?')}" + _lane(found["owner"]["lane"]))
    rows += [
        f"{name}: {_value(body[name])}" for name in sorted(body) if name not in ("v", "id", "gate", "created", "target")
    ]
    rows += ["", printable(body.get("target", ""))]
    rows += [f"answer{_giver(answer)}: {printable(answer['answer'])}" for answer in found["answered"]]
    for attempt in found["attempts"]:
        charged = ", charged" if attempt.get("charged") else ""
        rows.append(f"\nlease {attempt['generation']}: {attempt.get('outcome')}{charged}")
        rows += [f"  {name}: {_value(attempt[name])}" for name in ("reason", "result") if attempt.get(name)]
        rows += [f"  {name}: {text}" for name, text in _more(attempt) if text]
    rows += ["", *(f"{_when(event)}  {event.get('event')}  {_rest(event)}" for event in found["history"])]
    return "\n".join(rows)


def _with_work(record: dict[str, Any], history: list[dict[str, Any]]) -> dict[str, Any]:
    """An outcome with what was left in a worktree: a worker that reports by itself does so before that is looked at."""
    told = [event for event in history if event.get("event") == "worktree" and event.get("gen") == record["generation"]]
    if "worktree" in record or not told:
        return record
    return {**record, "worktree": {name: told[-1][name] for name in Work._fields if name in told[-1]}}


def _more(attempt: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    work = attempt.get("worktree")
    left = f"{sentence(work)}; {_where(str(work.get('path')))}" if isinstance(work, dict) else ""
    return ("check", _check(attempt)), ("worktree", left), ("used", _used(attempt))


def _where(path: str) -> str:
    return f"in {line(path, 300)}" if os.path.isdir(path) else "its directory is gone"


def _lane(name: object) -> str:
    return f" in lane {name}" if name else ""


def _value(value: object) -> str:
    return printable(value) if isinstance(value, str) else printable(str(value))


def _giver(answer: dict[str, Any]) -> str:
    by = f" of {line(str(answer['by']), 40)}" if answer.get("by") else ""
    return f"{by}, {_when(answer)}" if "at" in answer else by


def _check(attempt: dict[str, Any]) -> str:
    """The check that fleet ran, how it ended and what it said."""
    found = attempt.get("check")
    if not isinstance(found, dict):
        return ""
    code = found.get("code")
    ended = "did not end by itself" if code is None else f"exited {code}"
    said = printable(str(found.get("output") or "")).strip()
    return f"`{line(str(found.get('command')))}` {ended}" + (f"\n{said}" if said else "")


def _used(record: dict[str, Any]) -> str:
    """What was used, in the classes that were; an empty string where nobody reported anything."""
    usage = usage_from(record.get("usage"))
    if usage is None:
        return ""
    classes = [f"{name.replace('_', ' ')} {number:,}" for name in COUNTS if (number := getattr(usage, name))]
    money = [] if usage.money is None else [f"{usage.money:.4f} US dollars by its own account"]
    return ", ".join([*classes, *money]) + (" (partial)" if usage.partial else "")


def _when(event: dict[str, Any]) -> str:
    at = event.get("at")
    if not isinstance(at, int | float):
        return "?"
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _rest(event: dict[str, Any]) -> str:
    told = {name: value for name, value in event.items() if name not in _OWN and value not in (None, "")}
    words = [f"{name}={value}" for name, value in told.items() if not isinstance(value, dict | list)]
    if event.get("event") == "worktree":
        return line(f"gen={event.get('gen')} {sentence(event)}", 160)
    used = _used(event)
    return line(" ".join([*words, *([f"used: {used}"] if used else [])]), 160)
