"""Money while calls are made: nothing is begun whose price could pass what the run, its deployment or the day may cost.

A call is bounded from above before it: by what is sent and the most that may come back. The bound is set aside, where all processes
see it, until the call is over; then what it really cost takes its place. A call that would fit but for what is set aside for
others, of this process or of any, waits for them. Many calls are set aside in one exchange: while one is under way, the next are
gathered.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from agent_fleet.agents.shortage import Shortage
from agent_fleet.errors import FleetError, from_os_error
from agent_fleet.model import Usage
from agent_fleet.prices import Table, cost_of
from agent_fleet.run.holdings import Holding
from agent_fleet.run.stakes import Ask, Reply, Stakes

_AGAIN = 0.25  # seconds until a call that waits for others is asked for again
_AT_ONCE = 64  # calls of one exchange: where money is short most wait, and each exchange would name them all


class Broke(Exception):  # noqa: N818 - nothing is wrong: the money is used up
    """The next call could pass a ceiling. The text says which."""


@dataclass(slots=True)
class Stake:
    """What is set aside for one call, in US dollars."""

    amount: float


@dataclass(slots=True)
class _Wish:
    amount: float
    granted: asyncio.Future[Stake]


@dataclass(slots=True)
class _Purse:
    """What this process has of one deployment's money: for calls on their way, by attempts that are not on record yet."""

    staked: float = 0.0
    spent: float = 0.0
    wishes: deque[_Wish] = field(default_factory=deque)


