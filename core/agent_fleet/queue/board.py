"""A picture of the queue, read from names alone, so that its cost is that of listing directories."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import cast

from agent_fleet.model import Active, Board, Need, Waiting
from agent_fleet.queue import lease, names
from agent_fleet.queue.claim import Only
from agent_fleet.queue.store import Queue


def read(queue: Queue) -> Board:
    """Counts by state, what waits by track and gate, and who holds what."""
    waiting = _waiting(queue)
    active = _active(queue)
    counts = {"inbox": sum(group.count for group in waiting), "active": len(active)}
    counts |= {state: count(queue, state) for state in names.SETTLED}
    return Board(
        root=os.path.dirname(queue.dir),
        now=time.time(),
        counts=counts,
        waiting=waiting,
        active=active,
        quarantined=len(queue.listing("quarantine")),
    )


def narrowed(queue: Queue, board: Board, only: Only) -> Board:
    """The same picture, in which nothing waits but what is let through: a run for one deployment has no other work."""
    waiting = _waiting(queue, only)
    return replace(board, waiting=waiting, counts={**board.counts, "inbox": sum(group.count for group in waiting)})


def count(queue: Queue, state: str) -> int:
    return sum(len(queue.entries(state, bucket)) for bucket in queue.buckets(state))


def _waiting(queue: Queue, only: Only | None = None) -> tuple[Waiting, ...]:
    groups: dict[tuple[tuple[int, str, str, str], str], int] = {}
    for track, name in queue.tracks():
        for bucket in queue.buckets("inbox", name):
            for gate in queue.listing("inbox", name, bucket):
                found = _count_valid(queue, only, "inbox", name, bucket, gate)
                if found:
                    groups[track, gate] = groups.get((track, gate), 0) + found
    return tuple(
        Waiting(priority=track[0], need=cast(Need, track[1]), lane=track[2], provider=track[3], gate=gate, count=number)
        for (track, gate), number in groups.items()
    )


def _count_valid(queue: Queue, only: Only | None, *parts: str) -> int:
    found = 0
    for name in queue.listing(*parts):
        entry = names.parse_entry(name)
        if entry is None:
            queue.quarantine(queue.path(*parts, name), "not the name of a task file")
        elif only is None or only.passes(queue, entry[0], queue.path(*parts, name)):
            found += 1
    return found


def _active(queue: Queue) -> tuple[Active, ...]:
    owners: dict[str, tuple[lease.Owner | None, lease.Verdict]] = {}
    found = []
    for task, generation, key, gate, name in queue.active():
        if key not in owners:
            holder = lease.owner(queue, key)
            owners[key] = holder, lease.judge(queue, holder)
        holder, verdict = owners[key]
        try:
            beat = os.lstat(queue.path("active", name)).st_mtime
        except FileNotFoundError:
            continue
        found.append(
            Active(
                task=task,
                generation=generation,
                owner=key,
                gate=gate,
                agent=holder.agent if holder else "",
                lane=holder.lane if holder else "",
                alive=verdict.alive,
                beat=beat,
                worker=holder.worker[1] if holder else "",
            )
        )
    return tuple(found)
