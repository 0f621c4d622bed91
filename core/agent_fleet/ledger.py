"""What was spent, from the journal and the records: one entry for each attempt, however often it is told.

The journal says who ran, and what was used when an attempt was settled; an outcome record fills the gap where the journal
has none (its line was lost in a crash), and so does the record of an attempt that had lost its lease: it cost money too.
An entry belongs to the moment at which its attempt was settled; a day is a day in this machine's time zone. The journal is
read once, line by line; kept are one number for each task, and what has started but said nothing of its usage.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agent_fleet import journal
from agent_fleet.model import Usage
from agent_fleet.prices import COUNTS, NOTHING, Money, Table, cost_of, money_from, total
from agent_fleet.queue import names, records
from agent_fleet.queue.store import BadFileError, Queue, read_json

_LATE = ".late.json"
_SESSION = "session "
_QUESTION = "question "
_MOST_LEASES = 100_000  # of one task; a damaged number in the journal must not cost memory

_KEPT = ("run", "provider", "lane", "outcome", "at", "ended", "charged")
_TELLING = re.compile(rb'"(?:started|finished|spent|disbanded|asked)"')

Key = tuple[str, int]
Told = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one attempt used and what that cost.

    A session that worked many tasks is one entry, with its name for the task and no lease; so is a question that was asked in
    planning a deployment or about what it came to, whose name is its run.

    `usage` is None if it reported none; `seconds` and `charged` are None if they are not known; `at` is when it was settled.
    """

    task: str
    generation: int
    run: str
    provider: str
    lane: str
    outcome: str
    usage: Usage | None
    money: Money
    at: float
    seconds: float | None = None
    charged: bool | None = None

    @property
    def models(self) -> tuple[str, ...]:
        return self.usage.models if self.usage else ()

    @property
    def is_beside(self) -> bool:
        """Whether it is no attempt at a task, but of a session or a question."""
        return not self.generation

    @property
    def is_uncharged(self) -> bool:
        """Whether it came to no result and counted as no attempt, as when a limit or a stop ended it."""
        return self.charged is False and self.outcome not in ("done", "blocked")


class Tally:
    """A sum of entries. `silent` counts attempts that reported no usage: what they cost is in no figure here. `beside` counts
    entries that are no attempt at a task: sessions that worked many, and questions to a model.
    """

    def __init__(self) -> None:
        self.attempts = 0
        self.beside = 0
        self.uncharged = 0
        self.partial = 0
        self.silent = 0
        self.seconds = 0.0
        self.usage = Usage()
        self.money = NOTHING

    @property
    def is_unknown(self) -> bool:
        """Whether nobody reported anything, which is not the same as having used nothing."""
        return 0 < self.attempts + self.beside == self.silent

    def add(self, entry: Entry) -> None:
        self.attempts += not entry.is_beside
        self.beside += entry.is_beside
        self.uncharged += entry.is_uncharged
        self.seconds += entry.seconds or 0.0
        if entry.usage is None:
            self.silent += 1
            return
        self.partial += entry.usage.partial
        self.usage = _added(self.usage, entry.usage)
        self.money = total((self.money, entry.money))


