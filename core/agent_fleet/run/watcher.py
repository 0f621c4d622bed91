"""Following running attempts: what they say, and what they cost, while they run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from agent_fleet import process
from agent_fleet.model import Event, Reader
from agent_fleet.run.roster import Attempt

_PIECE = 1 << 20
_PAUSE = 2.0


class Cost(NamedTuple):
    """The peak memory of an attempt's process tree (bytes), its mean CPU use (cores), and over how many seconds."""

    memory: float
    cores: float
    seconds: float


class Watcher:
    """Follows one attempt's log and measures its process tree now and then."""

    def __init__(self, attempt: Attempt, reader: Reader | None) -> None:
        self.attempt = attempt
        self.reader = reader
        self.last_event = time.monotonic()
        self._offset = 0
        self._rest = b""
        self._peak = 0.0
        self._cpu = 0.0
        self._begun = time.monotonic()
        self._next = 0.0
        self.memory = 0.0

    def events(self) -> Iterator[Event]:
        """The events in what the attempt has printed since the last call."""
        for line in self._lines():
            self.last_event = time.monotonic()
            if self.reader is not None:
                yield from self.reader.feed(line)

    def measure(self) -> None:
        """Measure the process tree, at most every two seconds: every process of it is looked at."""
        now = time.monotonic()
        if now < self._next:
            return
        used = process.usage_of(self.attempt.worker.identity, self.attempt.mark)
        if used.processes:
            self.memory = float(used.memory or 0)
            self._peak = max(self._peak, self.memory)
            self._cpu = max(self._cpu, used.cpu or 0.0)
        self._next = now + _PAUSE if now - self._begun > _PAUSE else now + 0.3

    def cost(self, cpu_seconds: float | None, max_rss: float | None) -> Cost | None:
        """What the attempt cost; None if it ended before it could be measured. `max_rss` is the keeper's word for a short one."""
        seconds = time.monotonic() - self._begun
        memory = self._peak or (max_rss or 0.0)
        if not memory or seconds <= 0:
            return None
        return Cost(memory, (cpu_seconds if cpu_seconds is not None else self._cpu) / max(seconds, 0.1), seconds)

    def _lines(self) -> Iterator[str]:
        try:
            descriptor = os.open(self.attempt.log, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return
        try:
            while piece := os.pread(descriptor, _PIECE, self._offset):
                self._offset += len(piece)
                lines = (self._rest + piece).split(b"\n")
                self._rest = lines.pop()
                if len(self._rest) > _PIECE:
                    lines.append(self._rest)
                    self._rest = b""
                for line in lines:
                    yield line.decode("utf-8", "replace")
        finally:
            os.close(descriptor)
