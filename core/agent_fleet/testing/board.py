"""Boards for tests of policies: pictures of a queue that no files lie behind."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from agent_fleet.model import Active, Board, Waiting

NOW = 1_800_000_000.0  # a Friday morning (UTC)


def new_board(
    *, waiting: Iterable[Waiting] | int = (), active: Iterable[Active] | int = (), now: float = NOW, **counts: int
) -> Board:
    """A board of these tasks; a number stands for so many ordinary ones. `counts` sets the other states: done=3.

    Its counts cannot be changed, so a policy that writes to its board raises TypeError.
    """
    waits = (_waiting(waiting),) if isinstance(waiting, int) else tuple(waiting)
    held = tuple(_active(number, now) for number in range(1, active + 1)) if isinstance(active, int) else tuple(active)
    states = {"inbox": sum(each.count for each in waits), "active": len(held), "done": 0, "blocked": 0, "failed": 0}
    return Board(root="/project", now=now, counts=MappingProxyType(states | counts), waiting=waits, active=held)


def _waiting(count: int) -> Waiting:
    return Waiting(priority=5, need="agent", lane="", provider="", gate="_", count=count)


def _active(number: int, now: float) -> Active:
    return Active(
        task=f"t{number}",
        generation=1,
        owner=f"owner{number}",
        gate="_",
        agent=f"r1-w{number}",
        lane="headless",
        alive=True,
        beat=now - 5,
    )
