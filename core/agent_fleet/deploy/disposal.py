"""Taking finished deployments away: their records, parts, orders and reports. Tasks, outcomes, journal and logs stay.

What is left is one small file that says so, so that nobody else gets the name: runs and costs are found by it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Collection, Iterator

from agent_fleet.deploy import coverage, record
from agent_fleet.deploy.belonging import works_on
from agent_fleet.deploy.coverage import Given
from agent_fleet.deploy.orders import FOLDER
from agent_fleet.deploy.record import REMOVED, Deployment
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import write_whole
from agent_fleet.queue.store import Queue
from agent_fleet.run import roster
from agent_fleet.run.cleaning import Swept
from agent_fleet.text import count

_UNDER_WAY = ("inbox", "active", "blocked")


def sweep(queue: Queue, named: Collection[str], *, keep: float, dry: bool) -> Iterator[Swept]:
    """Take away those that are named, and whole ones whose last task ended more than `keep` seconds ago (0: none).

    One that is at work, or has tasks that may still be worked, stays whoever names it. Raises `not_found` for a name of none.
    """
    for name in named:
        if name not in record.names(queue):
            record.read(queue, name)  # says what is wrong with it
    now = time.time()
    for name in record.names(queue):
        if name in named or keep:
            found = _look(queue, name, is_named=name in named, before=now - keep)
            if found is not None:
                yield _removed(queue, name, dry=dry) if not found else _kept(queue, name, found)


def _look(queue: Queue, name: str, *, is_named: bool, before: float) -> str | None:
    """Why a deployment stays, empty if it goes; None if nobody asked for it."""
    try:
        deployment = record.read(queue, name)
        given = coverage.given(queue, deployment)
    except FleetError as error:
        return f"{error.message}; remove its directory by hand if you do not need it" if is_named else None
    if not is_named and _ended(deployment, given) > before:
        return None
    runs = [run.id for run, alive in roster.runs(queue) if alive is not False and works_on(queue, run.id) == name]
    if runs:
        return f"{runs[0]} works on it; end that with: fleet stop {name}"
    waiting = sum(each.state in _UNDER_WAY for each in given)
    if waiting:
        return f"{count(waiting, 'task')} of it can still be worked; go on with: fleet resume-run {name}"
    covered = coverage.coverage(coverage.fates(deployment, given))
    if not is_named and (covered.open or covered.share < deployment.settings.coverage):
        return f"it is not whole ({covered}); name it to remove it: fleet clean {name}"
    return ""


def _ended(deployment: Deployment, given: Collection[Given]) -> float:
    """When the last of its tasks ended, in seconds."""
    ends = [each.last.get("ended") for each in given]
    return max([deployment.created, *(float(end) for end in ends if isinstance(end, int | float))])


def _removed(queue: Queue, name: str, *, dry: bool) -> Swept:
    place = queue.path(FOLDER, name)
    freed = sum(os.lstat(os.path.join(base, file)).st_size for base, _, files in os.walk(place) for file in files)
    try:
        if not dry:
            told = {"removed": round(time.time(), 3), "freed": freed}
            write_whole(os.path.join(place, REMOVED), json.dumps(told).encode() + b"\n")
            os.unlink(os.path.join(place, "record.json"))  # from here on it is no deployment, whatever dies when
            for entry in os.listdir(place):
                path = os.path.join(place, entry)
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                elif entry != REMOVED:
                    os.unlink(path)
    except OSError as error:
        return Swept("deployment", place, False, f"it could not be removed: {error.strerror}")
    return Swept("deployment", place, True, freed=freed)


def _kept(queue: Queue, name: str, why: str) -> Swept:
    return Swept("deployment", queue.path(FOLDER, name), False, why)
