"""What an agent's last message comes to: its own verdict, a banner instead of an answer, nothing, or an answer."""

from __future__ import annotations

from collections.abc import Iterable

from agent_fleet.api import Outcome
from agent_fleet_providers._limits import banner, limit_model
from agent_fleet_providers._verdict import verdict, wall


def answered(message: str, nonce: str, *, host: str, now: float, note: str = "") -> Outcome:
    """The outcome of an agent that ended by itself. A banner is no answer, and neither is nothing.

    `note` becomes the reason of a task that is done, such as that a tool was denied: the agent may well have found
    another way, and the task's check is what proves it.
    """
    said = verdict(message, nonce)
    answer = said.answer if said else message.strip()
    if said and said.word == "blocked":
        return Outcome(kind="blocked", reason=wall(said.reason, host), result=answer)
    if said and said.word == "failed":
        return Outcome(kind="failed", reason=said.reason, result=answer)
    if not said and (wall_met := in_the_way(answer, now, failed=False)):
        return wall_met
    if not answer:
        return Outcome(kind="failed", reason="empty answer")
    return Outcome(kind="done", reason=note, result=answer)


def in_the_way(text: str, now: float, *, failed: bool) -> Outcome | None:
    """The outcome if the text is a banner and nothing else; see `banner`."""
    found = banner(text, now, failed=failed)
    return found and Outcome(
        kind=found.kind,
        reason=found.reason,
        limit=found.limit,
        model=limit_model(found.limit),
        resets_at=found.resets_at,
    )


def last_words(lines: Iterable[str], now: float) -> Outcome | None:
    """The outcome if one of the last lines that a failed program printed is a banner."""
    last = [line.strip() for line in lines if line.strip()][-5:]
    return next((found for line in reversed(last) if (found := in_the_way(line, now, failed=True))), None)
