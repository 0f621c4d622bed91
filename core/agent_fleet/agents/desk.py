"""The queue as the host of many agents sees it: claims in batches, ends by the lease that it holds itself.

All of it is files; the host calls it in a few threads of its own, so that no agent waits for a disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from agent_fleet import budget
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.ledger import spent_on
from agent_fleet.model import Budget, Exit, Outcome, Usage
from agent_fleet.prices import Table
from agent_fleet.queue import holds, lease, names, records
from agent_fleet.queue.claim import Claim, Claimed, Only, Rules
from agent_fleet.queue.conclusion import Ending, Fate, conclude
from agent_fleet.queue.share import Share
from agent_fleet.queue.store import Place, Queue
from agent_fleet.run.verdict import decide

_SEARCH = 0.25  # seconds for which a look at the inbox is good: with many seats one ends every few milliseconds
_RECLAIM = 2.0  # seconds between two looks at who holds what


class Closing(NamedTuple):
    """A task of ours that is over: what came of it, and what else its record is to say."""

    claimed: Claimed
    outcome: Outcome
    more: Mapping[str, Any]


class Opening(NamedTuple):
    """What an attempt begins with: what is left of the tokens and turns of its task, the person's answers, and what earlier
    attempts came to.
    """

    tokens: int | None
    turns: int | None
    answers: Sequence[str] = ()
    earlier: Sequence[str] = ()


class Desk:
    """One a process, for one owner: the process itself."""

    def __init__(
        self, queue: Queue, config: Config, owner: lease.Owner, share: Share, table: Table, provider: str
    ) -> None:
        self.queue = queue
        self._config = config
        self._owner = owner
        self._share = share
        self._only = Only(share.run, share.pools) if share.is_narrow else None
        self._table = table
        self._provider = provider
        self._next_reclaim = 0.0
        self._search = Claim(queue, owner, Rules(config.hosts_max, {}, self._only))
        self._search_ends = 0.0
        self._began: dict[str, float] = {}

    @property
    def is_dismissed(self) -> bool:
        """Whether the run gives out no more tasks."""
        run, worker = self._owner.worker
        number = worker.rpartition("-")[2]
        return bool(worker) and os.path.exists(self.queue.path("runs", run, "workers", number, names.ENOUGH))

    def claim(self, most: int) -> list[Claimed]:
        """As many as may start now, at most so many."""
        if self.is_dismissed:
            return []
        self._reclaim()
        rules = Rules(self._config.hosts_max, holds.reasons(self.queue), self._only)
        found: list[Claimed] = []
        if time.monotonic() < self._search_ends:
            self._search.rules = rules
            found = self._search.take_more(most)
        if len(found) < most:
            self._search_ends = time.monotonic() + _SEARCH
            self._search = Claim(self.queue, self._owner, rules)
            found += self._search.take_some(most - len(found), self._share.wanted)
        self._began |= {each.path: time.monotonic() for each in found}
        return found

    def _reclaim(self) -> None:
        """Take back what dead owners hold, now and then: it looks at every lease, and most of them are ours."""
        now = time.monotonic()
        if now >= self._next_reclaim:
            self._next_reclaim = now + _RECLAIM
            lease.reclaim(self.queue, lapse=self._config.get("queue.lapse"))

    def opening(self, claimed: Claimed, tokens: int) -> Opening:
        """What this attempt begins with. `tokens` is what an agent may use where the task and the project say nothing.

        The records of former attempts are read, where there were any.
        """
        get = self._config.get
        own = claimed.body.get("budget", {})
        limits = budget.limits(
            Budget(tokens=own.get("tokens"), turns=own.get("turns")),
            budget.Limits(tokens=get("budget.task_tokens") or None, turns=get("budget.task_turns") or None),
        )
        if claimed.generation == 1:
            return Opening(limits.tokens or tokens or None, limits.turns)
        past = spent_on(self.queue, self._table, claimed.task).usage
        left = limits.tokens - past.tokens if limits.tokens else tokens or None
        turns = None if limits.turns is None else limits.turns - past.turns
        return Opening(
            left, turns, records.answers(self.queue, claimed.task), records.earlier(self.queue, claimed.task)
        )

    def settle(self, closings: Sequence[Closing]) -> list[Fate]:
        """Put outcomes on record and move the tasks, all by one commit; returns what became of each (see `conclusion`)."""
        return conclude(self.queue, [self._ending(*each) for each in closings])

    def _ending(self, claimed: Claimed, outcome: Outcome, more: Mapping[str, Any]) -> Ending:
        before = records.charged(self.queue, claimed.task) if claimed.generation > 1 else 0
        most = self._config.get("queue.max_attempts")
        verdict = decide(outcome, Exit(code=0), charged_before=before, max_attempts=most)
        record = {
            "outcome": outcome.kind,
            "reason": outcome.reason,
            "result": outcome.result,
            "charged": verdict.charged,
            "by": "agent",
            "provider": self._provider,
            "session": outcome.session,
            "usage": {each.name: getattr(outcome.usage, each.name) for each in fields(outcome.usage)},
            "exit": {"seconds": round(time.monotonic() - self._began.pop(claimed.path, time.monotonic()), 3)},
            **more,
        }
        place = Place("active", claimed.path, claimed.generation, self._owner.key, claimed.gate)
        return Ending(claimed.task, place, verdict.state, record, self._owner, claimed.body)

    def give_back(self, claimed: Claimed, why: str) -> None:
        """Return a task untouched and uncharged. One that is not ours any more is left alone."""
        self._began.pop(claimed.path, None)
        try:
            lease.give_back(
                self.queue,
                claimed.task,
                claimed.generation,
                claimed.gate,
                claimed.path,
                event="returned",
                why=why,
                owner=self._owner.key,
            )
        except (FleetError, OSError) as error:
            self.queue.notices.append(f"{claimed.task} could not be given back: {error}")


def is_used(usage: Usage) -> bool:
    return bool(usage.tokens or usage.turns)
