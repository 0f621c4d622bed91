"""What a model said of pairs of texts, on record beside a deployment, so that nobody pays for it again.

One line a pair, appended and synced before it counts; a line that a crash has torn is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Final, get_args

from agent_fleet.aggregate.arbitration import Ruling
from agent_fleet.aggregate.duplicates import digest
from agent_fleet.journal import Journal, follow
from agent_fleet.queue.files import sync_directory, sync_file

NAME: Final = "judged.jsonl"
_KNOWN = get_args(Ruling)


class Rulings:
    """The record at `path`. `said` is what is on it, by the key of a pair."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.said: dict[str, Ruling] = {}
        self._offset = 0

    def refresh(self) -> None:
        """Take in what any process has written since. Raises OSError."""
        for end, line in follow(self.path, self._offset):
            self._offset = end
            try:
                told = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(told, dict) and isinstance(told.get("pair"), str) and told.get("said") in _KNOWN:
                self.said[told["pair"]] = told["said"]

    def add(self, said: Mapping[str, Ruling], by: str) -> None:
        """Put on record what somebody said; it is durable when this returns. Raises OSError."""
        is_new = not os.path.exists(self.path)
        journal = Journal(self.path)
        try:
            journal.extend({"event": "judged", "pair": pair, "said": ruling, "by": by} for pair, ruling in said.items())
        finally:
            journal.close()
        sync_file(self.path)
        if is_new:
            sync_directory(os.path.dirname(self.path))
        self.said |= said


def key(one: str, two: str, *, question: str, by: str) -> str:
    """The name of a pair of texts, in any order, as a `question` of that version was put to somebody about it."""
    parts = [*sorted((digest(one), digest(two))), question.encode(), by.encode()]
    whole = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hashlib.blake2b(whole, digest_size=16).hexdigest()
