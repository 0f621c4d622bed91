"""A convoy: what comes while a piece of work is under way goes together with the next, so that many cost little more than one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Fate = TypeVar("Fate")


class Convoy(Generic[Item, Fate]):
    """Carries items of one event loop, at most `most` at a time and one lot after another, in the order in which they came.

    `carry` gives what became of each item of a lot, in order; an exception among these concerns its own item alone.
    """

    def __init__(self, carry: Callable[[list[Item]], Awaitable[Sequence[Fate | Exception]]], most: int) -> None:
        self._carry = carry
        self._most = most
        self._waiting: deque[tuple[Item, asyncio.Future[Fate]]] = deque()
        self._going: asyncio.Task[None] | None = None

    async def join(self, item: Item) -> Fate:
        """Send one item along; returns what became of it, or raises it."""
        future: asyncio.Future[Fate] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._going is None:
            self._going = asyncio.create_task(self._go())
        return await future

    async def _go(self) -> None:
        try:
            while self._waiting:
                lot = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                for (_, future), fate in zip(lot, await self._carried([item for item, _ in lot]), strict=True):
                    if future.done():  # whoever waited for it has gone
                        continue
                    if isinstance(fate, Exception):
                        future.set_exception(fate)
                    else:
                        future.set_result(fate)
        finally:
            self._going = None

    async def _carried(self, items: list[Item]) -> Sequence[Fate | Exception]:
        try:
            return await self._carry(items)
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            return [error] * len(items)
