"""An agent's own verdict: the last line of its last message, marked with a word that only this attempt knows."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from agent_fleet_providers._output import one_line

LAST_LINES = 12  # a closing code fence or a signature may follow the verdict, a page of text may not

_HOST_WALL = re.compile(r"^(login required|captcha|2fa)\s*:\s*(.+)$", re.I)
_BARE_WALL = re.compile(r"^(login required|captcha|2fa)\s*\.?$", re.I)
_TEXT_WALL = re.compile(r"^(needs answer|needs human|suspicious content)\s*:\s*(.+)$", re.I)
_HOST = re.compile(
    r"^(?:[a-z][a-z0-9+.-]*://)?(?:[^/@\s]*@)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?)(?:[/?#]\S*)?\.?$", re.I
)
_SYNONYMS = (
    (re.compile(r"^(?:log[- _]?in|sign[- _]?in)(?:[- _](?:required|needed))?(?=\s*(?::|$))", re.I), "login required"),
    (
        re.compile(
            r"^(?:two|2)[- _]?(?:factor|step)(?:[- _](?:authentication|verification|code))?(?=\s*(?::|$))", re.I
        ),
        "2fa",
    ),
    (re.compile(r"^(needs|suspicious)[-_](answer|human|content)(?=\s*:)", re.I), r"\1 \2"),
)


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
    text = one_line(reason, 500)
    for pattern, name in _SYNONYMS:
        text = pattern.sub(name, text, count=1)
    if bare := _BARE_WALL.match(text):
        return f"{bare[1].lower()}: {host.lower()}" if host else f"needs human: {bare[1].lower()}"
    if found := _HOST_WALL.match(text):
        named = _HOST.match(found[2].split()[0])
        return f"{found[1].lower()}: {named[1].lower()}" if named else f"needs human: {text}"
    if found := _TEXT_WALL.match(text):
        return f"{found[1].lower()}: {found[2].strip()}"
    return f"needs human: {text}" if text else "needs human: the agent gave no reason"
