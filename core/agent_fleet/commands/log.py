"""`fleet log`: what a task's last attempt printed."""

from __future__ import annotations

import os

import click

from agent_fleet.commands import Shared, command
from agent_fleet.errors import FleetError
from agent_fleet.queue.store import Queue
from agent_fleet.text import printable


@command("log", help="Show what the last attempt at task ID printed.")
@click.argument("task", metavar="ID")
@click.option("--generation", type=int, help="The attempt under this lease instead of the last.")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Only the last N lines.")
def command_line(shared: Shared, task: str, generation: int | None, tail: int | None) -> None:
    queue = shared.queue
    place = queue.require(task)
    number = generation if generation is not None else _last(queue, task, place.generation)
    path = queue.path("logs", f"{task}.g{number}.log")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        raise FleetError(
            "not_found", f"{task} has no log of lease {number}", hint="only attempts started by fleet run have one"
        ) from None
    shown = lines[-tail:] if tail else lines
    shared.emit({"id": task, "generation": number, "path": path, "lines": shown}, lambda: printable("\n".join(shown)))


def _last(queue: Queue, task: str, generation: int) -> int:
    """The newest lease that has a log: a returned task may have been given out since without one."""
    for number in range(generation, 0, -1):
        if os.path.exists(queue.path("logs", f"{task}.g{number}.log")):
            return number
    return generation
