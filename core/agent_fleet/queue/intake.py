"""Adding tasks: a batch becomes part of the queue whole and durably, or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agent_fleet import identity
from agent_fleet.queue import names
from agent_fleet.queue.files import FEW, move, remove_if_empty, sync_directory, sync_file_system, write_all
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import resolve_needs


def add(
    queue: Queue, bodies: Sequence[dict[str, Any]], *, before: Callable[[list[str]], None] | None = None
) -> list[str]:
    """Add tasks as one batch: when this returns, they are in the inbox and survive a loss of power.

    `before` is told their ids while none of them is there yet, for what has to be there first. Raises FleetError for a bad
    need, OSError if the disk refuses; then nothing was added.
    """
    if not bodies:
        return []
    recover(queue)
    first = _reserve(queue, len(bodies))
    ids = [f"t{first + offset}" for offset in range(len(bodies))]
    resolve_needs(bodies, ids, lambda task: queue.find(task) is not None)
    if before is not None:
        before(ids)
    now = round(time.time(), 3)
    stage = queue.path("staging", f"{identity.identity_of().replace(':', '_')}-{time.monotonic_ns()}")
    try:
        for directory in _stage(stage, bodies, now):
            queue.clear_way(queue.path("inbox", directory))  # what needs space comes before the commitment
        os.rename(stage, stage + ".ready")
        sync_directory(queue.path("staging"))
    except BaseException:
        for path in (stage, stage + ".ready"):
            shutil.rmtree(path, ignore_errors=True)
        raise
    try:
        _move_in(queue, stage + ".ready")
    except OSError as error:
        if _take_back(queue, stage + ".ready", bodies):
            raise
        queue.notices.append(f"the batch is added, but some of it waits for the next command: {error.strerror}")
    try:
        queue.journal.extend(_told(body) for body in bodies)
    except OSError as error:
        queue.notices.append(f"the tasks are added, but the journal could not be written: {error.strerror}")
    return ids


def _told(body: dict[str, Any]) -> dict[str, Any]:
    return {"event": "added", "task": body["id"], "gen": 0, "to": "inbox", "need": body["need"]}


def recover(queue: Queue) -> int:
    """Finish committed batches whose adder died, and drop uncommitted ones, which nobody was told of."""
    finished = 0
    if not queue.listing("staging"):
        return finished
    try:
        with DirLock(queue.path("staging")):
            for name in queue.listing("staging"):
                who = name.rpartition("-")[0].replace("_", ":")
                if identity.is_alive(who) is False:
                    finished += _recover(queue, name)
    except OSError as error:
        queue.notices.append(f"a batch whose adder died cannot be finished now: {error.strerror}")
    return finished


def _recover(queue: Queue, name: str) -> int:
    path = queue.path("staging", name)
    if not name.endswith(".ready"):
        shutil.rmtree(path, ignore_errors=True)
        return 0
    _move_in(queue, path)
    queue.tell("recovered", batch=name)
    return 1


def _take_back(queue: Queue, stage: str, bodies: Sequence[dict[str, Any]]) -> bool:
    """Undo a batch that could not be moved in whole. False if somebody works on a part of it already: then it stays."""
    taken = []
    for body in bodies:
        inside = queue.inbox_path(body, 0, _gate(body))
        outside = os.path.join(stage, os.path.relpath(inside, queue.path("inbox")))
        if os.path.exists(outside):
            continue
        if not move(inside, outside):
            return False
        taken.append(inside)
    dropped = stage.removesuffix(".ready")
    os.rename(stage, dropped)  # until here, a death of this process lets the next command finish the whole batch
    shutil.rmtree(dropped, ignore_errors=True)
    for directory in {os.path.dirname(path) for path in taken}:
        remove_if_empty(directory)
    return True


def _reserve(queue: Queue, count: int) -> int:
    """The first of `count` task numbers that nobody else will ever get."""
    directory = queue.path("seq")
    with DirLock(directory):
        known = [int(name) for name in os.listdir(directory) if names.is_number(name)]
        if known:
            first = max(known)
            os.rename(queue.path("seq", str(first)), queue.path("seq", str(first + count)))
        else:
            first = _highest(queue) + 1
            descriptor = os.open(queue.path("seq", str(first + count)), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
            os.close(descriptor)
    return first


def _highest(queue: Queue) -> int:
    """The highest task number in use, for a queue that has lost its counter."""
    used = [0]
    used += [int(task[1:]) for task, _, _, _, _ in queue.active()]
    used += [int(task[1:]) for task, _, _, _ in queue.waiting()]
    for state in names.SETTLED:
        used += [int(task[1:]) for task, _, _ in queue.settled(state)]
    return max(used)


def _gate(body: dict[str, Any]) -> str:
    """The gate that a new task waits at: a need first, since what it needs was rarely done before it was added."""
    return names.waits_for(body["needs"][0]) if body["needs"] else str(body["gate"])


def _stage(stage: str, bodies: Sequence[dict[str, Any]], now: float) -> list[str]:
    """Write the batch as a tree of tracks, buckets and gates, and make it durable.

    Returns the tracks, and of a small batch the buckets, that it needs in the inbox.
    """
    made: set[str] = set()
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    each = len(bodies) <= FEW
    os.mkdir(stage)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    for body in bodies:
        body["created"] = now
        task = body["id"]
        track = names.track_name(body["priority"], body["need"], body["lane"], body["provider"])
        directory = f"{stage}/{track}/{names.bucket_of(task)}/{_gate(body)}"
        if directory not in made:
            os.makedirs(directory, exist_ok=True)
            made.add(directory)
        text = encode({name: value for name, value in body.items() if value})
        descriptor = os.open(f"{directory}/{names.entry_name(task, 0)}", flags, 0o644)
        try:
            write_all(descriptor, text.encode())
            if each:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    if each:
        for directory in _upwards(made, stage):
            sync_directory(directory)
    else:
        sync_file_system(stage)
    buckets = {os.path.relpath(os.path.dirname(directory), stage) for directory in made}
    return sorted(buckets if each else {os.path.dirname(bucket) for bucket in buckets})


def _upwards(directories: Iterable[str], top: str) -> list[str]:
    """These directories and their parents down to `top`, deepest first."""
    found = {top}
    for start in directories:
        directory = start
        while directory != top:
            found.add(directory)
            directory = os.path.dirname(directory)
    return sorted(found, key=len, reverse=True)


def _move_in(queue: Queue, stage: str) -> None:
    """Move a committed batch into the inbox: whole buckets where they are new, file by file where they are not."""
    targets = {queue.path("inbox")}
    moved = 0
    for track in os.listdir(stage):
        queue.clear_way(queue.path("inbox", track))
        targets.add(queue.path("inbox", track))
        for bucket in os.listdir(os.path.join(stage, track)):
            source = os.path.join(stage, track, bucket)
            target = queue.path("inbox", track, bucket)
            if _rename_whole(queue, source, target):
                moved += 1
                continue
            targets.add(target)
            for gate in os.listdir(source):
                targets.add(os.path.join(target, gate))
                for name in os.listdir(os.path.join(source, gate)):
                    queue.move(os.path.join(source, gate, name), os.path.join(target, gate, name))
                    moved += 1
    if moved > FEW:
        sync_file_system(queue.dir)
    else:
        for directory in targets:
            try:
                sync_directory(directory)
            except FileNotFoundError:
                continue  # claimed empty meanwhile, and removed
    shutil.rmtree(stage, ignore_errors=True)


def _rename_whole(queue: Queue, source: str, target: str) -> bool:
    """Move a bucket as it is. False if there is one of that number already; a file in its place is set aside."""
    for _ in range(2):
        try:
            os.rename(source, target)
            return True
        except NotADirectoryError:
            queue.quarantine(target, "a directory belongs in its place")
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
    return False
