"""What a task, a run and a day may use, and whether that is spent. Pure: the caller says what was used.

A limit is what may be used, so reaching it is no breach, and passing it is. `check` is asked while an attempt runs;
`admit` before one starts, when a limit that is reached leaves nothing to start with. An amount of money that is unknown
is beyond any limit, unless the person has said that it may pass; then its known part counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agent_fleet.model import Budget
from agent_fleet.prices import NOTHING, Money

Kind = Literal[
    "tokens",
    "money",
    "turns",
    "seconds",
    "money of the run",
    "money of the deployment",
    "money of the day",
    "attempts of the run",
]
Unknown = Literal["stop", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that may be used; None is no limit.

    Tokens (of every class), money (US dollars), turns and seconds are those of one task over all of its attempts.
    """

    tokens: int | None = None
    money: float | None = None
    turns: int | None = None
    seconds: float | None = None
    run_money: float | None = None
    deployment_money: float | None = None
    day_money: float | None = None
    run_attempts: int | None = None
    unknown_price: Unknown = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was used so far: by the task in all of its attempts, by the run, by the deployment that the task is of, and in this day
    by the whole project.
    """

    tokens: int = 0
    money: Money = NOTHING
    turns: int = 0
    seconds: float = 0.0
    run_money: Money = NOTHING
    deployment_money: Money = NOTHING
    day_money: Money = NOTHING
    run_attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A limit that is passed (or, before a start, reached): the figure is None where what was used has no known price."""

    kind: Kind
    limit: float
    figure: float | None
    basis: str
    least: float = 0.0

    @property
    def is_of_the_task(self) -> bool:
        """Whether the task has used up its own limit; else the run or the day has, and the task is not at fault."""
        return self.kind in ("money", "tokens", "turns", "seconds")

    @property
    def why(self) -> str:
        """One sentence for a person, without a full stop."""
        if "money" not in self.kind:
            return f"{self.figure:,.6g} {self.kind} used, {self.limit:,.6g} allowed"
        allowed = f"{dollars(self.limit)} allowed"
        if self.figure is None:
            return f"{self.kind}: what was used has no known price ({self.basis}), {allowed}"
        used = dollars(self.figure)
        if self.least < self.figure:
            used = f"between {dollars(self.least)} and {used}"
        return f"{self.kind}: {used} used ({self.basis}), {allowed}"


def limits(task: Budget, defaults: Limits) -> Limits:
    """The limits of one task: its own where it has them, else those that hold for every task."""
    return Limits(
        tokens=task.tokens if task.tokens is not None else defaults.tokens,
        money=task.money if task.money is not None else defaults.money,
        turns=task.turns if task.turns is not None else defaults.turns,
        seconds=task.seconds if task.seconds is not None else defaults.seconds,
        run_money=defaults.run_money,
        deployment_money=defaults.deployment_money,
        day_money=defaults.day_money,
        run_attempts=defaults.run_attempts,
        unknown_price=defaults.unknown_price,
    )


def check(limits: Limits, spent: Spent) -> Breach | None:
    """The first limit that is passed, a task's own before those of the run and of the day."""
    return _first(limits, spent, reached=False)


def admit(limits: Limits, spent: Spent) -> Breach | None:
    """The first limit that is passed or reached, so that nothing more may start under it."""
    return _first(limits, spent, reached=True)


def dollars(amount: float) -> str:
    """An amount of US dollars for people: cents, and two digits more below a dollar."""
    if 0 < amount < 0.0001:
        return "less than $0.0001"
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def _first(limits: Limits, spent: Spent, *, reached: bool) -> Breach | None:
    for kind, limit, used in _pairs(limits, spent):
        if limit is None:
            continue
        figure: float | None
        if isinstance(used, Money):
            figure = used.known if limits.unknown_price == "allow" else used.amount
            basis, least = used.basis, used.least
        else:
            figure, basis, least = used, "counted", used
        if figure is None or figure > limit or (reached and figure >= limit):
            return Breach(kind=kind, limit=limit, figure=figure, basis=basis, least=least)
    return None


def _pairs(limits: Limits, spent: Spent) -> Iterator[tuple[Kind, float | None, float | Money]]:
    yield "money", limits.money, spent.money
    yield "tokens", limits.tokens, spent.tokens
    yield "turns", limits.turns, spent.turns
    yield "seconds", limits.seconds, spent.seconds
    yield "money of the run", limits.run_money, spent.run_money
    yield "money of the deployment", limits.deployment_money, spent.deployment_money
    yield "money of the day", limits.day_money, spent.day_money
    yield "attempts of the run", limits.run_attempts, spent.run_attempts
