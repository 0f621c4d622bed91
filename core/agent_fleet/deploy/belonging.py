"""What belongs to a deployment: which entries of the ledger are its own, and what it may cost."""

from __future__ import annotations

import os

from agent_fleet.deploy import orders
from agent_fleet.deploy.orders import FOLDER, is_id
from agent_fleet.errors import FleetError
from agent_fleet.ledger import Entry
from agent_fleet.queue import names
from agent_fleet.queue.files import BadFileError, read_json
from agent_fleet.queue.store import Queue


class Belonging:
    """Whether an entry belongs to a deployment: its planning, its tasks whoever worked them, the sessions of its own runs."""

    def __init__(self, queue: Queue, name: str) -> None:
        self._queue = queue
        self._name = name
        self._orders = orders.directory(queue, name)
        self._runs: dict[str, bool] = {"": False, name: True}
        self._tasks: set[str] = set()

    def __call__(self, entry: Entry) -> bool:
        return self._has_run(entry.run) or self._has_task(entry.task)

    def _has_run(self, run: str) -> bool:
        if run not in self._runs:
            self._runs[run] = works_on(self._queue, run) == self._name
        return self._runs[run]

    def _has_task(self, task: str) -> bool:
        if task not in self._tasks and names.is_id(task) and os.path.exists(os.path.join(self._orders, f"{task}.json")):
            self._tasks.add(task)
        return task in self._tasks


def works_on(queue: Queue, run: str) -> str:
    """The deployment that a run works on alone; empty if it works on all, or does not say."""
    try:
        options = read_json(queue.path("runs", run, "driver.json")).get("options")
    except (BadFileError, FileNotFoundError, NotADirectoryError):
        return ""
    only = options.get("only") if isinstance(options, dict) else None
    return only if isinstance(only, str) else ""


def runs_of(queue: Queue, name: str) -> frozenset[str]:
    """The runs that worked on this deployment alone, ended or not."""
    return frozenset(run for run in queue.listing("runs") if works_on(queue, run) == name)


def ceiling(queue: Queue, name: str) -> float:
    """What a deployment may cost in US dollars; 0 if it has no ceiling, or there is none of that name. Raises `corrupt`."""
    if not is_id(name):
        return 0.0
    path = queue.path(FOLDER, name, "record.json")
    try:
        money = read_json(path)["settings"]["money"]
    except FileNotFoundError:
        return 0.0
    except (BadFileError, KeyError, TypeError):
        money = None
    if isinstance(money, bool) or not isinstance(money, int | float) or not money >= 0:
        raise FleetError(
            "corrupt",
            f"what {name} may cost cannot be read from {path}",
            hint="restore it from a copy, or deploy again",
        )
    return float(money)
