"""What an outcome does to a task: its next state, and whether the attempt is charged. Pure."""

from __future__ import annotations

from typing import NamedTuple

from agent_fleet.model import Exit, Outcome

_BACKOFF = {"limit": 300.0, "overload": 60.0, "auth": 300.0}
_TRIED = ("failed", "refused", "crashed", "timeout", "unknown")
_NOT_ITS_FAULT = ("stopped", "shed", "lost")


class Verdict(NamedTuple):
    """Where the task goes, whether the attempt counts, and (seconds since the epoch) until when it is held."""

    state: str
    charged: bool
    hold_until: float | None = None


def decide(outcome: Outcome, exit: Exit, *, charged_before: int, max_attempts: int, now: float) -> Verdict:
    """The table of docs/design/workers.md. A limit, an overload and a login wall cost the task nothing."""
    if exit.cause in _NOT_ITS_FAULT and outcome.kind != "done":
        return Verdict("inbox", charged=False)
    if outcome.kind in ("done", "blocked"):
        return Verdict(outcome.kind, charged=False)
    if outcome.kind in _BACKOFF:
        soonest = now + _BACKOFF[outcome.kind]
        return Verdict("inbox", charged=False, hold_until=max(soonest, outcome.resets_at or soonest))
    if outcome.kind == "budget":
        return Verdict("failed", charged=True)
    last = charged_before + 1 >= max_attempts
    return Verdict("failed" if last and outcome.kind in _TRIED else "inbox", charged=True)
