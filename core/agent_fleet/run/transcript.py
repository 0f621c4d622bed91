"""What an attempt printed, as rows for a person: the agent's events where there are some, else what a terminal would show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from agent_fleet import screen
from agent_fleet.errors import FleetError
from agent_fleet.model import Event
from agent_fleet.plugins import PROVIDERS, Offer, Plugins
from agent_fleet.protocols import Provider, Reader
from agent_fleet.queue import lease, records
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import logs, roster
from agent_fleet.run.jobs import job_of
from agent_fleet.run.roster import Attempt

_LINE = 1 << 22  # characters; a longer line comes in pieces
_END = 1 << 18  # bytes of the end of a log that are enough to see what was said last


class Log(NamedTuple):
    """The log of one lease of a task; `attempt` is None where nobody remembers who wrote it."""

    task: str
    generation: int
    path: str
    attempt: Attempt | None


def find(queue: Queue, task: str, generation: int | None = None) -> Log:
    """The log of a lease, by default of the newest that has one. A crew's log holds all that its session did.

    Raises FleetError (`not_found`).
    """
    place = queue.require(task)
    numbers = [generation] if generation is not None else range(place.generation, 0, -1)
    for number in numbers:
        attempt = attempt_of(queue, task, number)
        own = queue.path("logs", f"{task}.g{number}.log")
        for path in (own, attempt.log if attempt else own):
            if os.path.isfile(path):
                return Log(task, number, path, attempt)
    which = place.generation if generation is None else generation
    missing = f"{task} has no log of lease {which}" if which else f"{task} has no log: nobody has worked on it yet"
    raise FleetError("not_found", missing, hint="only attempts started by fleet run have one")


def attempt_of(queue: Queue, task: str, generation: int) -> Attempt | None:
    """The worker that holds or held a lease, by its name in the outcome or in its owner's record."""
    place = queue.find_active(task)
    if place is not None and place.generation == generation:
        holder = lease.owner(queue, place.owner)
        name = holder.agent if holder else ""
    else:
        record = records.outcome(queue, task, generation) or {}
        name = str(record.get("worker") or record.get("agent") or "")
    found = roster.find(queue, name)
    return found if found is not None and found.task in ("", task) else None


class Transcript:
    """Turns a log into rows, piece by piece, in order."""

    def __init__(self, queue: Queue, plugins: Plugins, log: Log) -> None:
        self.session = log.attempt.session if log.attempt else ""
        self._plugins = plugins
        self._offer: Offer[Provider] | None = None
        self._reader: Reader | None = None
        self._last = ""
        place = queue.find(log.task)
        body = queue.body(place.path, log.task) if place else None
        if log.attempt is None or body is None:
            return
        job = job_of(queue, log.attempt, task_from(body))
        try:
            self._offer = offer = plugins.offer(PROVIDERS, log.attempt.provider)
            self._reader = plugins.ask(offer, lambda provider: provider.reader(job))
        except FleetError:
            self._reader = None  # its text can be shown all the same

    def rows(self, lines: Iterable[str]) -> list[str]:
        """The rows in these lines of the log, none with a control character but tabs."""
        if self._reader is None or self._offer is None:
            return [row for line in lines for row in screen.rows(line)]
        try:
            return self._plugins.ask(self._offer, lambda _: [row for line in lines for row in self._read(line)])
        except FleetError:
            self._reader = None
            return self.rows(lines)

    def _read(self, line: str) -> Iterator[str]:
        events = list(self._reader.feed(line)) if self._reader is not None else []
        for event in events:
            self.session = event.session or self.session
        if not line.lstrip().startswith("{"):
            yield from screen.rows(line)
            return
        for event in events:
            row = _row(event)
            # an agent's last message comes once as it is said, and once as the result
            if row and not (event.kind == "result" and event.text == self._last):
                yield row
            self._last = event.text


def _row(event: Event) -> str:
    text = screen.plain(event.text)
    if event.kind == "text" or not text:
        return text
    return text if event.kind == "other" else f"[{event.kind}] {text}"


def lines(file: IO[str]) -> Iterator[str]:
    """The lines of an open log without their ends; what has no line end yet comes as it is."""
    while line := file.readline(_LINE):
        yield line.rstrip("\n")


def last_words(queue: Queue, plugins: Plugins, log: Log, most: int) -> tuple[list[str], str]:
    """The last rows of a log that say something, and the conversation that they belong to, if that can be told."""
    transcript = Transcript(queue, plugins, log)
    try:
        with logs.open_log(log.path, last=_END) as file:
            rows = transcript.rows(list(lines(file)))
    except OSError:
        return [], transcript.session
    return [row for row in rows if row.strip()][-most:], transcript.session