class Follower:
    """Reads the journal as it grows: each call of `new` gives the entries that have come since the last one."""

    def __init__(self, queue: Queue, table: Table) -> None:
        self._queue = queue
        self._table = table
        self._running: dict[str, tuple[int, Told]] = {}
        self._silent: dict[Key, Told] = {}
        self._seen: dict[int, int] = {}
        self._sessions: set[str] = set()
        self._offset = 0

    def new(self) -> Iterator[Entry]:
        for end, line in journal.follow(self._queue.journal.path, self._offset):
            self._offset = end
            if not _TELLING.search(line):
                continue
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue  # torn by a crash; `fleet verify` names it
            if isinstance(event, dict):
                yield from self._take(event)

    def from_records(self) -> Iterator[Entry]:
        """The attempts of which only a record tells that they used something."""
        for bucket in sorted(filter(names.is_bucket, self._queue.listing("records"))):
            # the record of a lease comes before one that was set aside for the same lease
            for name in sorted(self._queue.listing("records", bucket), key=lambda name: (name.endswith(_LATE), name)):
                key = names.parse_entry(name.removesuffix(_LATE) + ".json" if name.endswith(_LATE) else name)
                if key is None or not 0 < key[1] < _MOST_LEASES or self.has(key):
                    continue
                try:
                    record = read_json(self._queue.path("records", bucket, name))
                except (BadFileError, FileNotFoundError):
                    continue
                yield from self._if_told(key, record)

    def silent(self) -> Iterator[Entry]:
        """The attempts that have ended, or were lost, and of which nothing tells what they used."""
        for key, told in self._silent.items():
            yield entry_from(key, told, self._table)

    def _take(self, event: Told) -> Iterator[Entry]:
        kind, key = event.get("event"), _key(event)
        if kind == "disbanded":
            yield from self._session(event)
        if kind == "asked" and isinstance(event.get("question"), str):
            yield entry_from((f"{_QUESTION}{event['question']}", 0), event, self._table)
        if key is None or kind not in ("started", "finished", "spent") or self.has(key):
            return
        start = self._running.get(key[0])
        if start is not None and (kind == "started" or start[0] == key[1]):
            # where another one starts, the earlier attempt was lost with its keeper
            self._silent[key[0], start[0]] = self._running.pop(key[0])[1]
        if kind == "started":
            self._running[key[0]] = (key[1], _kept(event))
        else:
            yield from self._if_told(key, event)

    def _session(self, event: Told) -> Iterator[Entry]:
        """The entry of a session that worked many tasks: what it used is known for all of them together."""
        worker = event.get("worker")
        if isinstance(worker, str) and worker and worker not in self._sessions:
            self._sessions.add(worker)
            yield entry_from((f"{_SESSION}{worker}", 0), event, self._table)

    def _if_told(self, key: Key, told: Told) -> Iterator[Entry]:
        """The entry, if a usage is told at last; what was told of the attempt before is kept until then."""
        before = self._silent.get(key)
        entry = entry_from(key, {**before, **told} if before else told, self._table)
        if entry.usage is not None:
            self._silent.pop(key, None)
            number = names.number_of(key[0])
            self._seen[number] = self._seen.get(number, 0) | 1 << key[1]
            yield entry
        elif before is not None:
            self._silent[key] = {**before, **_kept(told)}

    def is_over(self, key: Key) -> bool:
        """Whether the journal tells that an attempt has ended, or was lost. Whoever settles it may yet tell what it has used."""
        start = self._running.get(key[0])
        later = self._seen.get(names.number_of(key[0]), 0) >> key[1]
        return bool(later) or key in self._silent or (start is not None and start[0] > key[1])

    def has(self, key: Key) -> bool:
        """Whether the journal tells what an attempt has used."""
        return bool(self._seen.get(names.number_of(key[0]), 0) >> key[1] & 1)


class Account:
    """What one run (or all entries that are `wanted`) and this day have cost by now. `refresh` takes in what any process has
    written to the journal since. `sessions` is the known money of each session that is over, by its name, `questions`
    are those that are on record.
    """

    def __init__(self, queue: Queue, table: Table, wanted: str | Callable[[Entry], bool]) -> None:
        self.run = Tally()
        self.day = Tally()
        self.sessions: dict[str, float] = {}
        self.questions: set[str] = set()
        self._wanted = wanted if callable(wanted) else lambda entry: entry.run == wanted
        self._today = ""
        self._follower = Follower(queue, table)

    def refresh(self, now: float) -> None:
        today = day_of(now)
        if today != self._today:
            self._today, self.day = today, Tally()
        for entry in self._follower.new():
            if self._wanted(entry):
                self.run.add(entry)
            if day_of(entry.at) == today:
                self.day.add(entry)
            if not entry.generation and entry.task.startswith(_SESSION):
                self.sessions[entry.task.removeprefix(_SESSION)] = entry.money.known
            elif entry.task.startswith(_QUESTION):
                self.questions.add(entry.task.removeprefix(_QUESTION))

    def is_over(self, key: Key) -> bool:
        """Whether an attempt has ended by what is on record; see `Follower.is_over`."""
        return self._follower.is_over(key)

    def has(self, key: Key) -> bool:
        """Whether what an attempt has used is in these sums."""
        return self._follower.has(key)


