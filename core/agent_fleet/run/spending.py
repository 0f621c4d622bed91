"""Budgets while work is done: what each running attempt uses, what its task, its run and this day have used before it.

Of an agent's own program fleet sees only what it says, after it was paid for. So the most that an attempt may cost is set aside
before it starts, where all processes see it, and an attempt that outgrows that is ended. Fleet's own agents do so for each call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from agent_fleet import budget, prices
from agent_fleet.agents.dialect import Speaks
from agent_fleet.budget import Breach, Limits, Spent
from agent_fleet.config import Config, usual_model
from agent_fleet.ledger import Tally, spent_on
from agent_fleet.model import Task, Usage
from agent_fleet.plan import SHELL
from agent_fleet.plugins import Offer
from agent_fleet.prices import NOTHING, Meter, Money, Table, cost_of, total
from agent_fleet.protocols import Provider
from agent_fleet.queue.store import Queue
from agent_fleet.run.holdings import EVERYTHING, Holding
from agent_fleet.run.stakes import Ask, Reply, Stakes


class Purse:
    """What one attempt may use, and uses: `past` is what earlier attempts at its task have used."""

    def __init__(self, limits: Limits, past: Tally, table: Table, deployment: str = "") -> None:
        self.limits = limits
        self.past = past
        self.deployment = deployment
        self._meter = Meter(table)

    @property
    def money(self) -> Money:
        return self._meter.money

    def feed(self, usage: Usage) -> None:
        """Take the attempt's total so far."""
        self._meter.feed(usage, time.time())

    def spent(self, run: Money, deployment: Money, day: Money) -> Spent:
        """What the task has used by now, with the sums of the run, the deployment and the day around it.

        Time is that of earlier attempts alone: the keeper holds this one to what is left, and two clocks would race.
        """
        return Spent(
            tokens=self.past.usage.tokens + self._meter.usage.tokens,
            money=total((self.past.money, self._meter.money)),
            turns=self.past.usage.turns + self._meter.usage.turns,
            seconds=self.past.seconds,
            run_money=run,
            deployment_money=deployment,
            day_money=day,
        )


class Advance(NamedTuple):
    """What is set aside for one attempt: under which name, and how much (US dollars)."""

    name: str
    deployment: str
    amount: float


