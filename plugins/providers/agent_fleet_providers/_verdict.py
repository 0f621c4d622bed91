"""An agent's own verdict: the last line of its last message, marked with a word that only this attempt knows."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from agent_fleet.api import parse_wall
from agent_fleet_providers._output import one_line

LAST_LINES = 12  # a closing code fence or a signature may follow the verdict, a page of text may not


class Verdict(NamedTuple):
    """What the agent said of its task, the reason it gave, and its message without the line that says so."""

    word: Literal["done", "blocked", "failed"]
    reason: str
    answer: str


def verdict(message: str, nonce: str) -> Verdict | None:
    """The verdict in a message; None if it has none. The line counts only near the end, and only with the nonce."""
    if not nonce:
        return None
    marker = re.compile(
        rf"^[\s>*_`~#-]*FLEET-{re.escape(nonce)}[ \t:]+(DONE|BLOCKED|FAILED)\b[*_`]*[ \t]*[:.–—-]?[ \t]*(.*?)[\s*_`~]*$"
    )
    lines = message.splitlines()
    seen = 0
    for index in range(len(lines) - 1, -1, -1):
        found = marker.match(lines[index])
        if found:
            rest = lines[:index] + [line for line in lines[index + 1 :] if not marker.match(line)]
            rest = [line for line in rest if not marker.match(line)]
            return _verdict(found[1], found[2], "\n".join(rest).strip())
        seen += bool(lines[index].strip())
        if seen >= LAST_LINES:
            break
    return None


def _verdict(word: str, reason: str, answer: str) -> Verdict:
    reason = one_line(reason.strip("<> "), 500)
    if word == "DONE":
        return Verdict("done", "", answer or reason)
    if word == "BLOCKED":
        return Verdict("blocked", reason, answer)
    return Verdict("failed", reason or "the agent gave up and did not say why", answer)


def wall(reason: str, host: str = "") -> str:
    """The reason in the terms that blocked tasks are grouped by; one that fits none of them needs a human.

    A wall of a host that is not named is taken to be the task's own `host`.
    """
    found = parse_wall(one_line(reason, 500), host)
    return str(found) if found.kind != "other" else f"needs human: {found.what or 'the agent gave no reason'}"
