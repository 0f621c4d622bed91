"""What tokens cost, in US dollars, by a packaged table of list prices with a date. Pure but for reading that file.

A price is looked up by the model's whole name, never by likeness: a model that is not in the table has no price, and what it
used costs an unknown amount, not nothing. Where the usage does not say all that the price depends on (how long each prompt
was, how long the cache was to live, which of several models took which tokens), the amount is the most that it can be, and
`least` the least. The table is made by `scripts/prices.py`; its rules on tiers and missing classes are those of its source.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agent_fleet.errors import FleetError
from agent_fleet.model import Usage

_MILLION = 1_000_000
_CLASSES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_DATED = re.compile(
    r"[-@]20\d\d(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))$"
)
_LONG_CONTEXT = (
    "[1m]"  # Claude Code's mark for the context window that was chosen; the model, and its price list, are the same
)

REPORTED = "reported by the agent"
CONFIGURED = "prices of the configuration"
SILENT = "no usage was reported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """An amount in US dollars and where it comes from.

    `known` is the most that the priced part can have cost, `least` the least; `unknown` names what could not be priced.
    """

    known: float = 0.0
    least: float = 0.0
    unknown: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()

    @property
    def amount(self) -> float | None:
        """The most that it can have cost; None if a part of it has no known price."""
        return None if self.unknown else self.known

    @property
    def basis(self) -> str:
        """Where the amount comes from, in words."""
        return "; ".join((*self.bases, *self.unknown)) or "nothing was used"

    def as_record(self) -> dict[str, Any]:
        """As it stands in a record and in the journal; `money_from` reads it again."""
        return {"known": self.known, "least": self.least, "unknown": list(self.unknown), "bases": list(self.bases)}


NOTHING = Money()


class Rate(NamedTuple):
    """US dollars per million tokens, for requests whose prompt is longer than `above` tokens."""

    above: int
    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_1h: float


class Period(NamedTuple):
    """The rates from a day on (UTC, `YYYY-MM-DD`; empty: as far back as the source goes)."""

    valid_from: str
    rates: tuple[Rate, ...]


class Price(NamedTuple):
    """The prices of one model, oldest period first. `basis` says where they come from."""

    model: str
    vendor: str
    basis: str
    periods: tuple[Period, ...]

    def rates(self, day: str) -> tuple[Rate, ...]:
        """The rates that held on a day; before the first period, those of the first."""
        held = [period for period in self.periods if period.valid_from <= day]
        return (held[-1] if held else self.periods[0]).rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Prices by model. `date` is the day on which they were fetched, `source` from where."""

    date: str
    source: str
    prices: Mapping[str, Price]
    aliases: Mapping[str, str]
    prefixes: Mapping[str, str]

    def find(self, model: str) -> Price | None:
        """The price of a model by its name, or by a known other spelling: a vendor before it, a date or a window after it."""
        for name, vendor in self._spellings(model.strip().lower()):
            price = self.prices.get(name) or self.prices.get(self.aliases.get(name, ""))
            if price is not None and vendor in ("", price.vendor):
                return price
        return None

    def _spellings(self, name: str) -> Iterator[tuple[str, str]]:
        """Every name that this may be another spelling of, the nearest first, and the vendor that it must then be of."""
        names = [(name, "")]
        if name.endswith(_LONG_CONTEXT):
            names.append((name.removesuffix(_LONG_CONTEXT), ""))
        before, slash, after = names[-1][0].partition("/")
        if slash and before in self.prefixes:
            names.append((after, self.prefixes[before]))
        for each, vendor in names:
            yield each, vendor
        for each, vendor in names:
            yield _DATED.sub("", each), vendor


def packaged() -> Table:
    """The table that comes with this version."""
    with open(os.path.join(os.path.dirname(__file__), "data", "prices.json"), encoding="utf-8") as file:
        return table_from(json.load(file))


def table_from(data: Mapping[str, Any]) -> Table:
    """A table in the format of the packaged file."""
    basis = f"price table of {data['date']}"
    prices = {
        name: Price(
            name,
            row["vendor"],
            basis,
            tuple(
                Period(period["valid_from"] or "", tuple(_rate(rate) for rate in period["rates"]))
                for period in row["periods"]
            ),
        )
        for name, row in data["models"].items()
    }
    aliases = {alias: name for name, row in data["models"].items() for alias in row["aliases"]}
    return Table(
        date=data["date"], source=data["source"], prices=prices, aliases=aliases, prefixes=data.get("prefixes", {})
    )


def with_own(table: Table, own: Mapping[str, Mapping[str, Any]]) -> Table:
    """The table with prices of the person's own, by model: `input` and `output` must be there, the rest costs as input.

    Raises FleetError (`bad_config`) for an amount that is none and for a name that is no class of tokens.
    """
    prices = dict(table.prices)
    for model, row in own.items():
        wrong = _fault(row)
        if wrong:
            raise FleetError(
                "bad_config",
                f'prices."{model}": {wrong}',
                hint=f"write US dollars per million tokens: {', '.join(_CLASSES)}; input and output are needed",
            )
        name = model.strip().lower()
        vendor = prices[name].vendor if name in prices else ""
        prices[name] = Price(name, vendor, CONFIGURED, (Period("", (_rate(row),)),))
    return replace(table, prices=prices)


