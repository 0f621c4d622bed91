"""What an outcome does to its task: the next state, and whether the attempt is charged. Pure."""

from __future__ import annotations

from typing import NamedTuple

from agent_fleet.model import Exit, Outcome

_WALLS = ("limit", "overload", "auth")
_TRIED = ("failed", "refused", "crashed", "timeout", "unknown")
_NOT_ITS_FAULT = ("stopped", "shed", "lost")


class Verdict(NamedTuple):
    """Where the task goes, and whether the attempt counts."""

    state: str
    charged: bool


def decide(outcome: Outcome, exit: Exit, *, charged_before: int, max_attempts: int) -> Verdict:
    """The table of docs/design/workers.md. A limit, an overload and a login wall cost the task nothing."""
    if outcome.kind in ("done", "blocked"):
        return Verdict(outcome.kind, charged=False)
    if outcome.kind == "budget":
        return Verdict("failed", charged=True)
    if outcome.kind in _WALLS or exit.cause in _NOT_ITS_FAULT:
        return Verdict("inbox", charged=False)
    last = charged_before + 1 >= max_attempts
    return Verdict("failed" if last and outcome.kind in _TRIED else "inbox", charged=True)
