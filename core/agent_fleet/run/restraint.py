"""Which workers have to end before they have come to their own end: budgets, attempts that only try again, and too little room."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from agent_fleet.errors import FleetError
from agent_fleet.queue.store import Queue
from agent_fleet.run import roster
from agent_fleet.run.roster import Attempt, Run
from agent_fleet.run.spending import Spending
from agent_fleet.run.watcher import Watcher
from agent_fleet.text import duration

_IDLE = 5.0  # seconds of silence after which a worker counts as idle


class Restraint:
    """One a run. A worker is asked to stop with the reason that decides what its outcome is; `patience` is for how many seconds
    one may only ever try again (0: as long as it likes).
    """

    def __init__(
        self, queue: Queue, run: Run, spending: Spending, say: Callable[[str], None], *, patience: float
    ) -> None:
        self._queue = queue
        self._run = run
        self._spending = spending
        self._say = say
        self._patience = patience
        self._breached: set[str] = set()

    def hold(self, watcher: Watcher, others: Collection[Watcher]) -> bool:
        """Stop a worker that has passed a limit; all of them, and True, where that is one of the run or the day."""
        attempt = watcher.attempt
        if self._patience and watcher.stuck > self._patience:
            roster.ask_to_stop(attempt, f"stuck: it only tried again for {duration(watcher.stuck)}")
        if attempt.id in self._breached:
            return False
        breach = self._spending.breach(attempt.id)
        if breach is None:
            self._hold_to_its_advance(attempt)
            return False
        self._breached.add(attempt.id)
        if breach.is_of_the_task:
            self._say(f"{attempt.label}  stopped: {breach.why}")
            roster.ask_to_stop(attempt, f"budget: {breach.why}")
            return False
        self._say(f"stopping the workers: {breach.why}")
        for other in others:
            self._breached.add(other.attempt.id)
            roster.ask_to_stop(other.attempt, breach.why)
        return True

    def shed(self, watchers: Collection[Watcher], why: str) -> None:
        """Have the newest of the idlest workers give way; its task goes back untouched."""
        now = time.monotonic()
        idle = sorted(watchers, key=lambda watcher: (now - watcher.heard < _IDLE, -watcher.attempt.started))
        attempt = idle[0].attempt
        self._say(f"{attempt.label}  gives way: {why}")
        self._queue.tell(
            "shed", task=attempt.task or None, gen=attempt.generation, run=self._run.id, worker=attempt.id, why=why
        )
        roster.ask_to_stop(attempt, f"shed: {why}")

    def _hold_to_its_advance(self, attempt: Attempt) -> None:
        """Stop a worker that costs more than was set aside for it, where there is no more: the others go on with what they have."""
        try:
            why = self._spending.overdrawn(attempt.id)
        except (FleetError, OSError) as error:
            why = f"the money that is left cannot be told: {error}"
        if why:
            self._breached.add(attempt.id)
            self._say(f"{attempt.label}  stopped: {why}")
            roster.ask_to_stop(attempt, why)
