"""How many calls a whole run may still make, all its processes together and failed calls included, so that retries cannot storm.

A process takes a few at a time from one file. What it does not use counts as used, unless it gives it back: the server never
sees more calls than the cap.
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
    """The count in `directory`, with room for `most` calls. `left` is what this process may take without asking.

    Raises FleetError (`corrupt`) where the count cannot be read: then nobody knows what was spent.
    """

    def __init__(self, directory: str, most: int) -> None:
        self.directory = directory
        self.path = os.path.join(directory, "attempts.json")
        self.most = most
        self.left = 0
        make_directory(directory)

    def take(self) -> None:
        """Use one of those that are left."""
        self.left -= 1

    def more(self) -> bool | None:
        """Get some more for this process: whether there were any, None if another process has the lock."""
        try:
            with DirLock(self.directory, patience=0.0):
                taken = self._taken()
                free = max(0, self.most - taken)
                block = min(free, max(1, min(LARGEST, free // 32)))
                if block:
                    self._write(taken + block)
        except FleetError as error:
            if error.code == "busy":
                return None
            raise
        self.left += block
        return block > 0

    def give_back(self) -> None:
        """Return what this process did not use."""
        if self.left > 0:
            with DirLock(self.directory):
                self._write(max(0, self._taken() - self.left))
            self.left = 0

    def taken(self) -> int:
        """How many were given out so far."""
        with DirLock(self.directory):
            return self._taken()

    def _taken(self) -> int:
        try:
            found = read_json(self.path).get("taken")
        except FileNotFoundError:
            return 0
        except BadFileError as error:
            raise self._corrupt(str(error)) from None
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            raise self._corrupt("it holds no count")
        return found

    def _write(self, taken: int) -> None:
        write_whole(self.path, json.dumps({"taken": taken}).encode() + b"\n", durable=False)

    def _corrupt(self, why: str) -> FleetError:
        return FleetError(
            "corrupt",
            f"how many calls the run has made cannot be read from {self.path}: {why}",
            hint="remove the file to begin the count anew",
        )