def cost_of(usage: Usage, table: Table, *, models: Iterable[str] | None = None, at: float | None = None) -> Money:
    """What a usage cost: what the agent itself reported, else by the table's prices of that time (seconds; None: its date).

    `models` are those that took the tokens, the usage's own by default. Reasoning is billed as output.
    """
    if usage.money == 0 and not usage.tokens:
        return NOTHING
    if usage.money is not None:
        return Money(known=usage.money, least=usage.money, bases=(REPORTED,))
    names = tuple(usage.models if models is None else models)
    if not usage.tokens:
        return NOTHING if names or usage.turns else Money(unknown=(SILENT,))
    if not names:
        return Money(unknown=("the model is unknown",))
    found = {name: table.find(name) for name in names}
    unknown = tuple(f"no price is known for the model {name}" for name, price in found.items() if price is None)
    if unknown:
        return Money(unknown=unknown)
    day = table.date if at is None else time.strftime("%Y-%m-%d", time.gmtime(at))
    known = [price for price in found.values() if price is not None]
    rates = [rate for price in known for rate in _possible(price.rates(day), usage)]
    most, least = _amount(usage, rates, max), _amount(usage, rates, min)
    return Money(known=most, least=least, bases=tuple(dict.fromkeys(price.basis for price in known)))


def money_from(value: object) -> Money | None:
    """The money in a record; None if it holds none."""
    if not isinstance(value, dict):
        return None
    known, least = _dollars(value.get("known")), _dollars(value.get("least"))
    unknown, bases = value.get("unknown"), value.get("bases")
    if known is None or least is None or not isinstance(unknown, list) or not isinstance(bases, list):
        return None
    return Money(known=known, least=least, unknown=tuple(map(str, unknown)), bases=tuple(map(str, bases)))


def total(amounts: Iterable[Money]) -> Money:
    """The sum. Its amount is unknown as soon as one of them is; what is known is kept beside that."""
    known = least = 0.0
    unknown: dict[str, None] = {}
    bases: dict[str, None] = {}
    for each in amounts:
        known += each.known
        least += each.least
        unknown.update(dict.fromkeys(each.unknown))
        bases.update(dict.fromkeys(each.bases))
    return Money(known=known, least=least, unknown=tuple(unknown), bases=tuple(bases))


class Meter:
    """The cost of one attempt while it runs, from the totals that its events carry.

    What each event adds is priced by itself, so a long conversation of short requests is not taken for one long request.
    A total that falls, as when an estimate is corrected, takes nothing back.
    """

    def __init__(self, table: Table) -> None:
        self.money = NOTHING
        self.usage = Usage()
        self._table = table

    def feed(self, usage: Usage, at: float) -> Money:
        """Take the attempt's total so far, read at a time (seconds); returns what the attempt has cost by now."""
        added = Usage(
            **{name: max(0, getattr(usage, name) - getattr(self.usage, name)) for name in COUNTS}, models=usage.models
        )
        if usage.money is not None:
            self.money = cost_of(usage, self._table)
        elif added.tokens:
            self.money = total((self.money, cost_of(added, self._table, at=at)))
        highest = {name: max(getattr(usage, name), getattr(self.usage, name)) for name in COUNTS}
        self.usage = replace(usage, **highest)
        return self.money


COUNTS = ("input", "cache_write", "cache_read", "output", "reasoning", "turns")


def _rate(row: Mapping[str, Any]) -> Rate:
    """A rate from its row. Tokens of the cache without a price of their own are billed as input; an hour's, as five minutes'."""
    price = float(row["input"])
    write = float(row.get("cache_write", price))
    return Rate(
        above=int(row.get("above", 0)),
        input=price,
        output=float(row["output"]),
        cache_read=float(row.get("cache_read", price)),
        cache_write=write,
        cache_write_1h=float(row.get("cache_write_1h", write)),
    )


def _dollars(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    return float(value)


def _fault(row: Mapping[str, Any]) -> str:
    for name, value in row.items():
        if name not in _CLASSES:
            return f"there is no class {name}"
        if _dollars(value) is None:
            return f"{name} is {value!r}, wanted a number of US dollars"
    missing = [name for name in ("input", "output") if name not in row]
    return f"{missing[0]} is missing" if missing else ""


def _possible(rates: tuple[Rate, ...], usage: Usage) -> list[Rate]:
    """The rates that some request of this usage can have had: none was longer than all of them together."""
    prompts = usage.input + usage.cache_read + usage.cache_write
    return [rate for rate in rates if rate.above == 0 or prompts > rate.above]


def _amount(usage: Usage, rates: list[Rate], choose: Callable[[Iterable[float]], float]) -> float:
    """The dearest or cheapest (`choose`: max or min) way to bill a usage, class by class."""
    writes = [price for rate in rates for price in (rate.cache_write, rate.cache_write_1h)]
    billed = (
        usage.input * choose(rate.input for rate in rates)
        + (usage.output + usage.reasoning) * choose(rate.output for rate in rates)
        + usage.cache_read * choose(rate.cache_read for rate in rates)
        + usage.cache_write * choose(writes)
    )
    return billed / _MILLION
