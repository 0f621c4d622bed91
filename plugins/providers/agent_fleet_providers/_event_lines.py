"""Finds the events in an agent's log: one line is one JSON object with a type, everything else is text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_fleet_providers._output import Tail

LONGEST = 16 << 20  # characters; a longer line is a tool's result, never one that decides anything

PIECE = 1 << 16  # characters; a shorter line that is no whole object is torn, not continued

Json = Mapping[str, Any]


class EventLines:
    """Takes the log line by line. `tail` keeps the last lines of text: programs say there why they did not start."""

    def __init__(self) -> None:
        self.tail = Tail(lines=40, characters=8192)
        self._pieces = ""

    def event(self, line: str, mark: str = "") -> Json | None:
        """The event in a line, None if it is text. `mark` is a word that an event after other text on its line holds.

        Whoever reads the log may hand over a very long line in pieces; they are put together.
        """
        if len(line) > LONGEST:
            self._pieces = ""
            return None
        line = line.rstrip("\r\n")
        event = _object(line, mark)
        if event is None and (self._pieces or (len(line) >= PIECE and line.startswith("{"))):
            self._pieces += line
            if line.endswith("}"):
                event = _object(self._pieces, mark)
            if event is None and len(self._pieces) <= LONGEST:
                return None
        elif event is None and line.strip() and not line.startswith("{"):
            self.tail.add(line)
        self._pieces = ""
        return event


def _object(text: str, mark: str) -> Json | None:
    text = text.strip()
    start = text.find("{")
    # Standard error shares the log: a text without a line end may stand before an event.
    if start != 0 and not (start > 0 and mark and mark in text and text.endswith("}")):
        return None
    try:
        event = json.loads(text[start:])
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None
