"""Telling the person at a run that its calls to a model wait, and for what: nothing else happens then that could be told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.queue import lease
from agent_fleet.queue.store import Queue
from agent_fleet.throttle.standing import Standing, standings
from agent_fleet.throttle.terms import terms

_LOOK: Final = 2.0  # seconds between two looks
_AGAIN: Final = 30.0  # seconds after which it is said again of a limit under which nothing begins


class Silence:
    """The limits that hold up the processes which hold tasks of this queue. `state` is the state directory of the user."""

    def __init__(self, queue: Queue, config: Config, state: str, say: Callable[[str], None]) -> None:
        self._queue = queue
        self._terms = terms(config)
        self._state = state
        self._say = say
        self._next = 0.0
        self._said: dict[tuple[str, str, str], float] = {}

    def step(self) -> None:
        """Look, now and then, and say of each closed limit how it stands: when it is first seen, and every half a minute."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _LOOK
        try:
            closed = [each for each in standings(self._state, self._terms) if each.closed is not None]
        except (FleetError, OSError):
            return  # whoever calls under it says what is wrong with its file; a run goes on without
        holders = self._holders() if closed else frozenset()
        for each in closed:
            key = each.account, each.endpoint, each.model
            if now >= self._said.get(key, -_AGAIN) + _AGAIN and _holds_up(each, holders):
                self._said[key] = now
                self._say(each.said)

    def _holders(self) -> frozenset[str]:
        owners = {key for _, _, key, _, _ in self._queue.active()}
        found = (lease.owner(self._queue, key) for key in owners)
        return frozenset(holder.identity for holder in found if holder is not None)


def _holds_up(limit: Standing, holders: frozenset[str]) -> bool:
    return limit.waiting > 0 and bool(holders.intersection(limit.processes))
