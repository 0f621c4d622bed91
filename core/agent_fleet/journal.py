"""The journal: every transition, start, stop, limit and spend is one JSON line, written by a single append."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Any

TYPE = dict[str, Any]
_STRANGE = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)


class Journal:
    """An append-only JSONL file. Several processes append at once; a torn line of a killed writer is healed by the next.

    `notices` takes what a person should read: something that stood in the journal's place was set aside.
    """

    __slots__ = ("_descriptor", "notices", "path")

    def __init__(self, path: str, notices: list[str] | None = None) -> None:
        self.path = path
        self.notices = [] if notices is None else notices
        self._descriptor = -1

    def append(self, event: str, **fields: object) -> None:
        """Write one line. Raises OSError if the line could not be written whole."""
        self.extend([{"event": event, **fields}])

    def extend(self, events: Iterable[TYPE]) -> None:
        """Write several lines by one append, so that no other writer's line stands between them."""
        at = round(time.time(), 3)
        encode = json.JSONEncoder(
            separators=(",", ":")
        ).encode  # made once: a batch may tell of a hundred thousand tasks
        lines = [encode({"at": at, **event}) for event in events]
        data = ("\n".join(lines) + "\n").encode()
        descriptor = self._open()
        if self._is_torn(descriptor):
            data = b"\n" + data
        written = os.write(descriptor, data)
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def set_strange_aside(self) -> None:
        """Move whatever is no regular file out of the journal's place, into `quarantine/` beside it. Raises OSError."""
        try:
            if stat.S_ISREG(os.lstat(self.path).st_mode):
                return
            target = os.path.join(os.path.dirname(self.path), "quarantine", f"{time.time_ns()}-journal.jsonl")
            os.rename(self.path, target)
        except FileNotFoundError:
            return
        self.notices.append(f"set aside journal.jsonl: it is not a regular file; it is now {target}")

    def _open(self) -> int:
        if self._descriptor < 0:
            try:
                self._descriptor = self._open_regular()
            except OSError as error:
                if error.errno not in _STRANGE:
                    raise
                self.set_strange_aside()
                self._descriptor = self._open_regular()
        return self._descriptor

    def _open_regular(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self.path, flags, 0o644)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.ENODEV, "not a regular file", self.path)
        return descriptor

    @staticmethod
    def _is_torn(descriptor: int) -> bool:
        size = os.fstat(descriptor).st_size
        return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def read(path: str) -> Iterator[tuple[int, TYPE | None]]:
    """Every line as (line number, event); None for a line that is no JSON object. Blank lines are passed over.

    What is no regular file holds no lines.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENOENT or error.errno in _STRANGE:
            return
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return
    with os.fdopen(descriptor, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            yield number, event if isinstance(event, dict) else None


def follow(path: str, offset: int) -> Iterator[tuple[int, bytes]]:
    """The whole lines of a file from an offset on, each with where it ends. A file that is shorter is read from its start."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return
        raise
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        return
    with os.fdopen(descriptor, "rb") as file:
        offset = offset if offset <= state.st_size else 0
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return  # still being written
            offset += len(line)
            yield offset, line
