"""One agent: a conversation with a model, its tools, and the ceilings that it works under.

Every call asks the throttle and then the budget, and tells both afterwards. At a ceiling the agent is suspended, in the middle
of a stream if it must be: what it has written until then is kept.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from agent_fleet.agents.allowance import Allowance, Exhausted
from agent_fleet.agents.dialect import (
    Answer,
    Call,
    Dialect,
    Ending,
    Fault,
    Hearing,
    Message,
    Prompt,
    Request,
    Said,
    Tool,
)
from agent_fleet.agents.permits import Throttle, Throttles
from agent_fleet.agents.till import Broke, Drawer, Stake
from agent_fleet.errors import FleetError
from agent_fleet.model import Usage

Kind = Literal["done", "suspended", "broke", "limit", "overload", "auth", "unable", "refused", "failed"]

_GO_ON = "Your answer was cut at its length. Go on exactly where it ended, without a word about that."
_LONGEST_WAIT = 60.0  # seconds; a server that wants a longer one is left alone by all of us


class Line(Protocol):
    """What carries a request to the model; see `wire.Wire`."""

    @property
    def dialect(self) -> Dialect: ...

    async def ask(self, request: Request, hearing: Hearing, watch: Callable[[int], None]) -> None: ...


class Kit(Protocol):
    """The tools of one agent."""

    @property
    def tools(self) -> tuple[Tool, ...]: ...

    async def call(self, call: Call) -> Answer:
        """Do what was asked. A fault is an answer too."""
        ...


class NoTools:
    """An agent without tools: it has its prompt alone."""

    tools: tuple[Tool, ...] = ()

    async def call(self, call: Call) -> Answer:
        return Answer(call=call.id, text=f"there is no tool {call.name}", is_error=True)


class Means(NamedTuple):
    """What all agents of one process share. `retries` is how often one call is tried again; `backoff` is in seconds."""

    line: Line
    throttles: Throttles
    till: Drawer
    max_output: int = 4096
    retries: int = 4
    backoff: float = 1.0


@dataclass(slots=True, kw_only=True)
class End:
    """How an agent ended. `text` is all that it has written, `cost` what its calls cost as far as that was counted."""

    kind: Kind
    reason: str = ""
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    session: str = ""
    cost: float = 0.0
    after: float | None = None


class Agent:
    """One conversation. `advise` looks at all that was written and gives what to tell the model, empty if it may end; `told`
    hears what was used so far before the conversation goes on.
    """

    def __init__(
        self,
        means: Means,
        allowance: Allowance,
        *,
        model: str,
        system: str,
        kit: Kit,
        advise: Callable[[str], str] = lambda _: "",
        told: Callable[[Usage], None] = lambda _: None,
    ) -> None:
        self._means = means
        self._allowance = allowance
        self._model = model
        self._throttle: Throttle = means.throttles.of(model)
        self._first = 0.0  # when the first byte of the present answer came
        self._system = system
        self._kit = kit
        self._advise = advise
        self._told = told
        self._texts: list[str] = []
        self._broken = ""  # what came of a message that was never whole
        self._session = ""
        self.cost = 0.0
        self.is_waiting = False  # for its turn to make a call

    @property
    def usage(self) -> Usage:
        """What it has used so far."""
        return self._allowance.used

    @property
    def text(self) -> str:
        """All that it has written so far."""
        return "".join((*self._texts, self._broken))

    async def work(self, prompt: str) -> End:
        """Go on until the model is done, or something ends it."""
        messages: list[Message] = [prompt]
        try:
            while True:
                said = await self._say(tuple(messages))
                messages.append(said)
                self._session = said.id or self._session
                more = await self._next(said)
                if isinstance(more, End):
                    return more
                self._told(self.usage)
                messages.append(more)
        except Exhausted as ceiling:
            return self._end("suspended", str(ceiling))
        except Broke as ceiling:
            return self._end("broke", str(ceiling))
        except Fault as fault:
            end = self._end(fault.kind, fault.reason)
            end.after = fault.after
            return end
        except FleetError as error:
            kind: Kind = {"busy": "limit", "refused": "broke"}.get(error.code, "unable")  # type: ignore[assignment]
            return self._end(kind, error.message)

    async def _next(self, said: Said) -> End | Message:
        """What comes after a message of the model: its end, or what it is told."""
        if said.calls:
            return tuple([await self._kit.call(call) for call in said.calls])
        if said.stop == "refused":
            return self._end("refused", "the model refused")
        if said.stop == "length":
            return _GO_ON
        advice = self._advise(self.text)
        if not advice:
            return self._end("done")
        self._texts.append("\n")
        return advice

    def _end(self, kind: Kind, reason: str = "") -> End:
        return End(kind=kind, reason=reason, text=self.text, usage=self.usage, session=self._session, cost=self.cost)

    async def _say(self, messages: tuple[Message, ...]) -> Said:
        """The model's next message, tried again where that may help. Raises Fault, Exhausted, Broke."""
        prompt = Prompt(model=self._model, system=self._system, messages=messages, tools=self._kit.tools)
        for attempt in range(self._means.retries + 1):
            try:
                return await self._once(prompt)
            except Fault as fault:
                wait = fault.after or 0.0
                if not fault.again or attempt == self._means.retries or wait > _LONGEST_WAIT:
                    raise
                # full jitter: those who failed together do not come back together
                wait += random.uniform(0, min(30.0, self._means.backoff * 2**attempt))  # noqa: S311 - no secret
            await asyncio.sleep(wait)
        raise AssertionError

    async def _once(self, prompt: Prompt) -> Said:
        means = self._means
        prompt = replace(prompt, max_output=means.max_output)
        request = means.line.dialect.request(prompt)
        size = len(request.body)
        self._allowance.admit(size, means.max_output)  # before a place in the line is taken
        self.is_waiting = True
        try:
            permit = await self._throttle.acquire()
        finally:
            self.is_waiting = False
        ending: Ending = "cancelled"
        after, tokens, began, self._first = None, 0, time.monotonic(), 0.0
        try:
            sent, back = self._allowance.admit(size, means.max_output)
            stake = await means.till.stake(sent, back, self._model)
            if back != prompt.max_output:
                request = means.line.dialect.request(replace(prompt, max_output=back))
            began = time.monotonic()
            said = await self._hear(request, means.line.dialect.hearing(), stake)
            ending, tokens = "ok", said.usage.tokens
            return said
        except Fault as fault:
            ending, after = fault.ending, fault.after
            raise
        finally:
            latency = self._first - began if self._first else None
            self._throttle.release(permit, ending, latency=latency, retry_after=after, tokens=tokens)

    async def _hear(self, request: Request, hearing: Hearing, stake: Stake) -> Said:
        """One call, accounted for however it ends."""
        size = len(request.body)
        written = 0
        used: Usage | None = None

        def watch(more: int) -> None:
            nonlocal written
            self._first = self._first or time.monotonic()
            written += more
            self._allowance.watch(hearing.usage, written, size)

        try:
            await self._means.line.ask(request, hearing, watch)
            said = hearing.said()
            used = said.usage
            if not used.tokens:  # a server that reports nothing has not given it for nothing
                used = self._allowance.cut(hearing.usage, max(1, written), size)
            self._texts.append(said.text)
            self._broken = ""
        except BaseException:
            self._broken = hearing.text
            raise
        finally:
            if used is None:
                used = self._allowance.cut(hearing.usage, written, size)
            if used.tokens:
                used = replace(used, turns=1, models=(self._model,), money=None)
                self._allowance.close(used, size)
            self.cost += self._means.till.settle(stake, used, self._model)
        return said
