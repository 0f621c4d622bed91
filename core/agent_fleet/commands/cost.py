"""`fleet cost`: what was used and what it cost, with where each amount comes from."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import click

from agent_fleet import prices
from agent_fleet.budget import dollars
from agent_fleet.commands import Shared, command
from agent_fleet.deploy.orders import is_id
from agent_fleet.errors import FleetError
from agent_fleet.ledger import Entry, Tally, day_of, entries
from agent_fleet.prices import Money, Table
from agent_fleet.queue.store import Queue
from agent_fleet.text import count, line

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
_KEYS: Mapping[str, Callable[[Entry], str]] = {
    "task": lambda entry: entry.task,
    "run": lambda entry: entry.run or "no run",
    "provider": lambda entry: entry.provider or "unknown",
    "model": lambda entry: " + ".join(entry.models) or "unknown",
    "day": lambda entry: day_of(entry.at),
}
_HEAD = ("attempts", "input", "cache write", "cache read", "output", "reasoning", "turns", "money")


class Cost(NamedTuple):
    """What the command found: sums by the chosen key, and over all of it."""

    by: str
    rows: dict[str, Tally]
    whole: Tally
    table: Table
    since: float | None
    run: str | None
    running: int


@command(
    "cost", help="Show what was used and what it cost: tokens of every class, money and where its figure comes from."
)
@click.option("--run", metavar="RUN", help="Only the attempts of this run or deployment.")
@click.option(
    "--since", metavar="WHEN", help="Only what was settled since: 90m, 24h, 7d, or a date such as 2026-11-30."
)
@click.option(
    "--by", type=click.Choice(list(_KEYS)), default="provider", show_default=True, help="What each row sums up."
)
def command_line(shared: Shared, run: str | None, since: str | None, by: str) -> None:
    """Attempts that were not charged are in the figures too; what has no known price is shown as unknown."""
    start = None if since is None else since_time(since, time.time())
    table = price_table(shared)
    found = _cost(shared.queue, table, by=by, run=run, since=start)
    shared.emit(payload(found), lambda: human(found))


def price_table(shared: Shared) -> Table:
    """The packaged prices under those of the configuration."""
    return prices.with_own(prices.packaged(), shared.config.prices)


def since_time(text: str, now: float) -> float:
    """The time (seconds) that `24h` ago or a date's first moment in this machine's time zone is. Raises `bad_input`."""
    span = re.fullmatch(r"([0-9]{1,6})([mhdw])", text.strip())
    if span:
        return now - int(span[1]) * _UNITS[span[2]]
    try:
        return time.mktime(time.strptime(text.strip(), "%Y-%m-%d"))
    except (ValueError, OverflowError):
        raise FleetError(
            "bad_input", f"--since {text!r} is no time", hint="write 90m, 24h, 7d, 2w, or a date such as 2026-11-30"
        ) from None


def _cost(queue: Queue, table: Table, *, by: str, run: str | None, since: float | None) -> Cost:
    rows: dict[str, Tally] = {}
    whole = Tally()
    key = _KEYS[by]
    is_known = run is None or run in queue.listing("deployments" if is_id(run) else "runs")
    is_wanted = _of_run(queue, run)
    for entry in entries(queue, table):
        if not is_wanted(entry):
            continue
        is_known = True
        if since is not None and entry.at < since:
            continue
        rows.setdefault(key(entry), Tally()).add(entry)
        whole.add(entry)
    if not is_known:
        what = "deployment" if is_id(run or "") else "run"
        raise FleetError("not_found", f"there is no {what} {run!r}", hint="`fleet runs` lists them")
    return Cost(by, dict(sorted(rows.items(), key=_order)), whole, table, since, run, len(queue.active()))


def _of_run(queue: Queue, run: str | None) -> Callable[[Entry], bool]:
    """Whether an attempt belongs to this run or deployment; None: to any."""
    if run is None:
        return lambda _: True
    if not is_id(run):
        return lambda entry: entry.run == run
    from agent_fleet.deploy.belonging import Belonging

    return Belonging(queue, run)


def _order(row: tuple[str, Tally]) -> tuple[Any, ...]:
    """By name, and by number where the names end in one: t2 before t10."""
    digits = re.search(r"\d+$", row[0])
    return (row[0][: digits.start()], int(digits[0])) if digits else (row[0], -1)


def payload(found: Cost) -> dict[str, Any]:
    """The answer for programs: money in US dollars, an unknown amount is null."""
    return {
        "by": found.by,
        "run": found.run,
        "since": found.since,
        "rows": [{"key": key, **_row(sums)} for key, sums in found.rows.items()],
        "total": _row(found.whole),
        "prices": {"date": found.table.date, "source": found.table.source},
        "zone": time.strftime("%z"),
        "running": found.running,
    }


def _row(sums: Tally) -> dict[str, Any]:
    used, money = sums.usage, sums.money
    return {
        "attempts": sums.attempts,
        "beside": sums.beside,
        "not_charged": sums.uncharged,
        "partial": sums.partial,
        "silent": sums.silent,
        "tokens": {
            "input": used.input,
            "cache_write": used.cache_write,
            "cache_read": used.cache_read,
            "output": used.output,
            "reasoning": used.reasoning,
            "total": used.tokens,
        },
        "turns": used.turns,
        "models": list(used.models),
        "money": {"amount": _amount(sums), **money.as_record()},
    }


def _amount(sums: Tally) -> float | None:
    """Unknown where nothing was reported at all: that is not the same as nothing spent."""
    return None if sums.is_unknown else sums.money.amount


def human(found: Cost) -> str:
    """The answer for people: a table, the total, and what the figures mean."""
    if not found.whole.attempts and not found.whole.beside:
        return "\n".join(["nothing was spent that is on record", *_notes(found)])
    rows: list[tuple[str, ...]] = [(found.by, *_HEAD)]
    rows += [(line(key, 60), *_cells(sums)) for key, sums in found.rows.items()]
    rows.append(("total", *_cells(found.whole)))
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join([*lines, "", *_notes(found)])


def _cells(sums: Tally) -> tuple[str, ...]:
    used = sums.usage
    counts = (used.input, used.cache_write, used.cache_read, used.output, used.reasoning, used.turns)
    if sums.is_unknown:
        return (str(sums.attempts), *("unknown" for _ in counts), "unknown")
    mark = "+" if sums.partial or sums.silent else ""
    return (str(sums.attempts), *(f"{count:,}{mark}" for count in counts), money_text(sums.money) + mark)


def money_text(money: Money) -> str:
    """An amount for people: exact, between two bounds, or unknown with what is known of it."""
    known = dollars(money.known)
    if money.least < money.known and dollars(money.least) != known:
        known = f"{dollars(money.least)} to {known}"
    if not money.unknown:
        return known
    return f"unknown beyond {known}" if money.known else "unknown"


def _notes(found: Cost) -> Iterator[str]:
    whole = found.whole
    if whole.money.bases:
        yield f"money: {'; '.join(whole.money.bases)}"
    yield f"prices: table of {found.table.date} ({found.table.source}), US dollars, list prices"
    for reason in whole.money.unknown:
        yield f'unknown: {reason}; a [prices."MODEL"] table in the configuration can give one'
    if whole.money.least < whole.money.known:
        yield "a range: the price depends on what was not reported (length of each prompt, life of the cache, share of each model)"
    if whole.beside:
        what = f"{whole.beside:,} {'session or question' if whole.beside == 1 else 'sessions and questions'}"
        yield f"{what} beside the attempts: of many tasks, of planning or of comparing answers, and in the figures"
    if whole.partial:
        yield f"+ partial: {_attempts(whole.partial)} ended before all that they used was reported"
    if whole.silent:
        yield f"+ not counted: {_attempts(whole.silent)} reported no usage (shell commands, or ended before they said anything)"
    if whole.uncharged:
        yield f"{_attempts(whole.uncharged)} charged to no task (a limit, a stop), and in the figures all the same"
    if found.running:
        yield f"being worked on: {count(found.running, 'task')}, whose attempts are counted when they end"
    if found.by == "day" or found.since is not None:
        yield f"times are those of this machine's zone, UTC{time.strftime('%z')}; an attempt belongs to the day on which it ended"


def _attempts(number: int) -> str:
    return count(number, "attempt")
