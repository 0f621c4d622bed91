"""The end of an attempt: what the agent left behind, ended and named, and the record of how it was."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_fleet.run.keeper import End
    from agent_fleet.tree import Tree

SETTLE = 0.5  # seconds in which a tool's shell may end behind its agent without being called a leftover
RETRY = 30.0  # seconds between two attempts to end what could not be ended
PATIENCE = 60.0  # seconds for which a full disk may keep `exit.json` from being written


def leftovers(worker: Tree, reap: Callable[[], None]) -> tuple[int, list[str]]:
    """How many processes the agent left behind, and the programs they run."""
    from agent_fleet.tree import names_of

    end = time.monotonic() + SETTLE
    while (procs := worker.scan()) and time.monotonic() < end:
        time.sleep(0.05)
        reap()
    return len(procs), names_of(procs)


def end_tree(worker: Tree, grace: float, reap: Callable[[], None]) -> None:
    """Return when nothing of the tree is left. What cannot be ended is tried again for as long as it lives."""
    from agent_fleet.process import stop

    while not stop(worker, grace, between=reap):
        time.sleep(RETRY)
    reap()


def report(worker_dir: str, end: End) -> None:
    """Write `exit.json`: whole, on the disk, and only once."""
    from agent_fleet.queue.store import write_whole

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    status = end.status
    count, names = end.leftovers
    record = {
        "code": os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
        "cause": end.cause,
        "note": end.note,
        "seconds": round(end.seconds, 3),
        "cpu": round(used.ru_utime + used.ru_stime, 3),
        "max_rss": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),  # getrusage(2): KiB except on macOS
        "leftovers": {"count": count, "commands": names},
        "ended": round(time.time(), 3),
    }
    data = json.dumps(record).encode() + b"\n"
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            return write_whole(os.path.join(worker_dir, "exit.json"), data, durable=True)
        except FileNotFoundError:
            return None  # the worker's directory was removed, and with it whoever would have asked
        except OSError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(1)
