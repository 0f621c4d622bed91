"""What a deployment would cost and take, as a band with its basis: what was measured here, else assumptions, shown. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent_fleet.ledger import Entry
from agent_fleet.model import Usage
from agent_fleet.prices import Table, cost_of

ENOUGH = 5  # attempts of the same kind of agent that make a measurement

_BYTES = 3.6  # of English prose and code in one token, roughly
_RULES = (
    3_000.0,
    15_000.0,
    60_000.0,
)  # tokens that one agent reads whatever its items are: its program's and our own rules
_ITEM = (500.0, 4_000.0, 25_000.0)  # tokens that one item takes beside its own text
_ANSWER = 0.1  # of all tokens are written by the model
_SECONDS = (5.0, 20.0, 120.0)  # that one item takes
_RUN = (0.5, 3.0, 30.0)  # that a run takes to begin and to end, on an idle machine and on a busy one


class Band(NamedTuple):
    """A figure between the least and the most that one should reckon with; None: unknown."""

    low: float | None
    likely: float | None
    high: float | None


class Estimate(NamedTuple):
    """For the whole deployment: tokens of every class, US dollars, seconds from start to end; and what that rests on."""

    tokens: Band
    money: Band
    seconds: Band
    basis: tuple[str, ...]


class Size(NamedTuple):
    """What is to be estimated: for each part its items and the bytes that it is told, how many agents work at once, and `between`,
    the seconds from one start to the next.
    """

    parts: Sequence[tuple[int, int]]
    agents: int
    tokens: int
    redispatch: int
    model: str
    between: float = 0.0


def estimate(size: Size, before: Iterable[Entry], table: Table) -> Estimate:
    """The band. `before` are attempts of the same provider (and model, if one is chosen) that are on record here."""
    known = [entry for entry in before if entry.usage is not None and entry.seconds is not None]
    if len(known) >= ENOUGH:
        return _measured(size, known, table)
    return _assumed(size, table)


def _measured(size: Size, known: Sequence[Entry], table: Table) -> Estimate:
    """By what such agents used before: the tenth part that used least, the mean, the tenth part that used most."""
    count = len(size.parts)
    tokens = _spread([float(entry.usage.tokens) for entry in known if entry.usage])
    amounts = [entry.money.amount for entry in known]
    priced = [amount for amount in amounts if amount is not None]
    money = _times(_spread(priced), count) if len(priced) == len(known) else Band(None, None, None)
    seconds = _spread([entry.seconds or 0.0 for entry in known])
    basis = [f"measured: {len(known)} attempts of this kind of agent in this project, whatever they worked on"]
    basis += [] if money.likely is not None else ["money: some of them have no known price"]
    return Estimate(
        _capped(_times(tokens, count), size),
        money,
        _whole(_times(seconds, _waves(size)), size),
        (*basis, f"prices of {table.date}"),
    )


def _assumed(size: Size, table: Table) -> Estimate:
    tokens = Band(*(sum(_part(items, told, level) for items, told in size.parts) for level in range(3)))
    capped = _capped(tokens, size)
    money = Band(*(_price(amount, size.model, table) for amount in capped))
    most = max((items for items, _ in size.parts), default=0)
    seconds = Band(*(_waves(size) * most * each for each in _SECONDS))
    basis = [
        f"assumed: {_ITEM[0]:g} to {_ITEM[2]:g} tokens an item and {_RULES[0]:g} to {_RULES[2]:g} an agent beside the text,"
        f" {_SECONDS[0]:g} to {_SECONDS[2]:g} s an item, as fewer than {ENOUGH} attempts of this kind are on record here"
    ]
    if money.likely is None:
        basis.append(f"money: {'no price is known for ' + size.model if size.model else 'the model is not known'}")
    return Estimate(capped, money, _whole(seconds, size), (*basis, f"prices of {table.date}"))


def _part(items: int, told: int, level: int) -> float:
    return _RULES[level] + told / _BYTES + items * _ITEM[level]


def _capped(tokens: Band, size: Size) -> Band:
    """No agent uses more than its limit, and what it leaves is given out again only so often."""
    if not size.tokens:
        return tokens
    most = float(size.tokens * len(size.parts))
    again = most * (1 + size.redispatch)
    low, likely, high = tokens
    return Band(low and min(low, most), likely and min(likely, again), high and min(high, again))


def _price(tokens: float | None, model: str, table: Table) -> float | None:
    if tokens is None or not model:
        return None
    written = int(tokens * _ANSWER)
    return cost_of(Usage(input=int(tokens) - written, output=written, models=(model,)), table).amount


def _whole(working: Band, size: Size) -> Band:
    """From its start to its end: the first agents start one after the other."""
    starts = size.between * max(0, min(len(size.parts), size.agents) - 1)
    return Band(*(None if each is None else each + starts + run for each, run in zip(working, _RUN, strict=True)))


def _waves(size: Size) -> int:
    return math.ceil(len(size.parts) / max(1, size.agents))


def _spread(values: Sequence[float]) -> Band:
    """The tenth percentile, the mean and the ninetieth."""
    if not values:
        return Band(None, None, None)
    row = sorted(values)
    last = len(row) - 1
    return Band(row[math.floor(last * 0.1)], sum(row) / len(row), row[math.ceil(last * 0.9)])


def _times(band: Band, factor: int) -> Band:
    return Band(*(None if each is None else each * factor for each in band))
