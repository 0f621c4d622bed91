"""One line for every change of accounts, tasks by digest alone. A file that grew large becomes `audit.1.jsonl`."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from agent_fleet.accounts.stored import iso, key_of
from agent_fleet.accounts.vault import Vault
from agent_fleet.queue.files import BadFileError, read_bytes

FILE, OLDER = "audit.jsonl", "audit.1.jsonl"
LARGEST = 8 * 1024 * 1024


def note(vault: Vault, event: str, *, task: str = "", largest: int = LARGEST, **fields: Any) -> None:
    """Put one change on record. The state lock is held: a rotation must not meet another's line."""
    entry = {"schema": 1, "at": iso(time.time()), "event": event, **fields}
    if task:
        entry["task_key"] = key_of(task)
    vault.append(FILE, json.dumps(entry, sort_keys=True).encode() + b"\n")
    path = vault.path(FILE)
    if os.stat(path).st_size > largest:
        os.rename(path, vault.path(OLDER))


def newest(vault: Vault, limit: int) -> list[dict[str, Any]]:
    """The newest `limit` events, oldest first; a line that is no event is left out."""
    events: list[dict[str, Any]] = []
    for name in (FILE, OLDER):
        if len(events) < limit:
            events = _events(vault, name)[-(limit - len(events)) :] + events
    return events


def _events(vault: Vault, name: str) -> list[dict[str, Any]]:
    try:
        lines = read_bytes(vault.path(name), private=True).splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except BadFileError as error:
        vault.note((name,), str(error))
        return []
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get("event"), str):
            found.append(entry)
    return found
