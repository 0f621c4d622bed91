"""Leases: who holds a task, whether that holder still lives, and what returns to the queue when it does not.

An owner's identity is `pid:start:boot:namespace:machine` (see `agent_fleet.identity`). Its record is written before its
first claim and named by what it holds, so that the one rename of a claim carries the whole lease.
"""

from __future__ import annotations

import binascii
import json
import os
import time
from typing import Any, NamedTuple

from agent_fleet import identity
from agent_fleet.errors import FleetError
from agent_fleet.queue import names, records
from agent_fleet.queue.files import BadFileError, read_bytes, read_json, write_whole
from agent_fleet.queue.lock import LeaseLocks
from agent_fleet.queue.store import Queue


class Owner(NamedTuple):
    """Who holds a lease. `key` names the record; `worker_dir` is where a keeper leaves `exit.json`; `mark` marks its tree."""

    key: str
    identity: str
    agent: str
    lane: str
    worker_dir: str = ""
    mark: str = ""

    @property
    def worker(self) -> tuple[str, str]:
        """(run, worker) whose tree the owner belongs to; empty texts for one that no run has started."""
        return names.parse_mark(self.mark) or ("", "")


def owner_record(who: str, *, agent: str, lane: str, worker_dir: str = "", mark: str = "") -> tuple[str, bytes]:
    """(key, file contents) of an owner; the same owner always gives the same key."""
    fields = {"identity": who, "agent": agent, "lane": lane, "worker_dir": worker_dir, "mark": mark}
    data = json.dumps(fields, sort_keys=True).encode()
    pid, _, rest = who.partition(":")
    start = rest.partition(":")[0]
    plain = "".join(c if c.isascii() and c.isalnum() else "" for c in f"{pid}-{start}"[:40].replace("-", "x"))
    return f"{plain}x{binascii.crc32(data):08x}", data + b"\n"


def write_owner(owners_dir: str, key: str, data: bytes) -> None:
    """Put an owner's record in place, unless it is there already and whole."""
    path = os.path.join(owners_dir, key + ".json")
    try:
        if read_bytes(path) == data:
            return
    except (BadFileError, FileNotFoundError):
        pass
    if os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, f"{path}.{time.time_ns()}")
    write_whole(path, data, durable=False)


def enlist(queue: Queue, who: str, *, agent: str, lane: str, mark: str = "") -> Owner:
    """Record an owner that is about to claim. `mark` is that of the worker's tree which it belongs to, if a run started it."""
    key, data = owner_record(who, agent=agent, lane=lane, mark=mark)
    write_owner(queue.path("owners"), key, data)
    return Owner(key, who, agent, lane, mark=mark)


def owner(queue: Queue, key: str) -> Owner | None:
    """An owner's record; None if it is missing or unreadable, so that nothing can be said about it."""
    try:
        found = read_json(queue.path("owners", key + ".json"))
    except (BadFileError, FileNotFoundError):
        return None
    texts = [found.get(name, "") for name in ("identity", "agent", "lane", "worker_dir", "mark")]
    if not all(isinstance(text, str) for text in texts):
        return None
    return Owner(key, *texts)


# ------------------------------------------------------------------------------------------------------------ liveness


class Verdict(NamedTuple):
    """`alive`: True, False, or None where it cannot be told. `ended` is where an ended attempt waits to be settled."""

    alive: bool | None
    ended: str = ""
    why: str = ""


def judge(queue: Queue, holder: Owner | None) -> Verdict:
    """Whether the owner of a lease still lives."""
    if holder is None:
        return Verdict(None, why="its owner's record cannot be read")
    if holder.worker_dir and os.path.exists(queue.path(holder.worker_dir, "exit.json")):
        return Verdict(False, ended=holder.worker_dir, why="its attempt has ended and waits to be settled")
    alive = identity.is_alive(holder.identity)
    if alive is False and holder.mark and _tree_lives(holder.mark):
        # not "unknown": silence must never give out a task that somebody demonstrably still works on
        return Verdict(True, why="its keeper is gone, but processes of its worker are still alive")
    return Verdict(alive, why="" if alive else "its owner is gone" if alive is False else "its owner cannot be judged")


def _tree_lives(mark: str) -> bool:
    from agent_fleet import tree

    return bool(tree.marked(mark))


