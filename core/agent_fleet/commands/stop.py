"""`fleet stop`: end the runs of this project and everything that they started, and prove it."""

from __future__ import annotations

import time
from typing import Any

import click

from agent_fleet import identity, process, tree
from agent_fleet.commands import Shared, command
from agent_fleet.errors import FleetError
from agent_fleet.queue import lease
from agent_fleet.run import roster
from agent_fleet.run.roster import Run


@command("stop", help="End the runs of this project and everything that they started; their tasks return to the queue.")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--drain", is_flag=True, help="Start nothing new, but let the workers finish.")
@click.option("--grace", type=click.FloatRange(min=0), metavar="S", help="Seconds between asking and ending.")
def command_line(shared: Shared, runs: tuple[str, ...], drain: bool, grace: float | None) -> None:
    if shared.environ.get("FLEET_WORKER"):
        raise FleetError(
            "refused",
            "this is a worker of a fleet; it cannot stop the run that it works for",
            hint="end by reporting the task",
        )
    queue = shared.queue
    found = [(run, alive) for run, alive in roster.runs(queue) if not runs or run.id in runs]
    missing = sorted(set(runs) - {run.id for run, _ in found})
    if missing:
        raise FleetError(
            "not_found", f"no run {missing[0]!r} is at work here", hint="`fleet status` shows what is active"
        )
    if drain:
        for run, _ in found:
            roster.give_order(run, "drain")
        return shared.emit({"draining": [run.id for run, _ in found]}, lambda: _said("draining", found))
    seconds = shared.config.get("run.grace") if grace is None else grace
    left = [text for run, alive in found for text in _stop(run, alive, seconds)]
    lease.reclaim(queue, lapse=shared.config.get("queue.lapse"))
    if left:
        raise FleetError(
            "still_alive", "something could not be ended", hint="look at these processes", details=tuple(left)
        )
    return shared.emit(
        {"stopped": [run.id for run, _ in found]}, lambda: _said("stopped, and nothing of it is alive", found)
    )


def _stop(run: Run, alive: bool | None, grace: float) -> list[str]:
    """Stop one run; returns what is still alive. A driver that lives gets time to hand its tasks back by itself."""
    roster.give_order(run, "stop")
    deadline = time.monotonic() + grace + 20
    while alive and identity.is_alive(run.identity) and time.monotonic() < deadline:
        time.sleep(0.05)
    if identity.is_alive(run.identity):
        process.stop_tree(run.identity, run.mark, grace)
    if tree.marked(run.mark):
        process.stop_tree("", run.mark, grace)
    left = tree.marked(run.mark)
    if not left and alive is False:
        roster.end_run(run, {"stopped": True})
    return [f"{run.id}: process {proc.pid} ({', '.join(tree.names_of([proc]))})" for proc in left]


def _said(what: str, found: list[tuple[Run, Any]]) -> str:
    return f"{what}: {', '.join(run.id for run, _ in found)}" if found else "no run is at work here"
