"""`fleet reset`: active or failed tasks return to the queue."""

from __future__ import annotations

import os
import time

import click

from agent_fleet.commands import Shared, command
from agent_fleet.commands.finite import Finite
from agent_fleet.errors import FleetError
from agent_fleet.queue import finish, holds, lease
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue

_WHY = "reset by a person"


@command(
    "reset",
    help="Return tasks to the queue. Without ID: every active task (with --older-than S: those that showed no life for S "
    "seconds). With ID: that active or failed task. A worker that still holds one finds its lease lost.",
)
@click.argument("tasks", nargs=-1, metavar="[ID]...")
@click.option("--older-than", type=Finite(min=0), metavar="S", help="Only tasks without a sign of life for S seconds.")
def command_line(shared: Shared, tasks: tuple[str, ...], older_than: float | None) -> None:
    if tasks and older_than is not None:
        raise FleetError(
            "usage", "name the tasks or --older-than, not both", hint="`fleet status` shows what is active"
        )
    queue = shared.queue
    found = [_one(queue, task) for task in tasks] if tasks else _active(queue, older_than)
    lease.forget(queue)
    moved = [task for task, state in found if state == "inbox"]
    ended = {task: state for task, state in found if state != "inbox"}
    shared.emit({"reset": moved, "ended": ended}, lambda: _text(moved, ended))


def _text(moved: list[str], ended: dict[str, str]) -> str:
    rows = [f"back in the inbox: {', '.join(moved)}"] if moved else []
    rows += [f"{task} is {state}: its worker had reported that before it died" for task, state in ended.items()]
    return "\n".join(rows) or "nothing to reset"


def _one(queue: Queue, task: str) -> tuple[str, str]:
    place = queue.require(task)
    state = "inbox"
    if place.state == "active":
        state = finish.hand_back(queue, task, Proof(force=True), _WHY)
    else:
        finish.reopen(queue, task, event="reset", why=_WHY, states=("failed",))
    holds.put(queue, {task: None})
    return task, state


def _active(queue: Queue, older_than: float | None) -> list[tuple[str, str]]:
    moved = []
    for task, generation, key, gate, name in queue.active():
        path = queue.path("active", name)
        try:
            silent = time.time() - os.lstat(path).st_mtime
        except FileNotFoundError:
            continue
        if older_than is not None and silent < older_than:
            continue
        state = lease.give_back(queue, task, generation, gate, path, event="returned", why=_WHY, owner=key)
        if state:
            moved.append((task, state))
    return moved
