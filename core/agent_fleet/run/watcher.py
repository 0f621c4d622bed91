"""Following running attempts: what they say, and what they cost, while they run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from agent_fleet import process
from agent_fleet.model import Event
from agent_fleet.protocols import Reader
from agent_fleet.run import roster
from agent_fleet.run.roster import Attempt
from agent_fleet.run.spending import Purse

_PIECE = 1 << 18  # bytes read of one log at a time, so that a worker that floods its log delays nobody
_PROOF = 1.0  # seconds between two looks at a keeper itself
_TOLD = 20  # events of one worker that are shown in one round
_LINE = 1 << 20  # bytes after which a line is taken in pieces


class Cost(NamedTuple):
    """The peak memory of an attempt's process tree (bytes) and its mean CPU use (cores)."""

    memory: float
    cores: float


class Watcher:
    """Follows one attempt's log and measures its process tree now and then.

    What it reads is for showing alone: settling reads the whole log again. `reader` is None if it cannot be followed.
    """

    def __init__(self, attempt: Attempt, reader: Reader | None, *, shown: bool) -> None:
        self.attempt = attempt
        self.reader = reader
        self.shown = shown
        self.memory = 0.0
        self.measured = 0.0
        self.heard = time.monotonic()
        self.progressed = self.heard
        self._next_proof = 0.0
        self._offset = 0
        self._rest = b""
        self._peak = 0.0

    def has_ended(self) -> bool:
        """Whether the attempt is over. A keeper says so by a file; whether it died without is asked now and then."""
        if os.path.exists(os.path.join(self.attempt.dir, "exit.json")):
            return True
        now = time.monotonic()
        if now < self._next_proof:
            return False
        self._next_proof = now + _PROOF
        return roster.has_ended(self.attempt)

    def news(self) -> bytes:
        """The next piece of the log; empty if there is none, or if it cannot be read."""
        try:
            if os.stat(self.attempt.log).st_size <= self._offset:
                return b""
            descriptor = os.open(self.attempt.log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            piece = os.pread(descriptor, _PIECE, self._offset)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
        self._offset += len(piece)
        return piece

    def events(self, piece: bytes) -> Iterator[Event]:
        """The events in a piece of the log, which follows the one before."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LINE:
            lines.append(self._rest)
            self._rest = b""
        self.heard = time.monotonic()
        for line in filter(None, lines):  # an empty one shows nothing
            if self.reader is not None:
                for event in self.reader.feed(line.decode("utf-8", "replace")):
                    if event.kind != "retry":
                        self.progressed = self.heard
                    yield event

    def worth_telling(self, piece: bytes, purse: Purse | None) -> list[Event]:
        """The events in a piece of the log that a person should know of; what they say of usage goes to the purse."""
        told: list[Event] = []
        for event in self.events(piece):
            if event.usage is not None and purse is not None:
                purse.feed(event.usage)
            urgent = event.kind in ("limit", "retry", "denied")
            if (urgent or (self.shown and event.text)) and len(told) < _TOLD:
                told.append(event)
        return told

    @property
    def stuck(self) -> float:
        """For how many seconds the worker has said nothing but that it tries again; 0 if it is silent, or gets on."""
        return self.heard - self.progressed

    def measure(self) -> float:
        """Measure the process tree; returns how long that took, in seconds. Every process of the machine is looked at."""
        begun = time.monotonic()
        used = process.usage_of(self.attempt.worker.identity, self.attempt.mark)
        if used.processes:
            self.memory = float(used.memory or 0)
            self._peak = max(self._peak, self.memory)
        self.measured = time.monotonic()
        return self.measured - begun

    def cost(self, seconds: float, cpu_seconds: float, max_rss: float) -> Cost | None:
        """What the attempt cost; None if nobody can tell. The rest is the keeper's word: it saw the whole of a short one."""
        memory = self._peak or max_rss
        return Cost(memory, cpu_seconds / max(seconds, 0.1)) if memory else None
