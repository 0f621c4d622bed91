"""Workers of runs whose driver is gone: taken over if their keeper lives, ended and handed back if it does not."""

from __future__ import annotations

import os
from collections.abc import Callable

from agent_fleet import identity, process, tree
from agent_fleet.queue.store import Queue
from agent_fleet.run import roster
from agent_fleet.run.roster import Attempt, Run


def adopt(queue: Queue, ours: Run, grace: float, say: Callable[[str], None]) -> list[Attempt]:
    """Every unsettled attempt of a dead driver, ready to be followed; what such a driver left half started is ended."""
    found = []
    for run, alive in roster.runs(queue):
        if run.id == ours.id or alive is not False:
            continue
        attempts = list(roster.attempts(queue, run))
        known = {attempt.mark for attempt in attempts}
        for mark in _unknown_marks(run, known):
            process.stop_tree("", mark, grace)
        if attempts:
            say(f"taking over {len(attempts)} workers of {run.id}, whose driver is gone")
        found += attempts
        roster.end_run(run, {"adopted_by": ours.id})
    return found


def is_over(attempt: Attempt, grace: float) -> bool:
    """Whether an attempt without an exit record has ended all the same: its keeper is gone. What it left is ended first."""
    if identity.is_alive(attempt.worker.identity) is not False:
        return False
    if tree.marked(attempt.mark):
        return process.stop_tree(attempt.worker.identity, attempt.mark, grace)
    return True


def ask_to_stop(attempt: Attempt, reason: str) -> None:
    """Ask the keeper to end its worker; the reason is for its exit record. Asking twice does no harm."""
    path = os.path.join(attempt.dir, "stop")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(reason + "\n")
        process.ask_to_end(attempt.worker.identity)


def _unknown_marks(run: Run, known: set[str]) -> list[str]:
    """Marks of workers that were started but never put on record: their driver died in between."""
    found = []
    for name in os.listdir(os.path.join(run.dir, "workers")):
        mark = f"{run.mark}-{name}"
        settled = os.path.exists(os.path.join(run.dir, "workers", name, "settled"))
        if mark not in known and not settled and tree.marked(mark):
            found.append(mark)
    return found
