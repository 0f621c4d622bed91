"""What an error that Codex reports means for a task. Its events carry no codes, so its own sentences decide.

The sentences are those of 0.171. They come from `turn.failed` and from the notes about retries, where nothing but Codex
speaks; so a sentence need not be short to count, but it counts only from its beginning.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from agent_fleet.api import Outcome
from agent_fleet_providers._answers import in_the_way
from agent_fleet_providers._figures import table
from agent_fleet_providers._limits import limit_kind
from agent_fleet_providers._output import one_line
from agent_fleet_providers._resets import reset_time

RETRY = re.compile(r"reconnecting\.\.\. (?P<which>\d+/\d+|waiting for network)(?: \((?P<why>.*)\))?\s*$", re.I | re.S)
STATUS = re.compile(r"(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b", re.I)
FULL = re.compile(r"codex ran out of room in the model['’]s context window", re.I)


def _begins(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.I)


_LIMIT = _begins(r"you['’]ve (?:hit|reached) your (?P<what>[\w '’-]*?)limit\b", r"you hit your (?P<cap>spend) cap\b")
# Of one model alone; the name is the server's.
_OF_A_MODEL = _begins(r"you['’]ve hit your usage limit for (?P<model>\S[^\n]{0,80}?)\. switch to another model\b")
_BURST = _begins(r"rate limit exceeded\b", r"rate limit reached\b")
# A wall that only a person can take away: a login, a plan, or its money.
_AUTH = _begins(
    r"quota exceeded\b",
    r"to use codex with your chatgpt plan\b",
    r"you['’]re out of credits\b",
    r"your workspace is out of credits\b",
    r"you['’]ve reached your workspace credit limit\b",
    r"missing environment variable\b",
    r"not logged in\b",
)
_OVERLOAD = _begins(
    r"selected model is at capacity\b",
    r"we['’]re currently experiencing high demand\b",
    r"stream disconnected before completion\b",
    r"connection failed\b",
    r"waiting for network\b",
    r"error sending request\b",
    r"idle timeout waiting for\b",
    r"request timed out\b",
    r"timeout waiting for\b",
)


class Retry(NamedTuple):
    """A note that Codex tries again: which try it is, and why."""

    which: str
    why: str


def retry(message: str) -> Retry | None:
    """The note in the message of an `error` event; None if it is another message."""
    found = RETRY.match(message.strip())
    return Retry(found["which"], found["why"] or found["which"]) if found else None


def classify(message: str, now: float, *, worked: bool) -> Outcome:
    """The outcome of a turn that failed with this message.

    An error that is none of the known ones is the server's word on the request if nothing was done yet: `refused`.
    """
    text = _sentence(message)
    reason = one_line(text) or "the turn failed and Codex did not say why"
    if _AUTH.match(text):
        return Outcome(kind="auth", reason=reason)
    if limit := _LIMIT.match(text):
        kind = limit_kind(limit["what"] or limit["cap"] or "")
        one = _OF_A_MODEL.match(text)
        model = one["model"] if one else ""
        return Outcome(kind="limit", reason=reason, limit=kind, model=model, resets_at=reset_time(text, now))
    if _BURST.match(text):
        return Outcome(kind="limit", reason=reason, limit="burst", resets_at=reset_time(text, now))
    if _OVERLOAD.match(text):
        return Outcome(kind="overload", reason=reason)
    if status := STATUS.match(text):
        return _by_status(int(status[1]), reason, text, now)
    return in_the_way(text, now, failed=True) or Outcome(kind="failed" if worked else "refused", reason=reason)


def _by_status(status: int, reason: str, text: str, now: float) -> Outcome:
    if status == 429:
        return Outcome(kind="limit", reason=reason, limit="burst", resets_at=reset_time(text, now))
    if status in (401, 402, 403):
        return Outcome(kind="auth", reason=reason)
    return Outcome(kind="overload" if status >= 500 or status == 408 else "refused", reason=reason)


def _sentence(message: str) -> str:
    """The message; of a server's whole answer, which Codex hands on as it is, the message in it."""
    text = message.strip()
    if not text.startswith("{"):
        return text
    try:
        answer = table(json.loads(text))
    except (ValueError, RecursionError):
        return text
    said = table(answer.get("error")).get("message") or answer.get("detail") or answer.get("message")
    return said.strip() if isinstance(said, str) and said.strip() else text
