"""Logs of attempts: kept up to a total size, the oldest settled ones removed first."""

from __future__ import annotations

import os
from io import TextIOWrapper

from agent_fleet.queue import names
from agent_fleet.queue.store import Queue


def open_log(path: str, *, last: int | None = None) -> TextIOWrapper:
    """A log to read as text from its start, or only the whole lines in its `last` bytes. Raises OSError.

    No link is followed and no pipe waited for: what lies there may not be what the keeper made.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    begin = max(0, os.fstat(descriptor).st_size - last) if last is not None else 0
    os.lseek(descriptor, begin, os.SEEK_SET)
    file = os.fdopen(descriptor, encoding="utf-8", errors="replace", newline="\n")
    if begin:
        file.readline()
    return file


def prune(queue: Queue, keep: int) -> int:
    """Remove logs of attempts that are over until the rest fits into `keep` bytes (0: keep all); returns how many went.

    The log of a lease that is held, and anything that is not named as a log of ours, stays.
    """
    if not keep:
        return 0
    held = {(task, generation) for task, generation, _, _, _ in queue.active()}
    found = []
    for name in queue.listing("logs"):
        parsed = names.parse_entry(name.removesuffix(".log") + ".json") if name.endswith(".log") else None
        is_over = (parsed is not None and parsed not in held) or _is_of_a_settled_session(queue, name)
        try:
            told = os.lstat(queue.path("logs", name))
        except FileNotFoundError:
            continue
        found.append((told.st_mtime_ns, told.st_size, name, is_over))
    total = sum(size for _, size, _, _ in found)
    removed = 0
    for _, size, name, removable in sorted(found):
        if total <= keep:
            break
        if removable:
            os.unlink(queue.path("logs", name))
            total -= size
            removed += 1
    return removed


def _is_of_a_settled_session(queue: Queue, name: str) -> bool:
    run, _, worker = name.removesuffix(".log").partition("-")
    is_one = name.endswith(".log") and run[:1] == "r" and names.is_number(run[1:])
    is_one = is_one and worker[:1] == "w" and names.is_number(worker[1:])
    return is_one and os.path.exists(queue.path("runs", run, "workers", worker, "settled"))
