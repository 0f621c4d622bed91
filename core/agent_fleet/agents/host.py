"""The host: so many seats, each an agent with a task of its own; claims for the empty ones, and an end when nothing is left."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from agent_fleet.agents import report
from agent_fleet.agents.allowance import Allowance
from agent_fleet.agents.convoy import Convoy
from agent_fleet.agents.desk import Closing, Desk, Opening, is_used
from agent_fleet.agents.loop import Agent, End, Kit, Means
from agent_fleet.agents.shortage import Shortage
from agent_fleet.agents.till import Drawer
from agent_fleet.agents.work import SYSTEM, Order, Orders, plain_prompt, verdict
from agent_fleet.errors import FleetError, from_os_error
from agent_fleet.model import Outcome, OutcomeKind
from agent_fleet.queue.claim import Claimed
from agent_fleet.queue.store import Place

_LOOK = 1.0  # seconds between two looks at the inbox while seats are empty
_TELL = 0.5  # seconds between two writes of the report
_BATCH = 64  # tasks of one look at the inbox: the first agents start while the others are still claimed
_ADVICES = 2  # times that an agent is told what is missing before it is taken at its word
_WALLS = ("limit", "overload", "auth")
_SHORT = ("broke", "unable")  # ends of agents after which no other could do more


class Opened(NamedTuple):
    """A task that was read: its work order, what its attempt begins with, and its prompt with the nonce in it."""

    order: Order | None
    opening: Opening
    prompt: str
    nonce: str


class Kits(Protocol):
    """Where agents get their tools."""

    async def kit(self, servers: Mapping[str, Mapping[str, Any]]) -> Kit:
        """The tools of these servers. Raises FleetError for one that cannot be reached."""
        ...


class Terms(NamedTuple):
    """What holds for every agent of a host: its model and tokens where its task says nothing.

    `commit` is how many tasks are put on record at once: each has its lease's file open meanwhile.
    """

    seats: int
    model: str
    tokens: int
    commit: int


class Host:
    """Works the queue until nothing is left for it. `say` writes a piece of the report."""

    def __init__(
        self, desk: Desk, means: Means, kits: Kits, orders: Orders, terms: Terms, say: Callable[[str], None]
    ) -> None:
        self._desk = desk
        self._means = means
        self._kits = kits
        self._orders = orders
        self._terms = terms
        self._say = say
        self._threads = ThreadPoolExecutor(4, "queue")
        self._closings: Convoy[Closing, Place] = Convoy(partial(self._in_thread, desk.settle), terms.commit)
        self._seated: set[asyncio.Task[None]] = set()
        self._agents: dict[asyncio.Task[None], Agent] = {}
        self._lines: list[str] = []
        self._news = asyncio.Event()
        self._shortage = Shortage(lambda text: self._tell(report.line("retry", text=text)))
        self._stopped = ""  # why no more is claimed
        self._end = Outcome(kind="done")
        self.moved = 0

    def stop(self, why: str) -> None:
        """Give back what is at work and end."""
        self._stopped = self._stopped or why
        for seat in self._seated:
            seat.cancel(why)
        self._news.set()

    async def run(self) -> Outcome:
        """Work until nothing is left; returns how the session ended."""
        clock = asyncio.create_task(self._tick())
        try:
            while True:
                self._news.clear()
                self._give_up_waiting()
                taken = await self._seat_more()
                if not self._seated and not taken:
                    break
                try:
                    await asyncio.wait_for(self._news.wait(), _LOOK)
                except TimeoutError:
                    continue
        finally:
            clock.cancel()
            await asyncio.gather(clock, *self._seated, return_exceptions=True)
            self._threads.shutdown()
            self._flush()
        return self._end

    # ------------------------------------------------------------------------------------------------------ seats

    async def _seat_more(self) -> int:
        """Fill the empty seats as far as there are tasks; returns how many were taken."""
        taken = 0
        while not self._stopped and (free := self._terms.seats - len(self._seated)) > 0:
            try:
                found = await self._patiently(self._claimed, min(free, _BATCH))
            except OSError as error:
                raise from_os_error(error, "cannot claim") from None
            taken += len(found)
            for claimed, opened in found:
                seat = asyncio.create_task(self._sit(claimed, opened))
                self._seated.add(seat)
                seat.add_done_callback(self._left)
            if self._stopped:  # it came while the claim was made
                self.stop(self._stopped)
            if len(found) < min(free, _BATCH):
                break
        return taken

    def _left(self, seat: asyncio.Task[None]) -> None:
        self._seated.discard(seat)
        self._agents.pop(seat, None)
        if not seat.cancelled() and (error := seat.exception()) is not None:
            self._wind_down(Outcome(kind="failed", reason=f"{type(error).__name__}: {error}"))
        self._news.set()

    async def _sit(self, claimed: Claimed, opened: Opened | None) -> None:
        """One task, from its lease to its record; whatever keeps it from a record gives it back."""
        agent: Agent | None = None
        key = f"{claimed.task}.g{claimed.generation}"
        try:
            opened = opened or cast("Opened", await self._patiently(self._opened, claimed))
            agent = await self._agent(claimed, opened, key)
            if (seat := asyncio.current_task()) is not None:
                self._agents[seat] = agent
            end = await agent.work(opened.prompt)
        except asyncio.CancelledError:
            await self._return(claimed, agent, key, self._stopped or "its host was stopped")
            raise
        except FleetError as error:
            if error.code == "bad_config":  # another task would meet the same
                await self._return(claimed, agent, key, error.message)
                self._wind_down(Outcome(kind="failed", reason=f"{error.message} ({error.hint})"))
                return
            broken = Outcome(kind="failed", reason=error.message)
            await _whole(self._report(claimed, agent, key, self._settle(claimed, broken, {}, 0.0, key)))
        except OSError as error:  # a lack of this machine's, which another task would meet too
            told = from_os_error(error, f"{claimed.task} could not be begun")
            await self._return(claimed, agent, key, told.message)
            self._wind_down(Outcome(kind="failed", reason=f"{told.message} ({told.hint})"))
        else:
            deed = self._conclude(claimed, end, opened.nonce, key, is_ordered=opened.order is not None)
            await _whole(self._report(claimed, agent, key, deed))

    async def _report(self, claimed: Claimed, agent: Agent | None, key: str, deed: Coroutine[Any, Any, None]) -> None:
        """Bring an outcome to the queue. Where that cannot be done the task goes back, and its usage is told all the same."""
        try:
            await deed
        except FleetError as error:
            await self._return(claimed, agent, key, error.message)
        except OSError as error:
            await self._return(claimed, agent, key, f"its outcome could not be written: {error.strerror}")
            self._wind_down(Outcome(kind="failed", reason=f"the queue cannot be written: {error.strerror}"))

    def _claimed(self, most: int) -> list[tuple[Claimed, Opened | None]]:
        """Claim some and read each; None stands for what could not be read: the seat tries again, and says why if it must."""
        found: list[tuple[Claimed, Opened | None]] = []
        for claimed in self._desk.claim(most):
            try:
                found.append((claimed, self._opened(claimed)))
            except Exception:  # noqa: BLE001 - no task that was claimed with this one is to be lost by it
                found.append((claimed, None))
        return found

    def _opened(self, claimed: Claimed) -> Opened:
        """What is read of a task before it is begun."""
        order = self._orders.of(claimed.body)
        opening = self._desk.opening(claimed, self._terms.tokens)
        return Opened(order, opening, *plain_prompt(claimed.body, opening.answers, opening.earlier))

    async def _agent(self, claimed: Claimed, opened: Opened, key: str) -> Agent:
        order, opening, _, _ = opened
        kit = await self._kits.kit(order.servers if order else {})
        model = claimed.body.get("model", "") or self._terms.model
        if not model:
            raise FleetError(
                "bad_config", "no model is named", hint="set provider.NAME.model, or --model for each task"
            )
        advices = [0]

        def advise(text: str) -> str:
            advices[0] += 1
            return order.advice(text) if order and advices[0] <= _ADVICES else ""

        return Agent(
            self._means._replace(till=self._drawer(claimed)),
            Allowance(opening.tokens, opening.turns),
            model=model,
            system=SYSTEM,
            kit=kit,
            advise=advise,
            told=lambda usage: self._tell(report.used(key, usage)),
        )

    def _drawer(self, claimed: Claimed) -> Drawer:
        return self._means.till.of(claimed.body.get("run", ""))

    # ------------------------------------------------------------------------------------------------------- ends

    async def _conclude(self, claimed: Claimed, end: End, nonce: str, key: str, *, is_ordered: bool) -> None:
        """What an agent's end does to its task: what it wrote for an order is kept, whatever ended it but a wall."""
        if end.kind in _WALLS or (end.kind in _SHORT and not (is_ordered and end.text)):
            self._tell(report.used(key, end.usage))
            await self._back(claimed, end)
            return
        more = {"suspended": end.reason} if end.kind in ("suspended", *_SHORT) else {}
        await self._settle(claimed, _outcome(end, nonce), more, end.cost, key)
        if end.kind in _SHORT:
            self._wind_down(Outcome(kind=_closing(end), reason=end.reason))

    async def _back(self, claimed: Claimed, end: End) -> None:
        """A wall of the account or of the run's money, or a lack of ours: the task goes back, and no other is claimed."""
        await self._in_thread(self._desk.give_back, claimed, end.reason)
        resets = time.time() + end.after if end.after else None
        self._wind_down(Outcome(kind=_closing(end), reason=end.reason, resets_at=resets))

    async def _settle(self, claimed: Claimed, outcome: Outcome, more: Mapping[str, Any], cost: float, key: str) -> None:
        closing = Closing(claimed, outcome, more)
        await self._shortage.outlast("ends of tasks", lambda: self._put_on_record(closing))
        if cost:
            self._drawer(claimed).recorded(cost)
        self._tell(report.recorded(key))
        self.moved += 1

    async def _put_on_record(self, closing: Closing) -> None:
        """Raises OSError only where the task stayed where it was, so that this may be tried again."""
        try:
            await self._closings.join(closing)
        except OSError as error:
            if os.path.lexists(closing.claimed.path):
                raise
            raise from_os_error(error, f"the end of {closing.claimed.task} may not be on disk") from None

    async def _return(self, claimed: Claimed, agent: Agent | None, key: str, why: str) -> None:
        if agent is not None and is_used(agent.usage):
            self._tell(report.used(key, agent.usage))
        await _whole(self._in_thread(self._desk.give_back, claimed, why))

    def _wind_down(self, end: Outcome) -> None:
        """Claim no more; those at work come to their own end. The first reason counts."""
        if not self._stopped:
            self._stopped = end.reason or end.kind
            self._end = end

    def _give_up_waiting(self) -> None:
        """Give back what waits for a call that nobody will make: a wall may last for hours, and leases are not to wait for it."""
        if self._end.kind in _WALLS:
            for seat, agent in self._agents.items():
                if agent.is_waiting:
                    seat.cancel(self._stopped)

    # ----------------------------------------------------------------------------------------------------- the rest

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *arguments))

    async def _patiently(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """In a thread, and again while this process has too little of something: each seat that ends gives back what it had."""
        return await self._shortage.outlast("tasks", lambda: self._in_thread(call, *arguments))

    def _tell(self, text: str) -> None:
        self._lines.append(text)

    def _flush(self) -> None:
        if self._lines:
            self._say("".join(self._lines))
            self._lines.clear()

    async def _tick(self) -> None:
        """Write the report, now and then."""
        while True:
            await asyncio.sleep(_TELL)
            self._flush()


async def _whole(deed: Coroutine[Any, Any, None]) -> None:
    """See it through, even if a stop comes meanwhile: a half of it would be told twice, or not at all."""
    task = asyncio.ensure_future(deed)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _closing(end: End) -> OutcomeKind:
    """How a session ends on account of how one of its agents did."""
    kinds: dict[str, OutcomeKind] = {"broke": "budget", "unable": "failed"}
    return kinds.get(end.kind) or cast("OutcomeKind", end.kind)


def _outcome(end: End, nonce: str) -> Outcome:
    """What an agent's own end is worth."""
    common: dict[str, Any] = {"session": end.session, "usage": end.usage}
    if end.kind in ("suspended", *_SHORT):
        return Outcome(kind="budget", reason=end.reason, result=end.text, **common)
    if end.kind != "done":
        kind: Any = end.kind
        return Outcome(kind=kind, reason=end.reason, result=end.text, **common)
    word, reason, result = verdict(end.text, nonce)
    return Outcome(kind=word, reason=reason, result=result, **common)