class Spending:
    """The purses of a run, and what the run and the day have spent beside them.

    A purse stays open until its attempt is settled, so that nothing is missing between the last event and the journal.
    """

    def __init__(
        self, queue: Queue, config: Config, run: str, *, owner: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self.table = prices.with_own(prices.packaged(), config.prices)
        self._queue = queue
        self._config = config
        self._run = run
        self._owner = owner
        self._clock = clock
        self._purses: dict[str, Purse] = {}
        self._advances: dict[str, Advance] = {}
        self._short: Ask | None = None
        self._defaults = Limits(
            tokens=config.get("budget.task_tokens") or None,
            money=config.get("budget.task_money") or None,
            turns=config.get("budget.task_turns") or None,
            run_money=config.get("budget.run_money") or None,
            day_money=config.get("budget.day_money") or None,
            unknown_price=config.get("budget.unknown_price"),
        )
        self._stakes = Stakes(queue, self.table, self._defaults, run, clock=clock)

    # ------------------------------------------------------------------------------------------------- before a start

    def advance(self, name: str, task: Task, generation: int, provider: Offer[Provider]) -> Reply:
        """Set aside what an attempt may cost at most, by its tokens and its model's dearest price; one of which that cannot be said
        gets all that is left, and works alone. `name` is any that no other has. Raises FleetError, OSError.
        """
        mine = self._holding(task.run, task=task.id, generation=generation)
        model = task.model or usual_model(self._config, provider.name)
        return self._advance(name, mine, provider, lambda: self._most(task, model))

    def advance_crew(self, name: str, deployment: str, provider: Offer[Provider]) -> Reply:
        """The same for a session that works many tasks: nobody can say what it may cost."""
        return self._advance(name, self._holding(deployment), provider, lambda: EVERYTHING)

    def call_off(self, name: str) -> None:
        """What an advance was for was not started."""
        advance = self._advances.pop(name, None)
        if advance is not None:
            self._stakes.exchange([Ask(name, self._holding(advance.deployment))])

    def waits(self) -> str:
        """Why nothing can be started until others leave some of the money; empty once what was refused last would be granted."""
        if self._short is None:
            return ""
        reply = self._stakes.would(self._short._replace(holding=self._holding(self._short.holding.deployment)))
        if reply.waits:
            return reply.why
        self._short = None
        return ""

    def _advance(self, name: str, mine: Holding, provider: Offer[Provider], most: Callable[[], float]) -> Reply:
        """Nothing is set aside for what sets each of its calls aside by itself, or has no money to spend."""
        counts_itself = provider.name == SHELL or isinstance(provider.thing, Speaks)
        if counts_itself or not self._stakes.is_bounded(mine.deployment):
            return Reply((0.0,))
        ask = Ask(name, mine, (most(),), alone=True)
        (reply,) = self._stakes.exchange([ask])
        self._short = ask if reply.waits else None
        if reply.granted:
            self._advances[name] = Advance(name, mine.deployment, reply.granted[0])
        return reply

    def _most(self, task: Task, model: str) -> float:
        """The most that one attempt can cost, in US dollars."""
        limits = budget.limits(task.budget, self._defaults)
        past = spent_on(self._queue, self.table, task.id)
        found = [EVERYTHING if limits.money is None else max(0.0, limits.money - past.money.known)]
        if limits.tokens is not None and model:
            left = max(0, limits.tokens - past.usage.tokens)
            classes = (Usage(input=left), Usage(output=left), Usage(cache_write=left), Usage(cache_read=left))
            amounts = [cost_of(each, self.table, models=(model,), at=self._clock()).amount for each in classes]
            known = [amount for amount in amounts if amount is not None]
            found += [max(known)] if len(known) == len(classes) else []
        return min(found)

    def _holding(self, deployment: str, **more: str | int) -> Holding:
        about = {"owner": self._owner, "run": self._run, "deployment": deployment}
        return Holding(kind="attempt", **about, **more)  # type: ignore[arg-type]  # its fields

    # --------------------------------------------------------------------------------------------------- while it runs

    def open(self, attempt: str, task: Task, advance: str = "") -> Purse:
        """The purse of an attempt that begins, and what was set aside for it."""
        past = spent_on(self._queue, self.table, task.id)
        limits = budget.limits(task.budget, self._limits(task.run))
        purse = self._purses[attempt] = Purse(limits, past, self.table, task.run)
        self._bind(attempt, advance)
        return purse

    def open_crew(self, attempt: str, deployment: str = "", advance: str = "") -> Purse:
        """The purse of a session that works many tasks: what it uses counts for the run and the day, and for no task."""
        purse = self._purses[attempt] = Purse(self._of_all(deployment), Tally(), self.table, deployment)
        if advance in self._advances:
            self._bind(attempt, advance)
            self._tell(attempt, worker=attempt)
        return purse

    def purse(self, attempt: str) -> Purse | None:
        """The purse of an attempt that is not settled yet."""
        return self._purses.get(attempt)

    def close(self, attempt: str) -> None:
        """The attempt is settled: what it used is in the journal now, which ends what was set aside for it."""
        purse = self._purses.pop(attempt, None)
        self._advances.pop(attempt, None)
        self._stakes.refresh(purse.deployment if purse else "")

    def breach(self, attempt: str) -> Breach | None:
        """The limit that a running attempt has passed, if any."""
        purse = self._purses.get(attempt)
        if purse is None:
            return None
        return budget.check(purse.limits, purse.spent(*self._sums(purse.deployment)))

    def overdrawn(self, attempt: str) -> str:
        """Why an attempt has to end that has cost more than was set aside for it, as there is no more; empty if it may go on."""
        purse, advance = self._purses.get(attempt), self._advances.get(attempt)
        if purse is None or advance is None or purse.money.known <= advance.amount:
            return ""
        more = purse.money.known - advance.amount
        reply = self._tell(attempt, more)
        if not reply.granted:
            return reply.why
        self._advances[attempt] = advance._replace(amount=advance.amount + more)
        return ""

    def _bind(self, attempt: str, name: str) -> None:
        found = self._advances.pop(name, None)
        if found is not None:
            self._advances[attempt] = found

    def _tell(self, attempt: str, more: float = 0.0, *, worker: str = "") -> Reply:
        """Say what an attempt has set aside, and ask for more of it."""
        advance = self._advances[attempt]
        about = {"worker": worker} if worker else _attempt_of(advance.name)
        mine = self._holding(advance.deployment, **about)
        mine.staked = advance.amount
        (reply,) = self._stakes.exchange([Ask(advance.name, mine, (more,) if more else ())])
        return reply

    # ------------------------------------------------------------------------------------------------------- the sums

    def refusal(self, task: Task | None, deployment: str = "") -> Breach | None:
        """Why this task (None: why nothing at all, or nothing of a deployment) may not start: the limit that is used up already."""
        name = task.run if task else deployment
        self._stakes.refresh(name)
        run, job, day = self._sums(name)
        if task is None:
            return budget.admit(self._of_all(name), Spent(run_money=run, deployment_money=job, day_money=day))
        limits = budget.limits(task.budget, self._limits(name))
        past = spent_on(self._queue, self.table, task.id)
        return budget.admit(limits, Purse(limits, past, self.table).spent(run, job, day))

    def _limits(self, deployment: str) -> Limits:
        return replace(self._defaults, deployment_money=self._stakes.money_of(deployment))

    def _of_all(self, deployment: str) -> Limits:
        """The limits that hold for all tasks together."""
        return replace(self._limits(deployment), tokens=None, money=None, turns=None)

    def _sums(self, deployment: str) -> tuple[Money, Money, Money]:
        """What the run, the deployment and the day have cost by what is on record and by what runs here."""
        live = [purse.money for purse in self._purses.values()]
        own = [purse.money for purse in self._purses.values() if purse.deployment == deployment]
        account = self._stakes.account(deployment)
        return (
            total((self._stakes.run.money, *live)),
            total((account.run.money, *own)) if account else NOTHING,
            total((self._stakes.day.money, *live)),
        )


def _attempt_of(name: str) -> dict[str, str | int]:
    """The attempt that an advance of this name is for; nothing for a session's."""
    task, mark, generation = name.partition(".g")
    return {"task": task, "generation": int(generation)} if mark else {}
