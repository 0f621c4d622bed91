"""Money while calls are made: nothing is begun whose price could pass what the run or the day may cost.

A call is bounded from above before it: by what is sent and the most that may come back. The bound is set aside until the call
is over; then what it really cost takes its place. A call that would fit but for what others have set aside waits for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent_fleet.budget import Limits, dollars
from agent_fleet.model import Usage
from agent_fleet.prices import Money, Table, cost_of

Sums = tuple[Money, Money]
"""What the run and the day have cost by what is on record."""


class Broke(Exception):  # noqa: N818 - nothing is wrong: the money is used up
    """The next call could pass a ceiling. The text says which."""


@dataclass(slots=True)
class Stake:
    """What is set aside for one call, in US dollars."""

    amount: float


class Till:
    """One a process. `recorded` reads what is on record; it is called now and then, in a thread."""

    def __init__(
        self, limits: Limits, table: Table, recorded: Callable[[], Sums], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._limits = limits
        self._table = table
        self._recorded = recorded
        self._clock = clock
        self._run, self._day = 0.0, 0.0
        self._at_work = 0.0  # spent by attempts that are not on record yet
        self._told = 0.0  # spent by attempts that were recorded since the last look
        self._staked = 0.0
        self._unknown = ""
        self._freed = asyncio.Condition()

    @property
    def is_open(self) -> bool:
        """Whether there is no limit of money at all, so that nothing needs to be counted."""
        return self._limits.run_money is None and self._limits.day_money is None

    async def refresh(self) -> None:
        """Take in what is on record by now: what others have spent, too."""
        if self.is_open:
            return
        told = self._told
        run, day = await asyncio.to_thread(self._recorded)
        self._run, self._day = run.known, day.known
        self._unknown = "; ".join((*run.unknown, *day.unknown)) if self._limits.unknown_price == "stop" else ""
        self._told -= told
        await self._wake()

    async def stake(self, sent: int, back: int, model: str) -> Stake:
        """Set aside the most that a call can cost: so many tokens are sent, so many may come back.

        Raises Broke if that could pass a ceiling even when all other calls are over.
        """
        if self.is_open:
            return Stake(0.0)
        amount = self._bound(sent, back, model)
        async with self._freed:
            while True:
                self._must_fit(amount)
                if self._why_not(amount + self._staked) is None:
                    self._staked += amount
                    return Stake(amount)
                await self._freed.wait()

    async def settle(self, stake: Stake, used: Usage, model: str) -> float:
        """The call is over: what it cost counts from now on, and what was set aside is free again. Returns the cost."""
        if self.is_open:
            return 0.0
        cost = cost_of(used, self._table, models=(model,), at=self._clock()).known
        self._at_work += cost
        self._staked -= stake.amount
        stake.amount = 0.0
        await self._wake()
        return cost

    def recorded(self, cost: float) -> None:
        """An attempt is on record, with all that its calls have cost."""
        self._at_work -= cost
        self._told += cost

    async def _wake(self) -> None:
        async with self._freed:
            self._freed.notify_all()

    def _bound(self, sent: int, back: int, model: str) -> float:
        """The price if all that is sent were of the dearest class."""
        found = []
        for worst in (Usage(input=sent, output=back), Usage(cache_write=sent, output=back)):
            money = cost_of(worst, self._table, models=(model,), at=self._clock())
            if money.amount is None and self._limits.unknown_price == "stop":
                raise Broke(f"{money.basis}, and there is a limit of money")
            found.append(money.known)
        return max(found)

    def _must_fit(self, amount: float) -> None:
        if self._unknown:
            raise Broke(f"what was used has no known price ({self._unknown}), and there is a limit of money")
        why = self._why_not(amount)
        if why is not None:
            raise Broke(why)

    def _why_not(self, amount: float) -> str | None:
        own = self._at_work + self._told + amount
        for name, spent, limit in (
            ("run", self._run, self._limits.run_money),
            ("day", self._day, self._limits.day_money),
        ):
            if limit is not None and spent + own > limit:
                return (
                    f"money of the {name}: {dollars(spent + own - amount)} used, {dollars(limit)} allowed, and the next"
                    f" call may cost {dollars(amount)}"
                )
        return None
