"""How the slots, accounts and nodes of a project do, in one small file that every driver shares, and what follows for a start.

A node is a machine. Moments are those of the wall clock, as in the gates: machines that share a queue have no other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from agent_fleet import health, identity
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.health import Ended, Fitness, Part
from agent_fleet.model import Ceiling, Outcome
from agent_fleet.plan import SHELL
from agent_fleet.queue.files import BadFileError, read_json, write_whole
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import Queue
from agent_fleet.run.roster import Attempt

FILE = "health.json"
_MOST_REST = 7 * 86400.0  # seconds; what rests for longer was written by a clock that was wrong


def read(queue: Queue) -> dict[Part, Fitness]:
    """What is known of every part; a file that cannot be read is set aside, and nothing is known then."""
    path = queue.path(FILE)
    try:
        told = read_json(path)
        return {_part(name): _fitness(fields) for name, fields in told.items()}
    except FileNotFoundError:
        return {}
    except (BadFileError, KeyError, TypeError, ValueError, OverflowError) as error:
        queue.quarantine(path, str(error))
        return {}


def note(
    queue: Queue,
    config: Config,
    attempt: Attempt,
    outcome: Outcome,
    seconds: float,
    *,
    slot: int | None,
    ended_by_us: bool,
    now: float | None = None,
) -> None:
    """Learn from an attempt that is settled. One that was stopped, and a shell command, say nothing of where they ran.

    What cannot be written is a notice: work goes on without it.
    """
    if attempt.provider in ("", SHELL) or (ended_by_us and outcome.kind != "timeout"):
        return
    node = machine_of(attempt.worker.identity)
    ended = Ended(
        at=time.time() if now is None else now,
        kind=outcome.kind,
        task=attempt.task or attempt.id,
        slot=f"{slot} of {node}" if slot is not None and node else "",
        account=attempt.account,
        node=node,
        seconds=seconds,
    )
    try:
        with DirLock(queue.dir):
            found = health.observed(read(queue), health.rules(config), ended)
            told = {f"{part.kind} {part.name}": fitness._asdict() for part, fitness in found.items()}
            write_whole(queue.path(FILE), json.dumps(told, sort_keys=True).encode() + b"\n", durable=False)
    except (FleetError, OSError) as error:
        queue.notices.append(f"how {attempt.id} ended does not count for the health of its slot: {error}")


def unfit_slots(queue: Queue, *, now: float | None = None) -> frozenset[int]:
    """The slots of this machine that get no work now."""
    now = time.time() if now is None else now
    here = machine_of(identity.identity_of())
    resting = (part.name.partition(" of ") for part, found in read(queue).items() if found.state(now) == "out")
    return frozenset(int(number) for number, _, node in resting if node == here and number.isdigit())


def ceiling(queue: Queue, at_work: Iterable[Attempt], *, now: float | None = None) -> Ceiling | None:
    """What this machine is let do after failures in a row: nothing, then one attempt; None while all is well."""
    now = time.time() if now is None else now
    here = machine_of(identity.identity_of())
    found = read(queue).get(Part("node", here))
    if found is None or found.state(now) == "in":
        return None
    others = sum(1 for attempt in at_work if machine_of(attempt.worker.identity) not in ("", here))
    if found.state(now) == "out":
        at = time.strftime("%H:%M:%S", time.localtime(found.rests))
        why = f"too many attempts in a row broke off on this machine (the last: {found.last}); one tries at {at} whether it is over"
        return Ceiling(name="node", workers=others, source=FILE, why=why)
    why = f"attempts in a row broke off on this machine (the last: {found.last}); one tries whether it is over"
    return Ceiling(name="node", workers=others + 1, source=FILE, why=why)


def rows(queue: Queue, *, now: float | None = None) -> list[dict[str, Any]]:
    """Every part as it is shown: its state, the part of its last attempts that failed, the mean seconds of the good ones."""
    now = time.time() if now is None else now
    here = machine_of(identity.identity_of())
    return [
        {
            "part": part.kind,
            "name": _named(part, here),
            "state": found.state(now),
            "attempts": len(found.recent),
            "failure_rate": found.failure_rate,
            "seconds": found.response,
            "until": found.rests if found.out else None,
        }
        for part, found in sorted(read(queue).items())
    ]


def said(row: Mapping[str, Any]) -> str:
    """The same in a line for a person."""
    rate, seconds = row["failure_rate"], row["seconds"]
    state = {"in": "", "out": "; it rests", "probation": "; one attempt tries"}[row["state"]]
    if row["state"] == "out":
        state += time.strftime(" until %H:%M:%S", time.localtime(row["until"]))
    took = "" if seconds is None else f", {seconds:.1f} s each"
    failed = "" if rate is None else f"{rate:.0%} of {row['attempts']} failed"
    return f"{row['part']} {row['name']}: {failed}{took}{state}"


def machine_of(name: str) -> str:
    """The machine of a process's identity; empty if it names none."""
    return name.rpartition(":")[2]


def _named(part: Part, here: str) -> str:
    if part.kind == "account" or not here:
        return part.name
    return part.name.replace(f" of {here}", "") if part.kind == "slot" else part.name.replace(here, "this machine")


def _part(name: str) -> Part:
    kind, _, rest = name.partition(" ")
    if kind not in ("slot", "account", "node") or not rest:
        raise ValueError(f"it has a part {name[:40]!r}")
    return Part(kind, rest)  # type: ignore[arg-type]  # one of its words


def _fitness(told: Mapping[str, Any]) -> Fitness:
    rests, now = float(told["rests"]), time.time()
    return Fitness(
        recent=tuple((bool(well), None if seconds is None else float(seconds)) for well, seconds in told["recent"]),
        row=tuple(map(str, told["row"])),
        well=int(told["well"]),
        out=told["out"] is True,
        rests=rests if rests <= now + _MOST_REST else now,
        times=int(told["times"]),
        last=str(told["last"]),
    )
