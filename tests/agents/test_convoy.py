"""A convoy: all that waits goes together, in lots, each with its own fate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_fleet.agents.convoy import Convoy


class Road:
    """Carries lots when it is let; `lots` are those that went."""

    def __init__(self) -> None:
        self.lots: list[list[int]] = []
        self.gate = asyncio.Event()

    async def carry(self, items: list[int]) -> Sequence[str | Exception]:
        self.lots.append(items)
        await self.gate.wait()
        if 13 in items:
            raise OSError("the whole lot is lost")
        return [ValueError(str(item)) if item < 0 else str(item) for item in items]


async def all_of(convoy: Convoy[int, str], items: Sequence[int]) -> list[str | BaseException]:
    return await asyncio.gather(*(convoy.join(item) for item in items), return_exceptions=True)


def test_what_comes_while_a_lot_is_under_way_goes_with_the_next_and_no_lot_is_too_large() -> None:
    async def go() -> tuple[list[list[int]], Sequence[list[str | BaseException]]]:
        road = Road()
        convoy = Convoy(road.carry, 4)
        first = asyncio.create_task(all_of(convoy, [0]))
        while not road.lots:
            await asyncio.sleep(0)
        second = asyncio.create_task(all_of(convoy, range(1, 10)))
        while len(asyncio.all_tasks()) < 12:  # until all nine wait
            await asyncio.sleep(0)
        assert road.lots == [[0]], "two lots were under way at once"
        road.gate.set()
        return road.lots, await asyncio.gather(first, second)

    lots, fates = asyncio.run(go())
    assert lots == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9]]
    assert list(fates) == [["0"], [str(n) for n in range(1, 10)]]


def test_a_fault_of_one_is_its_own_and_a_fault_of_the_road_is_everybodys_and_neither_is_the_last_lot() -> None:
    async def go() -> tuple[list[str | BaseException], list[str | BaseException], str]:
        road = Road()
        road.gate.set()
        convoy = Convoy(road.carry, 10)
        return await all_of(convoy, [1, -2, 3]), await all_of(convoy, [12, 13]), await convoy.join(5)

    own, everybody, after = asyncio.run(go())
    assert (own[0], own[2]) == ("1", "3")
    assert isinstance(own[1], ValueError)
    assert [type(fate) for fate in everybody] == [OSError, OSError]
    assert after == "5"


def test_who_stops_waiting_stops_nobody_else() -> None:
    async def go() -> list[str | BaseException]:
        road = Road()
        convoy = Convoy(road.carry, 10)
        waiting = [asyncio.create_task(convoy.join(item)) for item in range(3)]
        while not road.lots:
            await asyncio.sleep(0)
        waiting[1].cancel()
        road.gate.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    found = asyncio.run(go())
    assert (found[0], found[2]) == ("0", "2")
    assert isinstance(found[1], asyncio.CancelledError)
