"""`fleet runs`: the runs of this project."""

from __future__ import annotations

import datetime
import time
from typing import Any

from agent_fleet.commands import Shared, command
from agent_fleet.deploy import belonging, coverage, record
from agent_fleet.errors import FleetError
from agent_fleet.queue.store import Queue
from agent_fleet.run import history, roster
from agent_fleet.run.history import RunLine
from agent_fleet.text import count, duration, line


@command("runs", help="List the runs of this project: when they began, how long they took, how their tasks were left.")
def command_line(shared: Shared) -> None:
    lines = history.runs(shared.queue)
    alive = {run.id: life for run, life in roster.runs(shared.queue)}
    deployments = _deployments(shared.queue)
    shared.emit(
        {
            "runs": [each._asdict() | {"alive": alive.get(each.id, False)} for each in lines],
            "deployments": deployments,
        },
        lambda: (
            "\n".join([*(_row(each, alive.get(each.id, False)) for each in lines), *map(_deployment, deployments)])
            or "no run yet; start one with: fleet run"
        ),
    )


def _deployments(queue: Queue) -> list[dict[str, Any]]:
    """Every deployment of this project; one whose record cannot be read says so."""
    found: list[dict[str, Any]] = []
    for name in record.names(queue):
        try:
            deployment = record.read(queue, name)
        except FleetError as error:
            found.append({"id": name, "fault": error.message})
            continue
        covered = coverage.coverage(coverage.fates(deployment, coverage.given(queue, deployment)))
        found.append(
            {
                "id": name,
                "task": deployment.instruction,
                "created": deployment.created,
                "parts": len(deployment.scopes),
                "coverage": str(covered),
                "runs": sorted(
                    belonging.runs_of(queue, name), key=lambda run: int(run[1:]) if run[1:].isdigit() else 0
                ),
            }
        )
    return found


def _deployment(told: dict[str, Any]) -> str:
    if "fault" in told:
        return f"{told['id']:>5}  {told['fault']}"
    runs = f" in {', '.join(told['runs'])}" if told["runs"] else ""
    return f"{told['id']:>5}  {line(told['task'], 50)}: {told['coverage']}; {count(told['parts'], 'part')}{runs}"


def _row(found: RunLine, alive: bool | None) -> str:
    began = "?"
    if found.started is not None:
        began = datetime.datetime.fromtimestamp(found.started, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if found.ended is not None and found.started is not None:
        took = f"took {duration(found.ended - found.started)}"
    else:
        life = {True: "at work", None: "of unknown life", False: "its driver is gone"}[alive]
        took = f"{life}, began {duration(time.time() - found.started)} ago" if found.started is not None else life
    states = ", ".join(f"{number} {state}" for state, number in found.states.items())
    return f"{found.id:>5}  {began}  {took}; {count(found.attempts, 'attempt')}" + (f": {states}" if states else "")
