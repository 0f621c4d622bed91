"""`fleet show`: one task and everything that happened to it."""

from __future__ import annotations

import datetime
from typing import Any

import click

from agent_fleet import journal
from agent_fleet.commands import Shared, command
from agent_fleet.queue import lease, records
from agent_fleet.text import line, printable

_OWN = ("at", "event", "task")


@command("show", help="Show task ID and everything that happened to it.")
@click.argument("task", metavar="ID")
def command_line(shared: Shared, task: str) -> None:
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
        "attempts": records.outcomes(queue, task),
        "history": history,
    }
    shared.emit(found, lambda: _text(found))


def _text(found: dict[str, Any]) -> str:
    body = found["task"]
    rows = [f"{found['id']}  {found['state']}  lease {found['generation']}"]
    if found["owner"]:
        rows.append(f"held by {line(found['owner']['agent'] or '?')} in lane {found['owner']['lane'] or '-'}")
    rows += [
        f"{name}: {_value(body[name])}" for name in sorted(body) if name not in ("v", "id", "gate", "created", "target")
    ]
    rows += ["", printable(body.get("target", ""))]
    rows += [f"answer: {printable(answer)}" for answer in found["answers"]]
    for attempt in found["attempts"]:
        charged = ", charged" if attempt.get("charged") else ""
        rows.append(f"\nlease {attempt['generation']}: {attempt.get('outcome')}{charged}")
        rows += [
            f"  {name}: {_value(attempt[name])}" for name in ("reason", "result", "check", "usage") if attempt.get(name)
        ]
    rows += ["", *(f"{_when(event)}  {event.get('event')}  {_rest(event)}" for event in found["history"])]
    return "\n".join(rows)


def _value(value: object) -> str:
    return printable(value) if isinstance(value, str) else printable(str(value))


def _when(event: dict[str, Any]) -> str:
    at = event.get("at")
    if not isinstance(at, int | float):
        return "?"
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _rest(event: dict[str, Any]) -> str:
    return line(" ".join(f"{name}={value}" for name, value in event.items() if name not in _OWN), 160)
