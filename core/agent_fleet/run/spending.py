"""Budgets while work is done: what each running attempt uses, what its task, its run and this day have used before it."""

from __future__ import annotations

import time

from agent_fleet import budget, prices
from agent_fleet.budget import Breach, Limits, Spent
from agent_fleet.config import Config
from agent_fleet.ledger import Account, Tally, spent_on
from agent_fleet.model import Budget, Task, Usage
from agent_fleet.prices import Meter, Money, Table, total
from agent_fleet.queue.store import Queue


class Purse:
    """What one attempt may use, and uses: `past` is what earlier attempts at its task have used."""

    def __init__(self, limits: Limits, past: Tally, table: Table) -> None:
        self.limits = limits
        self.past = past
        self._meter = Meter(table)

    @property
    def money(self) -> Money:
        return self._meter.money

    def feed(self, usage: Usage) -> None:
        """Take the attempt's total so far."""
        self._meter.feed(usage, time.time())

    def spent(self, run: Money, day: Money) -> Spent:
        """What the task has used by now, with the sums of the run and the day around it.

        Time is that of earlier attempts alone: the keeper holds this one to what is left, and two clocks would race.
        """
        return Spent(
            tokens=self.past.usage.tokens + self._meter.usage.tokens,
            money=total((self.past.money, self._meter.money)),
            turns=self.past.usage.turns + self._meter.usage.turns,
            seconds=self.past.seconds,
            run_money=run,
            day_money=day,
        )


class Spending:
    """The purses of a run, and what the run and the day have spent beside them.

    A purse stays open until its attempt is settled, so that nothing is missing between the last event and the journal.
    """

    def __init__(self, queue: Queue, config: Config, run: str) -> None:
        self.table = prices.with_own(prices.packaged(), config.prices)
        self._queue = queue
        self._account = Account(queue, self.table, run)
        self._purses: dict[str, Purse] = {}
        self._defaults = Limits(
            tokens=config.get("budget.task_tokens") or None,
            money=config.get("budget.task_money") or None,
            turns=config.get("budget.task_turns") or None,
            run_money=config.get("budget.run_money") or None,
            day_money=config.get("budget.day_money") or None,
            unknown_price=config.get("budget.unknown_price"),
        )

    def open(self, attempt: str, task: Task) -> Purse:
        """The purse of an attempt that begins."""
        past = spent_on(self._queue, self.table, task.id)
        purse = Purse(budget.limits(task.budget, self._defaults), past, self.table)
        self._purses[attempt] = purse
        return purse

    def open_crew(self, attempt: str) -> Purse:
        """The purse of a session that works many tasks: what it uses counts for the run and the day, and for no task."""
        limits = self._of_all()
        purse = self._purses[attempt] = Purse(limits, Tally(), self.table)
        return purse

    def purse(self, attempt: str) -> Purse | None:
        """The purse of an attempt that is not settled yet."""
        return self._purses.get(attempt)

    def close(self, attempt: str) -> None:
        """The attempt is settled: what it used is in the journal now."""
        self._purses.pop(attempt, None)
        self._account.refresh(time.time())

    def breach(self, attempt: str) -> Breach | None:
        """The limit that a running attempt has passed, if any."""
        purse = self._purses.get(attempt)
        if purse is None:
            return None
        run, day = self._sums()
        return budget.check(purse.limits, purse.spent(run, day))

    def refusal(self, task: Task | None) -> Breach | None:
        """Why this task (None: why nothing at all) may not start: the limit that is used up already."""
        self._account.refresh(time.time())
        run, day = self._sums()
        if task is None:
            return budget.admit(self._of_all(), Spent(run_money=run, day_money=day))
        limits = budget.limits(task.budget, self._defaults)
        return budget.admit(
            limits, Purse(limits, spent_on(self._queue, self.table, task.id), self.table).spent(run, day)
        )

    def _of_all(self) -> Limits:
        """The limits that hold for all tasks together."""
        limits = budget.limits(Budget(), self._defaults)
        return Limits(run_money=limits.run_money, day_money=limits.day_money, unknown_price=limits.unknown_price)

    def _sums(self) -> tuple[Money, Money]:
        live = [purse.money for purse in self._purses.values()]
        return total((self._account.run.money, *live)), total((self._account.day.money, *live))
