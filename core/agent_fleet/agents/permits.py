"""Permission to make one more call, and what became of it: the seam to whatever paces the calls of an account.

`Plain` is the least that does: so many calls at once, without memory.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["ok", "limit", "overload", "auth", "refused", "failed", "cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How a call went: `latency` in seconds; `retry_after` in seconds, if the server asked for a wait.

    `cut` is a call that we gave up ourselves: it says nothing of the server.
    """

    kind: Kind
    latency: float
    retry_after: float | None = None
    tokens: int = 0


class Throttle(Protocol):
    """One for each account and model that a process uses."""

    async def acquire(self) -> None:
        """Wait until one more call may be made. Raises FleetError where no more may be made at all in this run."""
        ...

    def release(self, seen: Observation) -> None:
        """The call is over. To be called once for each `acquire`."""
        ...


class Plain:
    """So many calls at once."""

    def __init__(self, most: int) -> None:
        self._places = asyncio.Semaphore(most)

    async def acquire(self) -> None:
        await self._places.acquire()

    def release(self, seen: Observation) -> None:
        del seen
        self._places.release()
