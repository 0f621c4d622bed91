"""The least that paces calls: so many at once, without memory."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_fleet.agents.dialect import Ending


class Plain:
    """So many calls at once, of all models together."""

    def __init__(self, most: int) -> None:
        self._places = asyncio.Semaphore(most)

    def of(self, model: str) -> Plain:
        del model
        return self

    async def acquire(self) -> None:
        await self._places.acquire()

    def release(
        self,
        permit: Any,
        ending: Ending,
        *,
        latency: float | None = None,
        retry_after: float | None = None,
        tokens: int = 0,
    ) -> None:
        del permit, ending, latency, retry_after, tokens
        self._places.release()
