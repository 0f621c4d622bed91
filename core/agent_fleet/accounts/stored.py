"""What the files of accounts have in common: times as text, fields that must be of a kind, and a task's file name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agent_fleet.accounts.windows import finite
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)", re.ASCII)

_YEAR_9999 = 253370764800.0


def key_of(task: str) -> str:
    """The name under which a task's files and audit lines stand: its text appears in neither."""
    return hashlib.sha256(task.encode("utf-8", "surrogateescape")).hexdigest()


def check_task(task: str) -> str:
    """A task's own name as a caller gives it. Raises FleetError (`bad_input`)."""
    if not 1 <= len(task) <= 512 or not task.isprintable():
        raise FleetError("bad_input", "task id must be 1-512 printable characters", hint="any text of one line will do")
    return task


def iso(seconds: float) -> str:
    """Seconds since the epoch as UTC text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def seconds(text: object, what: str) -> float:
    """Seconds since the epoch of a UTC text, which can be written as one again. Raises BadFileError."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise BadFileError(f"{what} is no UTC time")
    try:
        return moment(datetime.fromisoformat(text).timestamp(), what)
    except (ValueError, OverflowError):
        raise BadFileError(f"{what} is no UTC time") from None


def texts(found: Mapping[str, Any], *names: str) -> dict[str, str]:
    """These fields, each a text that is not empty. Raises BadFileError."""
    for name in names:
        if not isinstance(found.get(name), str) or not found[name]:
            raise BadFileError(f"{name} is no text")
    return {name: found[name] for name in names}


def number(value: object, what: str) -> float:
    """A finite number. Raises BadFileError."""
    found = finite(value)
    if found is None:
        raise BadFileError(f"{what} is no number")
    return found


def moment(value: object, what: str) -> float:
    """Seconds since the epoch as a number that can be written as a date. Raises BadFileError."""
    found = number(value, what)
    if not 0 <= found < _YEAR_9999:
        raise BadFileError(f"{what} is no time")
    return found


def check_schema(found: Mapping[str, Any], *allowed: int) -> int:
    """Which of the formats that we read this is. Raises BadFileError."""
    schema = found.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema not in allowed:
        raise BadFileError(f"its schema is not {' or '.join(map(str, allowed))}")
    return schema
