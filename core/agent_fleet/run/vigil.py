"""Waiting for accounts: until when, how long at most, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from agent_fleet.run.accounts import UNKNOWN, Rooms
from agent_fleet.run.gates import Gate
from agent_fleet.text import duration


class Wait(NamedTuple):
    """What a run waits for, in words; `key` is the part of them that stays while the wait does. `gate` is for messages."""

    text: str
    key: str
    gate: Gate
    seconds: float


class Vigil:
    """One a run: since when nothing could start because no account was free."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._since: float | None = None

    def over(self) -> None:
        """A worker has started."""
        self._since = None

    def may_hold(self, *, is_sure: bool, longest: float) -> bool:
        """Whether tasks that are held for want of an account are waited for still; `is_sure` says that somebody knows an end."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        return now < self._since + (longest if is_sure else min(longest, UNKNOWN))

    def wait(self, closed: Iterable[Rooms]) -> Wait | None:
        """What to wait for; None where waiting would not help, or was already as long as it may be."""
        hopeful = [rooms for rooms in closed if rooms.is_waiting]
        if not hopeful:
            return None
        now = self._clock()
        self._since = now if self._since is None else self._since
        first = min(hopeful, key=lambda rooms: rooms.until or float("inf"))
        last = max(rooms.patience for rooms in hopeful) + self._since
        if now >= last:
            return None
        seconds = max(0.0, (first.until or last) - now)
        ends = first.ends or "until one is given back or can be seen"
        gate = Gate(
            name=f"pool {first.pool}", kind="limit", why=first.why, since=self._since, until=first.until or last
        )
        return Wait(f"pool {first.pool} waits {duration(seconds)}, {ends}: {first.why}", ends, gate, seconds)
