"""`fleet stop`: end the runs of this project and everything that they started, and prove it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from agent_fleet import identity, process, tree
from agent_fleet.commands import Shared, command
from agent_fleet.commands.finite import Finite
from agent_fleet.deploy.belonging import runs_of
from agent_fleet.deploy.orders import is_id
from agent_fleet.errors import FleetError
from agent_fleet.queue import lease
from agent_fleet.queue.store import Queue
from agent_fleet.run import roster
from agent_fleet.run.adoption import Adoption
from agent_fleet.run.disband import close
from agent_fleet.run.roster import Run
from agent_fleet.run.settle import Bench

_HEARING = 2.0  # seconds in which a driver that lives hears the order and passes it on
_SETTLING = 10.0  # seconds that it then has to put everything on record


@command("stop", help="End the runs of this project and everything that they started; their tasks return to the queue.")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--drain", is_flag=True, help="Start nothing new, but let the workers finish.")
@click.option("--grace", type=Finite(min=0), metavar="S", help="Seconds between asking and ending.")
def command_line(shared: Shared, runs: tuple[str, ...], drain: bool, grace: float | None) -> None:
    if shared.environ.get("FLEET_WORKER"):
        raise FleetError(
            "refused",
            "this is a worker of a fleet; it cannot stop the run that it works for",
            hint="end by reporting the task",
        )
    queue = shared.queue
    wanted = set(runs).union(*(runs_of(queue, name) for name in runs if is_id(name)))
    found = [(run, alive) for run, alive in roster.runs(queue) if not runs or run.id in wanted]
    there = {run.id for run, _ in found}
    missing = sorted(name for name in runs if name not in there and not (is_id(name) and runs_of(queue, name) & there))
    if missing:
        raise FleetError(
            "not_found", f"no run {missing[0]!r} is at work here", hint="`fleet status` shows what is active"
        )
    if drain:
        for run, _ in found:
            roster.give_order(run, "drain")
        return shared.emit({"draining": [run.id for run, _ in found]}, lambda: _said("draining", found))
    seconds = shared.config.get("run.grace") if grace is None else grace
    left = [text for run, _ in found for text in _stop(queue, run, seconds)]
    _settle_the_dead(shared)
    lease.reclaim(queue, lapse=shared.config.get("queue.lapse"))
    if left:
        raise FleetError(
            "still_alive", "something could not be ended", hint="look at these processes", details=tuple(left)
        )
    return shared.emit(
        {"stopped": [run.id for run, _ in found]}, lambda: _said("stopped, and nothing of it is alive", found)
    )


def _stop(queue: Queue, run: Run, grace: float) -> list[str]:
    """Stop one run; returns what is still alive. First the driver is asked, then the keepers, then nobody is."""
    try:
        roster.give_order(run, "stop")
    except OSError:
        process.ask_to_end(run.identity)  # a full disk takes no order; a signal says the same
    _wait(lambda: not _lives(run), _HEARING)
    attempts = [attempt for attempt in roster.attempts(queue, run) if not roster.has_ended(attempt)]
    for attempt in attempts:
        roster.ask_to_stop(attempt, "the run was stopped")
    _wait(lambda: all(roster.has_ended(attempt) for attempt in attempts), grace + process.LINGER)
    for attempt in attempts:
        process.stop_tree(attempt.worker.identity, attempt.mark, 0)
    _wait(lambda: not _lives(run), _SETTLING)
    if _lives(run):
        process.stop_tree(run.identity, run.mark, grace)
    if tree.marked(run.mark):
        process.stop_tree("", run.mark, grace)
    return [f"{run.id}: process {proc.pid} ({', '.join(tree.names_of([proc]))})" for proc in tree.marked(run.mark)]


def _lives(run: Run) -> bool:
    return identity.is_alive(run.identity) is True


def _wait(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)


def _settle_the_dead(shared: Shared) -> None:
    """Return the tasks of attempts whose driver is gone; one that was done is settled as such."""
    adoption = Adoption()
    bench = Bench(shared.queue, shared.config, shared.plugins, shared.environ)
    try:
        for _, attempts in adoption.take(shared.queue, lapse=shared.config.get("queue.lapse")):
            for attempt in attempts:
                if roster.has_ended(attempt):
                    close(bench, attempt)
    finally:
        adoption.close(shared.queue, "fleet stop")


def _said(what: str, found: list[tuple[Run, Any]]) -> str:
    return f"{what}: {', '.join(run.id for run, _ in found)}" if found else "no run is at work here"
