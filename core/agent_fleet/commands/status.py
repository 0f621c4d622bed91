"""`fleet status`: counts by state, and who works on what."""

from __future__ import annotations

import time
from typing import Any

from agent_fleet.commands import Shared, command, watch
from agent_fleet.model import Active, Board
from agent_fleet.queue import board, lease
from agent_fleet.run import snapshot
from agent_fleet.text import duration, line


@command(
    "status", help="Count the tasks by state and show who works on what. Tasks of dead owners return to the queue."
)
def command_line(shared: Shared) -> None:
    queue = shared.queue
    returned = lease.reclaim(queue, lapse=shared.config.get("queue.lapse"))
    lease.forget(queue)
    picture = board.read(queue)
    crews = snapshot.sessions(queue, picture)
    shared.emit(
        _payload(picture, returned) | {"sessions": crews},
        lambda: "\n".join([_text(picture, returned), *(f"  {watch.session(each)}" for each in crews)]),
    )


def _payload(picture: Board, returned: list[str]) -> dict[str, Any]:
    return {
        "counts": dict(picture.counts),
        "quarantined": picture.quarantined,
        "returned": returned,
        "active": [
            {
                "id": held.task,
                "generation": held.generation,
                "agent": held.agent or None,
                "lane": held.lane or None,
                "alive": held.alive,
                "last_sign_of_life": held.beat,
            }
            for held in picture.active
        ],
    }


def _text(picture: Board, returned: list[str]) -> str:
    rows = ["  ".join(f"{state} {number}" for state, number in picture.counts.items())]
    if picture.quarantined:
        rows.append(f"quarantine {picture.quarantined} (files that could not be used; see .agents/quarantine)")
    if returned:
        rows.append(f"returned to the queue, their owners are gone: {', '.join(returned)}")
    rows += [_row(held) for held in sorted(picture.active, key=lambda held: int(held.task[1:]))]
    return "\n".join(rows)


def _row(held: Active) -> str:
    life = {True: "alive", False: "ended, waits to be settled by fleet run", None: "unknown whether alive"}[held.alive]
    age = duration(max(0.0, time.time() - held.beat))
    return f"  {held.task}  {line(held.agent or '?', 40)}  {held.lane or '-'}  {life}, last sign of life {age} ago"
