"""What an outcome does to the starts after it: gates that limits close, and a stop after failures that nobody can explain."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from agent_fleet.model import Outcome
from agent_fleet.plan import SHELL
from agent_fleet.run.gates import BACKOFF, Gate, Gates
from agent_fleet.text import line

WALLS: Final = (*BACKOFF, "auth")
THROUGH: Final = ("done", "blocked", "failed")
IN_A_ROW: Final = 2


class Pacing:
    """Whether a provider's workers may start now, as far as what happened before tells. One a run; the gates are shared."""

    def __init__(self, gates: Gates, me: str) -> None:
        self.gates = gates
        self._me = me
        self._probing: set[str] = set()
        self._unexplained: dict[str, int] = {}
        self._judging: dict[str, int] = {}
        self._fruitless: dict[str, int] = {}
        self._spent: dict[str, str] = {}
        self._excuse: dict[str, str] = {}
        self.gates.retry_walls()

    def obstacles(self) -> dict[str, str]:
        """Which providers must wait, and why."""
        found = {}
        shut = self.gates.obstacles(self._me)
        for name in {*shut, *self._probing, *self._unexplained, *self._fruitless, *self._spent}:
            why = shut.get(name, "")
            if not why and name in self._probing:
                why = "one worker tries whether the limit is over"
            if self._unexplained.get(name, 0) >= IN_A_ROW:
                why = f"{IN_A_ROW} attempts in a row ended without a word that explains it; look at their logs (`fleet log ID`)"
            elif not why and self._judging.get(name) and self._unexplained.get(name, 0) == IN_A_ROW - 1:
                why = "the last attempt ended without a word that explains it, and the next one is being judged"
            if self._fruitless.get(name, 0) >= IN_A_ROW:
                said = self._excuse.get(name) or "look at their logs in .agents/logs"
                why = f"{IN_A_ROW} sessions in a row ended without having moved a task; {said}"
            why = self._spent.get(name, why)
            if why:
                found[name] = why
        return found

    def may_start(self, provider: str) -> bool:
        """Take the right to start; False if somebody else was quicker to probe a gate whose time has come."""
        if provider not in self.gates.read():
            return True
        if provider in self._probing or not self.gates.probe(provider, self._me):
            return False
        self._probing.add(provider)
        return True

    def judging(self, provider: str) -> None:
        """An attempt has ended and is being settled: its task may be back in the queue before `note` tells what it came to."""
        self._judging[provider] = self._judging.get(provider, 0) + 1

    def note(self, provider: str, outcome: Outcome, *, ended_by_us: bool) -> None:
        """Learn from an attempt that is settled. The gates themselves were closed or opened when it was."""
        self._probing.discard(provider)
        self._judging[provider] = max(0, self._judging.get(provider, 0) - 1)
        if provider == SHELL:
            return  # every task brings its own program: how one ended says nothing about the next
        unexplained = outcome.kind in ("unknown", "crashed") and not outcome.result.strip() and not ended_by_us
        self._unexplained[provider] = self._unexplained.get(provider, 0) + 1 if unexplained else 0

    def note_crew(self, provider: str, *, moved: int, is_at_fault: bool, spent: str = "", why: str = "") -> None:
        """Learn from a crew that is settled: one at fault had tasks before it and ended without having moved any; `why` is what it
        said of that. `spent` says which of the run's own limits kept it from going on: another one would meet the same.
        """
        self._probing.discard(provider)
        if spent:
            self._spent[provider] = spent
        if moved or is_at_fault:
            self._fruitless[provider] = 0 if moved else self._fruitless.get(provider, 0) + 1
            self._excuse[provider] = why and f"the last said: {line(why, 300)}"

    def got_through(self, provider: str) -> None:
        """A crew has moved a task: if it was the one that tried whether a limit is over, nobody need wait for its end."""
        if provider in self._probing:
            self._probing.discard(provider)
            self.gates.open(provider)

    def not_started(self, provider: str) -> None:
        """The start that was to be the probe did not happen."""
        self._probing.discard(provider)

    def next_probe(self, providers: Iterable[str]) -> tuple[Gate, float] | None:
        """The gate of these providers that opens first, and in how many seconds; None if none will by itself."""
        gates = self.gates.read()
        waiting = [gate for name in providers if (gate := gates.get(name)) is not None and gate.until is not None]
        if not waiting:
            return None
        first = min(waiting, key=lambda gate: gate.until or 0.0)
        return first, max(0.0, (first.until or 0.0) - time.time())


def settle_gate(gates: Gates, provider: str, outcome: Outcome) -> Gate | None:
    """Close or open a provider's gate by what one of its workers met; returns a gate that was closed by it."""
    if outcome.kind in WALLS:
        return gates.close(provider, outcome)
    if outcome.kind in THROUGH:
        gates.open(provider)
    return None
