"""What one attempt of Codex used.

`turn.completed` tells the total of the whole thread, earlier attempts included, and nothing of subagents; so what the thread
had used before is taken off, and what its subagents used for the same turns is added. Codex tells no price: money is unknown.
"""

from __future__ import annotations

from dataclasses import replace

from agent_fleet.api import Usage
from agent_fleet_providers._codex_threads import Spent, Threads, use
from agent_fleet_providers._figures import added

NONE = Usage()


class Meter:
    """Adds up an attempt. `threads` is None where nothing but the events is known; `resumed`: the thread has a past."""

    def __init__(self, threads: Threads | None, *, resumed: bool) -> None:
        self._threads = threads
        self._resumed = resumed
        self._thread = ""
        self._agents: list[str] = []
        self._total: Usage | None = None
        self._ended = False

    def began(self, thread: str) -> None:
        self._thread = thread

    def agent(self, thread: str) -> None:
        """A subagent that this attempt has to do with."""
        if thread != self._thread and thread not in self._agents:
            self._agents.append(thread)

    def ended(self, figures: object = None) -> None:
        """The turn is over; `figures` are the thread's total, None if they were not told."""
        self._ended = True
        self._total = use(figures) if figures is not None else None

    @property
    def usage(self) -> Usage:
        """All of this attempt so far; partial as long as an answer may be missing that was paid for."""
        if not self._thread:
            return NONE
        spent = self._threads.spent(self._thread) if self._threads else None
        main = self._main(spent)
        if main is None:
            return Usage(partial=True)
        whole = main
        for thread in self._agents:
            of_agent = self._threads.spent(thread) if self._threads else None
            if of_agent is None or spent is None:
                whole = replace(whole, partial=True)
                continue
            for turn in spent.after:
                whole = added(whole, of_agent.after.get(turn, NONE))
        return whole if self._ended else replace(whole, partial=True)

    def _main(self, spent: Spent | None) -> Usage | None:
        """The first thread's own part. The records decide unless the total shows that some are missing."""
        known = NONE
        for used in spent.after.values() if spent else ():
            known = added(known, used)
        if self._total is None:
            return known if spent else None
        if spent is None and self._resumed:
            return None
        told = _less(self._total, spent.before if spent else NONE)
        return replace(told, turns=max(1, known.turns), models=known.models) if told.tokens > known.tokens else known


def _less(total: Usage, before: Usage) -> Usage:
    return Usage(
        input=max(0, total.input - before.input),
        cache_write=max(0, total.cache_write - before.cache_write),
        cache_read=max(0, total.cache_read - before.cache_read),
        output=max(0, total.output - before.output),
        reasoning=max(0, total.reasoning - before.reasoning),
    )
