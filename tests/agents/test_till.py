"""Money is set aside in order, and the work of that grows with the calls, not with how many wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_fleet import identity
from agent_fleet.agents import till as tills
from agent_fleet.agents.till import Broke, Till
from agent_fleet.budget import Limits
from agent_fleet.prices import packaged
from agent_fleet.queue.store import Queue
from agent_fleet.run.stakes import Ask, Reply, Stakes
from support.project import new_queue

TOGETHER = 4  # calls that the money is enough for at once


class Short(Stakes):
    """A file with room for some calls of one dollar at once. `named` counts the amounts that it was asked for."""

    def __init__(self, together: int = TOGETHER) -> None:
        super().__init__(Queue("/nowhere"), packaged(), Limits(run_money=float(together)), "r1")
        self.together = together
        self.named = 0

    def exchange(self, asks: Sequence[Ask]) -> list[Reply]:
        replies = []
        for ask in asks:
            self.named += len(ask.wants)
            granted = ask.wants[: self.together - round(ask.holding.staked)]
            is_short = len(granted) < len(ask.wants)
            replies.append(Reply(granted, "others have it" if is_short else "", waits=is_short))
        return replies


@pytest.mark.parametrize("callers", [200, 1600])
def test_many_that_wait_for_little_money_cost_each_call_the_same(callers: int) -> None:
    async def work() -> tuple[int, list[int]]:
        stakes = Short()
        till = Till(stakes, packaged(), {"owner": "", "run": "r1"})
        served = []

        async def call(number: int) -> None:
            stake = await till.stake("", 1.0)
            served.append(number)
            await asyncio.sleep(0)
            till.settle("", stake, 0.0)

        await asyncio.gather(*map(call, range(callers)))
        await till.close()
        return stakes.named, served

    named, served = asyncio.run(work())
    assert served == list(range(callers)), "first come, first served, and nobody is forgotten"
    assert named <= 64 * callers


def test_where_the_money_is_enough_nobody_waits_for_somebody_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tills, "_AGAIN", 3600.0)

    async def work() -> None:
        till = Till(Short(1000), packaged(), {"owner": "", "run": "r1"})
        stakes = await asyncio.wait_for(asyncio.gather(*(till.stake("", 1.0) for _ in range(500))), 30)
        assert sum(stake.amount for stake in stakes) == 500
        await till.close()

    asyncio.run(work())


def test_a_process_waits_for_calls_of_its_own_as_for_those_of_others(tmp_path: Path) -> None:
    """Each call sets aside far more than it costs, as a real one does: all are made, one after another if need be."""

    async def work() -> None:
        stakes = Stakes(new_queue(tmp_path / ".agents"), packaged(), Limits(run_money=1.0), "r1")
        till = Till(stakes, packaged(), {"owner": identity.identity_of(), "run": "r1"})

        async def call() -> None:
            stake = await till.stake("", 0.4)
            await asyncio.sleep(0.01)
            till.settle("", stake, 0.02)

        await asyncio.wait_for(asyncio.gather(*(call() for _ in range(20))), 60)
        with pytest.raises(Broke, match=r"0\.4000 used, .*1\.00 allowed, and the next call may cost .*0\.7000"):
            await till.stake("", 0.7)
        await till.close()

    asyncio.run(work())
