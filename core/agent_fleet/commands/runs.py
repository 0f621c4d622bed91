"""`fleet runs`: the runs of this project."""

from __future__ import annotations

import datetime
import time

from agent_fleet.commands import Shared, command
from agent_fleet.run import history, roster
from agent_fleet.run.history import RunLine
from agent_fleet.text import count, duration


@command("runs", help="List the runs of this project: when they began, how long they took, how their tasks were left.")
def command_line(shared: Shared) -> None:
    lines = history.runs(shared.queue)
    alive = {run.id: life for run, life in roster.runs(shared.queue)}
    shared.emit(
        {"runs": [line._asdict() | {"alive": alive.get(line.id, False)} for line in lines]},
        lambda: (
            "\n".join(_row(line, alive.get(line.id, False)) for line in lines)
            or "no run yet; start one with: fleet run"
        ),
    )


def _row(line: RunLine, alive: bool | None) -> str:
    began = "?"
    if line.started is not None:
        began = datetime.datetime.fromtimestamp(line.started, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if line.ended is not None and line.started is not None:
        took = f"took {duration(line.ended - line.started)}"
    else:
        life = {True: "at work", None: "of unknown life", False: "its driver is gone"}[alive]
        took = f"{life}, began {duration(time.time() - line.started)} ago" if line.started is not None else life
    states = ", ".join(f"{number} {state}" for state, number in line.states.items())
    return f"{line.id:>5}  {began}  {took}; {count(line.attempts, 'attempt')}" + (f": {states}" if states else "")
