"""`fleet list`: tasks, of all states or one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import click

from agent_fleet.commands import Shared, command
from agent_fleet.queue import names
from agent_fleet.queue.store import Queue
from agent_fleet.text import line


@command("list", help="List tasks, of all states or one: inbox, active, done, blocked or failed.")
@click.argument("state", metavar="[STATE]", required=False, type=click.Choice(names.STATES))
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Show at most so many.")
@click.option("--all", "everything", is_flag=True, help="Show all of them.")
def command_line(shared: Shared, state: str | None, limit: int, everything: bool) -> None:
    tasks(shared, state, limit=limit, everything=everything)


def tasks(shared: Shared, state: str | None, *, limit: int, everything: bool = False) -> None:
    """Answer with the tasks of one state or of all, at most `limit` of them unless it is to be everything."""
    found = _tasks(shared.queue, (state,) if state else names.STATES)
    shown = list(found if everything else itertools.islice(found, limit + 1))
    more = not everything and len(shown) > limit
    shown = shown[: None if everything else limit]
    shared.emit({"tasks": shown, "more": more}, lambda: _text(shown, more))


def _tasks(queue: Queue, states: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for state in states:
        for task, generation, path in queue.places(state):
            body = queue.body(path, task)
            if body is not None:
                yield {**body, "state": state, "generation": generation}


def _text(tasks: list[dict[str, Any]], more: bool) -> str:
    if not tasks:
        return "no tasks"
    rows = [
        f"{task['id']:>6}  {task['state']:<8} {task['priority']}  {task['need']:<8} {line(task.get('title') or task['target'], 80)}"
        for task in tasks
    ]
    return "\n".join(rows + (["… there are more: --limit N or --all"] if more else []))
