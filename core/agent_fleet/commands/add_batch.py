"""`fleet add-batch`: add many tasks at once, all or none."""

from __future__ import annotations

import gc
import sys
from typing import Any

import click

from agent_fleet import document
from agent_fleet.commands import Shared, command
from agent_fleet.commands.add import given, habits, warn_of_wishes
from agent_fleet.queue import batch, intake, names


@command(
    "add-batch",
    help="Add many tasks, all or none: one a line (`TARGET | title | note`), or JSON Lines; `-` is standard input.",
)
@click.argument("file")
@click.option("--priority", type=int, help="For every task that says nothing else.")
@click.option("--kind", help="For every task that says nothing else.")
@click.option("--need", type=click.Choice(names.NEEDS), help="For every task that says nothing else.")
@click.option("--lane", "--exec", "lane", help="For every task that says nothing else.")
@click.option("--provider", help="For every task that says nothing else.")
@click.option("--check", metavar="COMMAND", help="For every task that says nothing else.")
@click.option("--source", help="Where the tasks come from.")
@click.option("--untrusted", is_flag=True, help="The texts come from outside: agents treat them as data.")
def command_line(shared: Shared, file: str, **options: Any) -> None:
    gc.disable()  # a batch holds no cycles, and looking for them is a tenth of its cost
    bodies = batch.parse(_read(file), habits(shared), given(options))
    queue = shared.made_queue()
    ids = intake.add(queue, bodies)
    warn_of_wishes(shared, bodies)
    span = {"added": len(ids), "first": ids[0] if ids else None, "last": ids[-1] if ids else None}
    shared.emit(
        span, lambda: f"{len(ids)} tasks added: {ids[0]} to {ids[-1]}" if ids else "nothing to add: the batch is empty"
    )


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read() if sys.stdin else b""
    return document.read(file, 1 << 34, what="a text file, or - for standard input")
