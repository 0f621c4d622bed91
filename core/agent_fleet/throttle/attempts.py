"""How many calls a whole run may still make, all its processes together and failed calls included, so that retries cannot storm.

A process takes a few at a time from one file. What it does not use counts as used, unless it gives it back: the server never
sees more calls than the cap. Where no person chose one, it is three times the calls that are due: one for each task, and one more
for each call that was answered, after which the agent goes on. So work of any length fits, and a server that answers none sees
three calls a task.
"""

from __future__ import annotations

import json
import os

from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, make_directory, read_json, write_whole
from agent_fleet.queue.lock import DirLock

PER_CALL = 3
LARGEST = 64


def cap(planned: int, chosen: int) -> int:
    """The most calls of a run: what a person chose, else three times those that are planned."""
    return chosen or PER_CALL * max(1, planned)


class Attempts:
    """The count in `directory`, with room for `most` calls, and `each` more for each that was answered (0: it is the person's own
    cap, and does not grow). `left` is what this process may take without asking.

    Raises FleetError (`corrupt`) where the count cannot be read: then nobody knows what was spent.
    """

    def __init__(self, directory: str, most: int, *, each: int = 0) -> None:
        self.directory = directory
        self.path = os.path.join(directory, "attempts.json")
        self.most = most
        self.left = 0
        self._each = each
        self._earned = 0  # by calls that were answered since the file was last written
        make_directory(directory)

    def take(self) -> None:
        """Use one of those that are left."""
        self.left -= 1

    def answered(self) -> None:
        """A call was answered well."""
        self._earned += self._each

    def more(self) -> bool | None:
        """Get some more for this process: whether there were any, None if another process has the lock."""
        try:
            with DirLock(self.directory, patience=0.0):
                taken, most = self._taken(), self._most()
                free = max(0, most - taken)
                block = min(free, max(1, min(LARGEST, free // 32)))
                if block or self._earned:
                    self._write(taken + block, most)
        except FleetError as error:
            if error.code == "busy":
                return None
            raise
        self.left += block
        return block > 0

    def give_back(self) -> None:
        """Return what this process did not use, and hand in what it earned."""
        if self.left > 0 or self._earned:
            with DirLock(self.directory):
                self._write(max(0, self._taken() - self.left), self._most())
            self.left = 0

    def taken(self) -> int:
        """How many were given out so far."""
        with DirLock(self.directory):
            return self._taken()

    def _most(self) -> int:
        """How many calls there is room for by now; the lock is held. Another process may have planned more."""
        if self._each:
            self.most = max(self.most, self._stored("most", self.most)) + self._earned
        return self.most

    def _taken(self) -> int:
        return self._stored("taken", 0)

    def _stored(self, name: str, otherwise: int) -> int:
        try:
            found = read_json(self.path).get(name, None if name == "taken" else otherwise)
        except FileNotFoundError:
            return otherwise
        except BadFileError as error:
            raise self._corrupt(str(error)) from None
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            raise self._corrupt("it holds no count")
        return found

    def _write(self, taken: int, most: int) -> None:
        write_whole(self.path, json.dumps({"taken": taken, "most": most}).encode() + b"\n", durable=False)
        self._earned = 0

    def _corrupt(self, why: str) -> FleetError:
        return FleetError(
            "corrupt",
            f"how many calls the run has made cannot be read from {self.path}: {why}",
            hint="remove the file to begin the count anew",
        )
