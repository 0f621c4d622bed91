"""Holds: why single tasks wait, decided by policies and limits, read by every claim. One small file."""

from __future__ import annotations

import json
import time
from typing import Any

from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import BadFileError, Queue, read_json, write_whole


def read(queue: Queue, now: float | None = None) -> dict[str, dict[str, Any]]:
    """Every hold in force as {task: {"why", "until", "source"}}; one whose time has come is left out."""
    path = queue.path("holds.json")
    try:
        found = read_json(path)
    except FileNotFoundError:
        return {}
    except BadFileError as error:
        queue.quarantine(path, str(error))
        return {}
    at = time.time() if now is None else now
    return {task: hold for task, hold in found.items() if isinstance(hold, dict) and not _is_over(hold, at)}


def reasons(queue: Queue) -> dict[str, str]:
    """Every hold in force as {task: reason in words}."""
    return {task: str(hold.get("why", "held")) for task, hold in read(queue).items()}


def put(queue: Queue, changes: dict[str, dict[str, Any] | None]) -> None:
    """Set or (with None) lift holds; those whose time has come go with them."""
    if not changes:
        return
    with DirLock(queue.dir):
        held = {**read(queue), **changes}
        kept = {task: hold for task, hold in held.items() if hold is not None}
        write_whole(queue.path("holds.json"), json.dumps(kept, sort_keys=True).encode() + b"\n", durable=False)


def _is_over(hold: dict[str, Any], now: float) -> bool:
    until = hold.get("until")
    return isinstance(until, int | float) and until <= now