def has_lapsed(queue: Queue, task: str, generation: int, path: str, lapse: float) -> bool:
    """Whether an owner that cannot be judged has shown no heartbeat for `lapse` seconds of this machine's running time.

    The heartbeat is the file's mtime, compared only with itself: what is timed is how long *this machine* has seen it
    unchanged, by a clock that stands still while the machine sleeps. Neither a clock step nor another machine's clock counts.
    """
    try:
        beat = os.lstat(path).st_mtime_ns
    except FileNotFoundError:
        return False
    now = time.monotonic()
    boot = identity.boot_id()
    note = queue.path("owners", f"watch-{task}.g{generation}.json")
    try:
        seen = read_json(note)
    except (BadFileError, FileNotFoundError):
        seen = {}
    since = seen.get("since")
    if seen.get("beat") == beat and seen.get("boot") == boot and isinstance(since, int | float) and since <= now:
        return now - since >= lapse
    write_whole(note, json.dumps({"beat": beat, "boot": boot, "since": now}).encode(), durable=False)
    return False


# ------------------------------------------------------------------------------------------------------------- reclaim


def reclaim(queue: Queue, *, lapse: float) -> list[str]:
    """Return the tasks of dead owners to the inbox, uncharged; finish those whose outcome is already on record.

    Attempts that ended and wait to be settled are left to `fleet run`. Returns the ids of tasks that moved.
    """
    moved = []
    verdicts: dict[str, Verdict] = {}
    for task, generation, key, gate, name in queue.active():
        if key not in verdicts:
            verdicts[key] = Verdict(True) if _plainly_alive(key) else judge(queue, owner(queue, key))
        verdict = verdicts[key]
        path = queue.path("active", name)
        if verdict.alive or verdict.ended:
            continue
        if verdict.alive is False or has_lapsed(queue, task, generation, path, lapse):
            why = verdict.why if verdict.alive is False else f"{verdict.why}, and no heartbeat for {lapse:.0f} s"
            try:
                if give_back(queue, task, generation, gate, path, event="reclaimed", why=why, owner=key, patience=0.0):
                    moved.append(task)
            except FleetError as error:
                if error.code != "busy":
                    raise
    return moved


def _plainly_alive(key: str) -> bool:
    """Whether a process with the pid and start time in an owner's key runs here: then there is nothing to look up.

    A quick look that errs to the side of the living: on another machine's owner it can only delay the return of a task.
    """
    pid, _, rest = key.partition("x")
    if not identity.LINUX or not (pid.isascii() and pid.isdigit()):
        return False
    stat = identity.read_stat(int(pid))
    return stat is not None and not stat.gone and str(stat.start) == rest.partition("x")[0]


def give_back(
    queue: Queue,
    task: str,
    generation: int,
    gate: str,
    path: str,
    *,
    event: str,
    why: str,
    owner: str,
    patience: float = 30.0,
) -> str:
    """Move one active task back to where its record, or else the inbox, says it belongs; returns that state.

    An empty text if it moved meanwhile. Raises FleetError (`busy`) if its holder is ending the lease this very moment.
    """
    body = queue.body(path, task)
    if body is None:
        return ""
    try:
        with LeaseLocks(os.path.dirname(path), patience=patience) as locks:
            locks.take(path)
            outcome = records.outcome(queue, task, generation)
            state = str(outcome.get("state")) if outcome else ""
            if state in names.SETTLED:
                target = queue.settled_path(state, task, generation)
                event = "finished"
            else:
                state = "inbox"
                target = queue.inbox_path(body, generation, gate)
            if not queue.move(path, target):
                return ""
    except FileNotFoundError:
        return ""
    queue.tell(event, task=task, gen=generation, to=state, owner=owner, why=why)
    return state


def forget(queue: Queue) -> int:
    """Remove owner records that hold nothing and whose process is gone; returns how many."""
    active = queue.active()
    held = {key for _, _, key, _, _ in active} | {f"watch-{task}.g{generation}" for task, generation, _, _, _ in active}
    removed = 0
    for name in queue.listing("owners"):
        key = name.removesuffix(".json")
        if key in held or name.startswith(".tmp-"):
            continue
        holder = owner(queue, key)
        if key.startswith("watch-") or (holder is not None and identity.is_alive(holder.identity) is False):
            try:
                os.unlink(queue.path("owners", name))
                removed += 1
            except FileNotFoundError:
                continue
    return removed


def lost(task: str, why: str) -> FleetError:
    """What whoever holds a task no longer is told when they report on it."""
    return FleetError("lease_lost", f"lease lost: {task}: {why}", hint="stop working on it and claim the next task")


def describe(holder: Owner | None) -> dict[str, Any]:
    """An owner as data for people and programs."""
    if holder is None:
        return {"agent": None, "lane": None, "identity": None}
    return {"agent": holder.agent, "lane": holder.lane, "identity": holder.identity}
