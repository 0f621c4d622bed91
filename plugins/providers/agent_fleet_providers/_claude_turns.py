"""Judges a session of Claude Code on a terminal by what its hooks told: what it prints there is a picture for a person.

`Stop` tells that a turn has ended; `StopFailure` (2.1) that the API ended it, with the same classes of error as the stream of
events and the words that the person sees. That of a subagent has an `agent_id`: the session itself goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from agent_fleet.api import Event, Exit, Outcome, well_formed
from agent_fleet_providers._claude_errors import Signs, classify
from agent_fleet_providers._sessions import Unread

ENDED: Final = ("Stop", "StopFailure")
_WALLS = ("limit", "auth", "overload")


class ClaudeTurns:
    """Keeps the error that ended the last turn, if one did."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._signs = Signs()
        self._session = ""

    def feed(self, line: str) -> Iterable[Event]:
        told = _object(line)
        if told.get("hook_event_name") not in ENDED or told.get("agent_id"):
            return ()
        self._session = well_formed(str(told.get("session_id") or ""))
        self._signs = Signs()
        if told["hook_event_name"] == "StopFailure":
            text = str(told.get("last_assistant_message") or told.get("error_details") or "")
            self._signs = Signs(error=str(told.get("error") or ""), text=text)
        return ()

    def outcome(self, ended: Exit) -> Outcome:
        """A wall that ended the last turn, whoever ended the session after that; else what its end tells."""
        if self._signs != Signs():
            judged = classify(self._signs, self._clock())
            if judged.kind in _WALLS:
                return replace(judged, session=self._session)
        return Unread().outcome(ended)


def _object(line: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
