"""The throttle as coroutines meet it: wait for a permit, make one call, hand the permit back with what was seen.

One object serves all coroutines of an event loop. Most calls pass without a lock: permits are leased for two seconds and go
from call to call, and one timer asks for all. A wait costs a future, no thread and no task.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from agent_fleet import identity
from agent_fleet.accounts.vault import uptime
from agent_fleet.errors import SHORTAGES, FleetError, from_os_error
from agent_fleet.throttle import pool
from agent_fleet.throttle.attempts import Attempts
from agent_fleet.throttle.pool import Grant, Report
from agent_fleet.throttle.terms import CONGESTED, ERRORS, MEANT, Ending, Observation, Terms

PATIENCE = 30.0  # seconds
_RETRY = 0.004  # seconds
_SHORT = 0.1  # seconds until it is tried again to open what too many open files keep from being opened
_TRIES = 100


class Source(Protocol):
    """Where permits come from: `Shared`, or what stands in for it."""

    def exchange(self, terms: Terms, name: str, report: Report, draw: float) -> Grant | None:
        """Hand in a report and get a grant; None if somebody else is at it."""
        ...

    def heard(self) -> int:
        """A number that changes when there is news for everybody."""
        ...


@dataclass(slots=True, eq=False)
class Permit:
    """The right to make one call, from `began` on. `is_probe`: it tries whether a closed gate may open."""

    began: float
    is_probe: bool = False
    is_over: bool = False


@dataclass(slots=True, eq=False)
class Call:
    """One call inside `Throttle.call`, and what its maker has to say of it."""

    permit: Permit
    ending: Ending | None = None
    latency: float | None = None
    retry_after: float | None = None
    tokens: int = 0

    def answered(self) -> None:
        """The first byte of the answer is here."""
        if self.latency is None:
            self.latency = uptime() - self.permit.began


@dataclass(slots=True, eq=False)
class Throttle:
    """The permits of this process for one account, endpoint and model, for the event loop in which it is first waited for.

    `attempts` is the cap on the calls of the run, if there is one. `random` gives numbers from 0 to 1. `tell` hears, once each
    time, what all calls have to wait for although no limit keeps them.
    """

    source: Source
    terms: Terms
    attempts: Attempts | None = None
    random: Callable[[], float] = random.random
    tell: Callable[[str], None] = lambda _: None
    _name: str = field(default_factory=lambda: f"{identity.identity_of()}/{os.urandom(4).hex()}")
    _waiting: deque[asyncio.Future[Permit]] = field(default_factory=deque)
    _seen: list[Observation] = field(default_factory=list)
    _grant: Grant = field(default_factory=lambda: Grant(0, 0, 0.0, 0.0))
    _flying: int = 0
    _queued: int = 0
    _peak: int = 0
    _started: int = 0
    _heard: int = 0
    _is_shut: bool = False
    _is_probing: bool = False
    _is_known: bool = False
    _timer: asyncio.TimerHandle | None = None
    _due: float = 0.0
    _stuck: float = 0.0
    _fault: Ending | None = None

    @property
    def flying(self) -> int:
        """Calls of this process that are in flight."""
        return self._flying

    @property
    def waiting(self) -> int:
        """Coroutines of this process that wait for a permit."""
        return self._queued

    @property
    def grant(self) -> Grant:
        """What was last granted, for people: the limit, and whether the gate is closed."""
        return self._grant

    async def acquire(self) -> Permit:
        """Wait until one more call may begin. Whoever gets a permit must `release` it.

        Raises FleetError: `refused` once the run has made all the calls it may, else what keeps the shared file from being used.
        """
        if not self._queued and self._may_start():
            return self._start()
        future: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._queued += 1
        self._peak = max(self._peak, self._flying + self._queued)
        self._ask_for_more()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.release(future.result(), "cancelled")
            elif future.cancelled():
                self._queued -= 1
            raise

    def release(
        self,
        permit: Permit,
        ending: Ending,
        *,
        latency: float | None = None,
        retry_after: float | None = None,
        tokens: int = 0,
    ) -> None:
        """Hand a permit back, once, with what was seen of its call (see `Observation`)."""
        if permit.is_over:
            raise RuntimeError("this permit was handed back before")
        permit.is_over = True
        self._flying -= 1
        if permit.is_probe:
            self._is_probing = False
        seen = Observation(permit.began, uptime(), ending, latency, retry_after, tokens, permit.is_probe)
        self._seen.append(seen)
        self._fault = ending if ending in ERRORS else self._fault
        if self.attempts and ending == "ok":
            self.attempts.answered()
        if permit.is_probe or self._is_news(seen):
            self._is_shut = True
            self._exchange()
        else:
            self._hand_out()
            self._settle()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[Call]:
        """A permit for the length of a block. The call counts as ok unless its `ending` is set or the block raises."""
        made = Call(await self.acquire())
        try:
            yield made
            made.ending = made.ending or "ok"
        except asyncio.CancelledError:
            made.ending = made.ending or "cancelled"
            raise
        except BaseException:
            made.ending = made.ending or "broken"
            raise
        finally:
            self.release(
                made.permit,
                made.ending or "cancelled",
                latency=made.latency,
                retry_after=made.retry_after,
                tokens=made.tokens,
            )

    def close(self) -> None:
        """Give back what is leased. Calls in flight count until they are released; who waits gets a FleetError (`refused`)."""
        self._fail(FleetError("refused", "the throttle was closed", hint="run `fleet resume-run` to go on"))
        self._peak = self._flying
        self._exchange()
        tries = 0
        while self._stuck and tries < _TRIES:  # a loop that ends now has no later moment to come back in
            time.sleep(_RETRY)
            self._exchange()
            tries += 1
        if self.attempts and not self._flying:
            self.attempts.give_back()

    def _may_start(self) -> bool:
        grant = self._grant
        if self._is_shut or self._flying >= grant.permits or self._started >= grant.starts:
            return False
        if uptime() >= grant.ends or self.source.heard() != self._heard:
            self._ask(0.0)
            return False
        if self.attempts is None or self.attempts.left > 0:
            return True
        self._ask(0.0)
        return False

    def _start(self) -> Permit:
        if self.attempts:
            self.attempts.take()
        self._flying += 1
        self._started += 1
        self._peak = max(self._peak, self._flying + self._queued)
        permit = Permit(uptime(), self._grant.is_probe)
        if permit.is_probe:
            self._is_probing = True
        return permit

    def _hand_out(self) -> None:
        while self._waiting:
            if self._waiting[0].done():
                self._waiting.popleft()
                continue
            if not self._may_start():
                return
            self._queued -= 1
            self._waiting.popleft().set_result(self._start())

    def _is_news(self, seen: Observation) -> bool:
        """Whether others must hear of it at once: a wall that was not known when the call began."""
        if seen.ending in CONGESTED or seen.retry_after:
            return not self._is_shut or bool(seen.retry_after)
        return False

    def _ask_for_more(self) -> None:
        """Somebody waits: ask at once where that may help, else when the timer is due."""
        grant = self._grant
        more = grant.is_full and (self._flying >= grant.permits or self._started >= grant.starts)
        is_short = self.attempts is not None and self.attempts.left <= 0
        if not self._is_known or more or is_short or uptime() >= grant.ends:
            self._ask(0.0)

    def _settle(self) -> None:
        """After a call: give back at once what others may need, or what nobody here needs any more."""
        if self._flying + self._queued == 0 or self._flying >= self._grant.permits:
            self._ask(pool.POLL)
        elif self._timer is None:
            self._ask(pool.RENEW)

    def _ask(self, delay: float) -> None:
        """See to it that the pool is asked within `delay` seconds."""
        loop = asyncio.get_running_loop()
        due = loop.time() + delay
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = loop.call_later(delay, self._exchange)

    def _exchange(self) -> None:
        """Tell the pool what happened, and go by what it says. It never raises: who waits is told."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            if not self._has_attempts():
                self._again(uptime())
                return
            self._heard = self.source.heard()
            want = max(self._peak, self._flying + self._queued) if self._flying + self._queued else 0
            report = Report(self._flying, want, self._started, tuple(self._seen), self._is_probing)
            grant = self.source.exchange(self.terms, self._name, report, self.random())
        except FleetError as error:
            self._fail(error)
            return
        except OSError as error:
            if error.errno in SHORTAGES:
                self._again(uptime(), error)
            else:
                self._fail(from_os_error(error, "cannot use the shared limit"))
            return
        if grant is None:
            self._again(uptime())
        else:
            self._take(grant)

    def _take(self, grant: Grant) -> None:
        self._grant = grant
        self._seen.clear()
        self._started = 0
        self._stuck = 0.0
        self._peak = self._flying + self._queued
        self._is_shut = False
        self._is_known = self._peak > 0
        self._hand_out()
        if self._is_known:
            # a jitter of a fifth, so that processes that wait for one moment do not come in one moment
            self._ask(max(0.0, grant.again - uptime()) * (0.8 + 0.2 * self.random()) + 0.001)

    def _has_attempts(self) -> bool:
        """Get attempts for those who wait, or tell them that there are none; False if another process is at it."""
        if not self._queued or self.attempts is None or self.attempts.left > 0:
            return True
        found = self.attempts.more()
        if found is False:
            self._fail(
                FleetError(
                    "refused",
                    f"the run has made all of its {self.attempts.most} calls{self._last_fault()}",
                    hint="look at why calls fail; throttle.attempts sets how many a run may make",
                )
            )
        return found is not None

    def _last_fault(self) -> str:
        """What came of the last call of this process that failed, to be said behind a comma."""
        return f", and the last that failed met {MEANT[self._fault]}" if self._fault else ""

    def _again(self, now: float, shortage: OSError | None = None) -> None:
        """Another process has the lock, or this one has too little of something, which calls that end may free: come back in some
        milliseconds, but not for ever.
        """
        if shortage is not None and not self._stuck:
            self.tell(f"calls wait, as the shared limit cannot be used: {shortage.strerror}")
        self._stuck = self._stuck or now
        if now > self._stuck + PATIENCE:
            self._stuck = 0.0
            self._fail(_stuck_for_long(shortage))
            return
        self._ask((_RETRY if shortage is None else _SHORT) * (0.25 + self.random()))

    def _fail(self, error: FleetError) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                self._queued -= 1
                future.set_exception(error)
        self._is_known = False


def _stuck_for_long(shortage: OSError | None) -> FleetError:
    if shortage is not None:
        return from_os_error(shortage, f"cannot use the shared limit for {PATIENCE:.0f} s")
    return FleetError(
        "busy",
        f"another process has held the shared limit for {PATIENCE:.0f} s",
        hint="look for a stopped fleet process",
    )
