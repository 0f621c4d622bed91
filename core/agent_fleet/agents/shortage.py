"""A shortage of this process, as of open files or memory: it passes when others end, so it is waited for, with an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent_fleet.errors import SHORTAGES

PATIENCE = 30.0  # seconds
_AGAIN = 0.25  # seconds between two tries

Result = TypeVar("Result")


class Shortage:
    """Waits for what is lacking. `tell` hears of it, not more than once in the time for which it is waited."""

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        self._tell = tell
        self._told = float("-inf")

    async def outlast(self, what: str, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Make an attempt again and again while it is refused for a shortage; `what` waits, for people. Raises what it raises."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return await attempt()
            except OSError as error:
                now = time.monotonic()
                if error.errno not in SHORTAGES or now >= until:
                    raise
                if now >= self._told + PATIENCE:
                    self._told = now
                    self._tell(f"{what} wait: {error.strerror}")
            await asyncio.sleep(_AGAIN)
