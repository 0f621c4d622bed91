"""The file by which a caller learns that a turn of its agent has ended: its time is what counts, it holds nothing."""

from __future__ import annotations

import os
import stat

from agent_fleet.accounts import places
from agent_fleet.errors import FleetError, from_os_error

SUFFIX = ".turn-ended"


def checked(path: str) -> str:
    """The path as it must be: plain, and in a directory where nobody else could put something else in its place.

    Raises FleetError (`bad_input`).
    """
    plain = places.lexical(path, "--turn-end")
    if plain != path or not os.path.basename(plain).endswith(SUFFIX):
        raise _bad(f"{path!r} is no absolute path, written plainly, that ends in {SUFFIX}")
    folder = os.path.dirname(plain)
    try:
        found = os.lstat(folder)
    except OSError:
        raise _bad(f"there is no directory {folder}") from None
    if not stat.S_ISDIR(found.st_mode) or os.path.realpath(folder) != folder:
        raise _bad(f"{folder} is no directory, or is reached through a link")
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise _bad(f"others may write in {folder}, or it is not yours")
    try:
        there = os.lstat(plain)
    except FileNotFoundError:
        return plain
    if fault := _fault(there):
        raise _bad(f"{plain} {fault}")
    return plain


def touch(path: str) -> None:
    """Make the file, or give it the time of now. Raises FleetError for anything else that stands there."""
    checked(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
        try:
            if fault := _fault(os.fstat(descriptor)):
                raise _bad(f"{path} {fault}")
            os.utime(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise from_os_error(error, f"touching {path}") from None


def _fault(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        return "is no file of one name"
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        return "is not yours alone (mode 0600)"
    return ""


def _bad(what: str) -> FleetError:
    return FleetError(
        "bad_input",
        f"--turn-end: {what}",
        hint=f"name a file such as /run/user/1000/task{SUFFIX} in a directory of yours",
    )