class Till:
    """One a process. `owner` is what its holdings say of it: its identity, run, and worker or attempt."""

    def __init__(
        self,
        stakes: Stakes,
        table: Table,
        owner: Mapping[str, str | int],
        *,
        clock: Callable[[], float] = time.time,
        shortage: Shortage | None = None,
    ) -> None:
        self._stakes = stakes
        self._table = table
        self._owner = owner
        self._clock = clock
        self._shortage = shortage or Shortage()
        self._purses: dict[str, _Purse] = {}
        self._changed = asyncio.Event()
        self._exchanging: asyncio.Task[None] | None = None

    def of(self, deployment: str) -> Drawer:
        """The till of work on a deployment (empty: on none). Raises FleetError if nobody can read what that may cost."""
        return Drawer(self, deployment, is_open=not self._stakes.is_bounded(deployment))

    def bound(self, sent: int, back: int, model: str) -> float:
        """The price if all that is sent were of the dearest class. Raises Broke for a model without one."""
        found = []
        for worst in (Usage(input=sent, output=back), Usage(cache_write=sent, output=back)):
            money = cost_of(worst, self._table, models=(model,), at=self._clock())
            if money.amount is None and self._stakes.limits.unknown_price == "stop":
                raise Broke(f"{money.basis}, and there is a limit of money")
            found.append(money.known)
        return max(found)

    def cost(self, used: Usage, model: str) -> float:
        return cost_of(used, self._table, models=(model,), at=self._clock()).known

    async def stake(self, deployment: str, amount: float) -> Stake:
        """Set an amount aside. Raises Broke, and FleetError where nobody can read what others have set aside."""
        wish = _Wish(amount, asyncio.get_running_loop().create_future())
        self._purse(deployment).wishes.append(wish)
        self._stir()
        try:
            return await wish.granted
        except asyncio.CancelledError:
            if wish.granted.done() and not wish.granted.cancelled() and wish.granted.exception() is None:
                self.settle(deployment, wish.granted.result(), 0.0)
            raise

    def settle(self, deployment: str, stake: Stake, cost: float) -> None:
        """A call is over: what it cost counts from now on, and what was set aside is free again."""
        purse = self._purse(deployment)
        purse.staked = max(0.0, purse.staked - stake.amount)
        purse.spent += cost
        stake.amount = 0.0
        self._stir()

    def recorded(self, deployment: str, cost: float) -> None:
        """An attempt is on record, with all that its calls have cost."""
        purse = self._purse(deployment)
        purse.spent = max(0.0, purse.spent - cost)
        self._stir()

    async def close(self) -> None:
        """Hand in what has changed. What calls of unrecorded attempts have cost stays, until the journal tells of it."""
        if self._exchanging is not None:
            self._exchanging.cancel()
            with suppress(asyncio.CancelledError):
                await self._exchanging
            with suppress(FleetError, OSError):
                await asyncio.shield(asyncio.to_thread(self._stakes.exchange, list(self._asks().values())))

    # ----------------------------------------------------------------------------------------------------- exchanging

    def _purse(self, deployment: str) -> _Purse:
        return self._purses.setdefault(deployment, _Purse())

    def _stir(self) -> None:
        self._changed.set()
        if self._exchanging is None or self._exchanging.done():
            self._exchanging = asyncio.get_running_loop().create_task(self._exchange())

    async def _exchange(self) -> None:
        """Exchange as long as something has changed or somebody waits."""
        while self._changed.is_set() or any(purse.wishes for purse in self._purses.values()):
            self._changed.clear()
            asks = self._asks()
            try:
                exchanged = partial(asyncio.to_thread, self._stakes.exchange, list(asks.values()))
                replies = dict(zip(asks, await self._shortage.outlast("calls", exchanged), strict=True))
            except FleetError as error:
                return self._refuse(error)
            except OSError as error:
                return self._refuse(from_os_error(error, "cannot set money aside"))
            if any(self._served(self._purses[name], reply) for name, reply in replies.items()):
                continue
            if any(purse.wishes for purse in self._purses.values()):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), _AGAIN)
        return None

    def _asks(self) -> dict[str, Ask]:
        found = {}
        for name, purse in self._purses.items():
            while purse.wishes and purse.wishes[0].granted.done():
                purse.wishes.popleft()  # whoever wanted it was stopped meanwhile
            mine = Holding(kind="calls", deployment=name, staked=purse.staked, spent=purse.spent, **self._owner)  # type: ignore[arg-type]  # its fields
            key = f"{self._owner['owner']}/{name}"
            found[name] = Ask(key, mine, tuple(wish.amount for wish in islice(purse.wishes, _AT_ONCE)))
        return found

    def _served(self, purse: _Purse, reply: Reply) -> bool:
        """Give out what was granted; whether the next one may be asked for at once: all of it was granted, or who cannot have it
        was told so."""
        for amount in reply.granted:
            wish = purse.wishes.popleft()
            purse.staked += amount
            if wish.granted.done():
                purse.staked -= amount
                self._changed.set()
            else:
                wish.granted.set_result(Stake(amount))
        if not reply.why or reply.waits or not purse.wishes:
            return bool(purse.wishes) and not reply.why
        wish = purse.wishes.popleft()
        if not wish.granted.done():
            wish.granted.set_exception(Broke(reply.why))
        return True

    def _refuse(self, error: FleetError) -> None:
        for purse in self._purses.values():
            while purse.wishes:
                wish = purse.wishes.popleft()
                if not wish.granted.done():
                    wish.granted.set_exception(error)


class Drawer:
    """The till of the agents that work on one deployment, or on none."""

    def __init__(self, till: Till, deployment: str, *, is_open: bool) -> None:
        self._till = till
        self._deployment = deployment
        self.is_open = is_open
        """Whether there is no limit of money at all, so that nothing needs to be counted."""

    def of(self, deployment: str) -> Drawer:
        """The same for work on another deployment; see `Till.of`."""
        return self._till.of(deployment)

    async def stake(self, sent: int, back: int, model: str) -> Stake:
        """Set aside the most that a call can cost: so many tokens are sent, so many may come back.

        Raises Broke if that could pass a ceiling even when all other calls are over.
        """
        if self.is_open:
            return Stake(0.0)
        return await self._till.stake(self._deployment, self._till.bound(sent, back, model))

    def settle(self, stake: Stake, used: Usage, model: str) -> float:
        """The call is over; returns what it cost."""
        if self.is_open:
            return 0.0
        cost = self._till.cost(used, model)
        self._till.settle(self._deployment, stake, cost)
        return cost

    def recorded(self, cost: float) -> None:
        """An attempt is on record, with all that its calls have cost."""
        if not self.is_open:
            self._till.recorded(self._deployment, cost)