def entries(queue: Queue, table: Table) -> Iterator[Entry]:
    """Every attempt of `fleet run` that has been settled, and every other that said what it used; each once."""
    follower = Follower(queue, table)
    yield from follower.new()
    yield from follower.from_records()
    yield from follower.silent()


def tally(found: Iterable[Entry]) -> Tally:
    """The sum of entries."""
    sums = Tally()
    for entry in found:
        sums.add(entry)
    return sums


def spent(queue: Queue, table: Table, *, run: str | None = None, since: float | None = None) -> Tally:
    """What a run, or the whole project, has spent; `since` is in seconds."""
    return tally(
        entry
        for entry in entries(queue, table)
        if (run is None or entry.run == run) and (since is None or entry.at >= since)
    )


def spent_on(queue: Queue, table: Table, task: str) -> Tally:
    """What the settled attempts at one task have used, by their records alone."""
    found = (entry_from((task, each["generation"]), each, table) for each in records.outcomes(queue, task))
    return tally(found)


def grouped(found: Iterable[Entry], key: Callable[[Entry], str]) -> dict[str, Tally]:
    """The sums of entries with the same key, in the order in which the keys first came."""
    sums: dict[str, Tally] = {}
    for entry in found:
        sums.setdefault(key(entry), Tally()).add(entry)
    return sums


def day_of(at: float) -> str:
    """The day of a time (seconds) in this machine's time zone, `YYYY-MM-DD`."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def entry_from(key: Key, told: Told, table: Table) -> Entry:
    """The entry of an attempt from a line of the journal or a record."""
    usage = usage_from(told.get("usage"))
    at = _number(told.get("at", told.get("ended"))) or 0.0
    charged, exit = told.get("charged"), told.get("exit")
    money = money_from(told.get("cost")) if usage is not None and usage.money is None else None
    if money is None or money.unknown:
        money = cost_of(usage or Usage(), table, at=at)
    return Entry(
        task=key[0],
        generation=key[1],
        run=str(told.get("run") or ""),
        provider=str(told.get("provider") or ""),
        lane=str(told.get("lane") or ""),
        outcome=str(told.get("outcome") or ""),
        usage=usage,
        money=money,
        at=at,
        seconds=_number(exit.get("seconds")) if isinstance(exit, dict) else None,
        charged=charged if isinstance(charged, bool) else None,
    )


def usage_from(value: object) -> Usage | None:
    """The usage in a record; None if it holds none, which is not the same as having used nothing."""
    if not isinstance(value, dict):
        return None
    models = value.get("models")
    usage = Usage(
        **{name: int(_number(value.get(name)) or 0) for name in COUNTS},
        money=_number(value.get("money")),
        models=tuple(each for each in models if isinstance(each, str)) if isinstance(models, list | tuple) else (),
        partial=value.get("partial") is True,
    )
    return usage if usage.tokens or usage.turns or usage.money is not None else None


def _kept(told: Told) -> Told:
    return {name: told[name] for name in _KEPT if told.get(name) is not None}


def _key(event: Told) -> Key | None:
    """The task and lease that a line of the journal tells of."""
    task, generation = event.get("task"), event.get("gen")
    if not isinstance(task, str) or not names.is_id(task):
        return None
    if isinstance(generation, bool) or not isinstance(generation, int) or not 0 < generation < _MOST_LEASES:
        return None
    return task, generation


def _added(one: Usage, other: Usage) -> Usage:
    sums = {name: getattr(one, name) + getattr(other, name) for name in COUNTS}
    models = one.models if set(other.models) <= set(one.models) else tuple(sorted({*one.models, *other.models}))
    return Usage(**sums, models=models, partial=one.partial or other.partial)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)
