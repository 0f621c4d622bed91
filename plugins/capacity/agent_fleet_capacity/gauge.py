"""Small kernel files, and readings made of them in which a failure stays a value."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from agent_fleet.api import Quantity, Reading

# What the kernel answers when a file, or the feature behind it, is not there at all.
ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.EOPNOTSUPP, errno.ENODEV)


MOST_CPUS: Final = 1 << 16


class UnknownError(ValueError):
    """A quantity that should be known and is not; the message says why."""


def text(path: str) -> str | None:
    """What a kernel file says; None if it is not there. Raises OSError if it is there and cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise


def number(path: str) -> int | None:
    """The first number in a kernel file; None if there is no such file.

    Raises OSError if it cannot be read, UnknownError if it starts with something else.
    """
    content = text(path)
    if content is None:
        return None
    try:
        return int(content.split()[0])
    except (IndexError, ValueError):
        raise UnknownError(f"{path} does not start with a number") from None


def pairs(content: str) -> dict[str, int]:
    """A file of lines `name value` or `name: value kB` as numbers; lines of any other shape are skipped."""
    found: dict[str, int] = {}
    for line in content.splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2 and words[1].isdigit():
            found.setdefault(words[0], int(words[1]))
    return found


def cpu_list(content: str) -> frozenset[int]:
    """The CPUs of a kernel list such as `0-3,8`. Raises UnknownError for any other text."""
    cpus: set[int] = set()
    for part in content.strip().split(","):
        first, _, last = part.partition("-")
        if not first:
            continue
        if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) >= MOST_CPUS:
            raise UnknownError(f"{part!r} is not a range of CPUs")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def stall(content: str, kind: str) -> float | None:
    """avg10 of the `some` or `full` line of a pressure file, in percent; None if it has no such line.

    Format: Documentation/accounting/psi.rst of the kernel.
    """
    for line in content.splitlines():
        words = line.split()
        if words and words[0] == kind:
            for word in words[1:]:
                if word.startswith("avg10="):
                    return float(word.removeprefix("avg10="))
    return None


def disk_free(directory: str) -> int:
    """Bytes that this user may still write below a directory, or below its nearest parent that exists."""
    path = os.path.abspath(directory)
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    seen = os.statvfs(path)
    return seen.f_bavail * seen.f_frsize


Taken = tuple[float, str] | tuple[float, str, str] | None


def gauge(quantity: Quantity, source: str, take: Callable[[], Taken]) -> Iterator[Reading]:
    """One reading from `take`, which gives the value and a note, and perhaps a source of its own that is more exact.

    Nothing if it gives None (there is nothing to know here); an unknown value with the reason if it fails.
    """
    try:
        taken = take()
    except (OSError, ValueError, IndexError, KeyError) as error:
        yield Reading(quantity=quantity, value=None, source=source, at=time.time(), note=_reason(error))
        return
    if taken is not None:
        own = taken[2] if len(taken) == 3 else source
        yield Reading(quantity=quantity, value=float(taken[0]), source=own, at=time.time(), note=taken[1])


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'} cannot be read: {error.strerror or error}"
    if isinstance(error, UnknownError):
        return str(error)
    return f"not in the expected form: {error}"
