"""One look at a project for a person who watches it: read from its files, changing nothing and remembering nothing.

Ages are in seconds and never negative: a file that a clock step has put into the future is as old as this moment. What
cannot be told is None.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection
from typing import Any, Final

from agent_fleet import process
from agent_fleet.config import Config
from agent_fleet.model import Active, Board
from agent_fleet.queue import board as boards
from agent_fleet.queue import names, parked, records
from agent_fleet.queue.parked import Group
from agent_fleet.queue.store import Queue
from agent_fleet.run import fitness, logs, roster, turns
from agent_fleet.run.gates import gates_of
from agent_fleet.run.roster import Attempt
from agent_fleet.throttle.standing import standings
from agent_fleet.throttle.terms import terms

WAITS: Final = "waits for you"
_REDRAWN: Final = 5.0  # seconds that a session may go on drawing on its terminal after its turn has ended
READ: Final = 200  # blocked tasks that are read to group them; the others are counted
_NAMED: Final = 10
_END: Final = 1 << 18  # bytes of the journal's end in which the last start is looked for
_LIFE: Final = {True: "at work", False: "ended, not settled", None: "unknown"}


def take(queue: Queue, config: Config, state: str, *, now: float | None = None) -> dict[str, Any]:
    """The whole picture as plain data. `state` is the state directory of the user, where limits lie that projects share."""
    now = time.time() if now is None else now
    board = boards.read(queue)
    alive = [(run, life) for run, life in roster.runs(queue) if life is not False]
    found, unread = parked.parked(queue, READ)
    crews = sessions(queue, board, now=now)
    waiting = {task for each in crews if each["waits"] for task in each["tasks"]}
    workers = _workers(queue, board, waiting, now)
    lanes: dict[str, int] = {}
    for worker in workers:
        lane = worker["lane"] or "-"
        lanes[lane] = lanes.get(lane, 0) + 1
    return {
        "at": now,
        "needs_you": [_group(group) for group in parked.groups(found)],
        "needs_you_unread": unread,
        "counts": dict(board.counts),
        "quarantined": board.quarantined,
        "runs": [{"id": run.id, "alive": life} for run, life in alive],
        "bound_by": _bound_by(queue, [run.id for run, _ in alive], now),
        "gates": _gates(queue, config, now),
        "calls": [{**each._asdict(), "said": each.said} for each in standings(state, terms(config))],
        "health": fitness.rows(queue, now=now),
        "lanes": lanes,
        "workers": workers,
        "sessions": crews,
    }


def sessions(queue: Queue, board: Board, *, now: float | None = None) -> list[dict[str, Any]]:
    """The sessions at work that claim by themselves, with what each holds; `waits` says that only the person can make it go on.

    That is so while its last turn is over, it holds a task, and nothing has come from its terminal since.
    """
    now = time.time() if now is None else now
    held: dict[str, list[str]] = {}
    for each in board.active:
        held.setdefault(each.worker, []).append(each.task)
    return [
        {
            "session": crew.id,
            "lane": crew.lane,
            "provider": crew.provider or None,
            "seats": crew.seats,
            "tasks": sorted(held.get(crew.id, ()), key=names.number_of),
            "waits": crew.id in held and _has_ended_its_turn(crew),
            "age": _since(crew.started, now),
            "last_event": _since(_changed(crew.log), now),
        }
        for crew in roster.at_work(queue)
        if crew.is_crew
    ]


def _has_ended_its_turn(crew: Attempt) -> bool:
    turned, printed = _changed(turns.path(crew)), _changed(crew.log)
    return turned is not None and (printed is None or printed - turned < _REDRAWN)


def _group(group: Group) -> dict[str, Any]:
    tasks = [task.task for task in group.tasks]
    return {"wall": str(group.wall), "count": len(tasks), "tasks": tasks[:_NAMED]}


def _gates(queue: Queue, config: Config, now: float) -> list[dict[str, Any]]:
    gates = sorted(gates_of(queue, config).read().items())
    return [
        {
            "provider": name,
            "why": gate.why,
            "until": gate.until,
            "opens_in": None if gate.until is None else max(0.0, gate.until - now),
        }
        for name, gate in gates
    ]


def _workers(queue: Queue, board: Board, waiting: Collection[str], now: float) -> list[dict[str, Any]]:
    held = sorted(board.active, key=lambda each: names.number_of(each.task))
    attempts = {each.task: roster.find(queue, each.worker or each.agent) for each in held}
    pids = [attempt.worker.pid for attempt in attempts.values() if attempt is not None]
    memory = process.resident_below(pids)
    found = [_worker(queue, each, attempts[each.task], memory, now) for each in held]
    return [each | ({"state": WAITS} if each["task"] in waiting else {}) for each in found]


def _worker(queue: Queue, held: Active, attempt: Attempt | None, memory: dict[int, int], now: float) -> dict[str, Any]:
    path = queue.path("active", names.active_name(held.task, held.generation, held.owner, held.gate))
    body = queue.body(path, held.task) or {}
    return {
        "task": held.task,
        "generation": held.generation,
        "title": str(body.get("title") or body.get("target") or "") or None,
        "host": str(body.get("host") or "") or None,
        "state": _LIFE[held.alive],
        "agent": held.agent or None,
        "lane": held.lane or (attempt.lane if attempt else None),
        "provider": attempt.provider or None if attempt else None,
        "age": _since(attempt.started, now) if attempt else None,
        "last_event": _since(_changed(attempt.log), now) if attempt else None,
        "last_sign_of_life": _since(held.beat, now),
        "memory": memory.get(attempt.worker.pid) if attempt and held.alive else None,
        "charged": records.charged(queue, held.task),
    }


def _changed(path: str) -> float | None:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return None


def _since(at: float | None, now: float) -> float | None:
    return None if at is None else max(0.0, now - at)


def _bound_by(queue: Queue, runs: list[str], now: float) -> dict[str, Any] | None:
    """What bounded the last start of a run that is at work, and how old that is; None if no start can be found."""
    found: dict[str, Any] | None = None
    try:
        with logs.open_log(queue.journal.path, last=_END) as file:
            for row in file:
                if '"admitted"' in row:
                    found = _admitted(row, runs, now) or found
    except OSError:
        return None
    return found


def _admitted(row: str, runs: list[str], now: float) -> dict[str, Any] | None:
    try:
        event = json.loads(row)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("event") != "admitted" or event.get("run") not in runs:
        return None
    at = event.get("at")
    return {
        "name": str(event.get("bound_by")),
        "why": str(event.get("why")),
        "at_work": event.get("at_work"),
        "planned": event.get("planned"),
        "age": _since(at if isinstance(at, int | float) else None, now),
    }
