"""What a session's hook tells of itself: an object on standard input, from Codex also one as the last argument."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from agent_fleet.api import FleetError, HookSaid

KEYS = ("session_id", "sessionId", "thread-id", "thread_id")
SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
MOST = 4 << 20
DEEPEST = 8


def said(event: str, arguments: Sequence[str], payload: bytes) -> HookSaid | None:
    """What `fleet hook EVENT` was told; None for an event that is none of ours.

    Raises `bad_input` unless exactly one session is named, wherever it stands: with two of them, one would be guessed.
    """
    if event not in ("session-start", "turn-end"):
        return None
    texts = [
        payload.decode("utf-8", "replace") if len(payload) <= MOST else "",
        *(each for each in arguments if each[:1] == "{"),
    ]
    sessions = {found for text in texts for found in _sessions(_loaded(text), DEEPEST)}
    if len(sessions) != 1:
        what = "names no session" if not sessions else f"names {len(sessions)} sessions"
        raise FleetError("bad_input", f"what the hook was given {what}", hint="let the provider call the hook")
    (session,) = sessions
    if not SESSION.fullmatch(session):
        raise FleetError("bad_input", "the hook's session is no session id", hint="let the provider call the hook")
    return HookSaid(kind="session" if event == "session-start" else "turn_end", session=session)


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _sessions(value: object, deeper: int) -> Iterator[str]:
    if deeper and isinstance(value, dict):
        for key, below in value.items():
            if key in KEYS and isinstance(below, str):
                yield below
            else:
                yield from _sessions(below, deeper - 1)
    elif deeper and isinstance(value, list):
        for below in value:
            yield from _sessions(below, deeper - 1)
