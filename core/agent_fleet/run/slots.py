"""A small number for every live worker of this user on this machine, so that what workers start does not collide.

`<state directory>/slots/<machine>/<number>.json` says whose a number is; it is free again when that attempt is settled, or
when whoever looks after it and all of its processes are provably gone.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Collection, Mapping
from typing import Any

from agent_fleet import identity, paths, tree
from agent_fleet.queue.files import BadFileError, read_json, write_whole
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.names import is_number

PORTS = 10  # of each worker
_LAST_PORT = 65535


def take(environ: Mapping[str, str], *, mark: str, directory: str, driver: str, unfit: Collection[int] = ()) -> int:
    """The number of an attempt: the one that it has, else the smallest that is free and not `unfit`.

    `mark` marks its processes, `directory` is where it will be marked as settled, `driver` is the identity of the process
    that will do that. Raises OSError, or FleetError (`busy`).
    """
    here = os.path.join(paths.state_dir(environ), "slots", _machine(driver))
    os.makedirs(here, mode=0o700, exist_ok=True)
    with DirLock(here):
        used = {number: record for number, record in _records(here).items() if _is_used(record)}
        own = [number for number, record in used.items() if record.get("mark") == mark]
        number = own[0] if own else next(n for n in itertools.count() if n not in used and n not in unfit)
        record = {"mark": mark, "directory": directory, "driver": driver}
        write_whole(os.path.join(here, f"{number}.json"), json.dumps(record).encode() + b"\n", durable=False)
    return number


def held(environ: Mapping[str, str], driver: str, mark: str) -> int | None:
    """The number that an attempt has; None if it has none."""
    here = os.path.join(paths.state_dir(environ), "slots", _machine(driver))
    try:
        return next((number for number, record in _records(here).items() if record.get("mark") == mark), None)
    except OSError:
        return None


def port(base: int, slot: int) -> int | None:
    """The first port of a worker; None if there are none left."""
    first = base + PORTS * slot
    return first if first + PORTS - 1 <= _LAST_PORT else None


def _machine(driver: str) -> str:
    """A home that several machines share holds the numbers of each apart."""
    return driver.rpartition(":")[2] or "unknown"


def _records(here: str) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for name in os.listdir(here):
        number = name.removesuffix(".json")
        if not name.endswith(".json") or not is_number(number, zero=True):
            continue
        try:
            found[int(number)] = read_json(os.path.join(here, name))
        except (BadFileError, FileNotFoundError):
            continue
    return found


def _is_used(record: Mapping[str, Any]) -> bool:
    """Whether a number is somebody's. Only a settled attempt, or one that nobody is left of, has none."""
    mark, directory = str(record.get("mark")), str(record.get("directory"))
    if os.path.exists(os.path.join(directory, "settled")):
        return False
    if identity.is_alive(str(record.get("driver"))) is not False and os.path.isdir(directory):
        return True
    return bool(tree.marked(mark) or tree.marked(f"{mark}-check"))
