"""A file that a person has named, on a command line or in a program: a link is followed, and a pipe is read to its end.

Files of the queue are read otherwise (`queue.files`): nobody names those, so a link in their place is none of ours.
"""

from __future__ import annotations

import os
import stat

from agent_fleet.errors import SHORTAGES, FleetError


def read(path: str, most: int, *, what: str = "a text file") -> bytes:
    """Its bytes. Raises `not_found`; `bad_input` for a directory, a device, more than `most` bytes or what may not be read; OSError
    only where this process is short of something.
    """
    try:
        with open(path, "rb", opener=_opened) as file:
            kind = os.fstat(file.fileno()).st_mode
            if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
                raise _bad(path, "it is neither a file nor a pipe", what)
            data = file.read(most + 1)
    except FileNotFoundError:
        raise FleetError("not_found", f"there is no file {path}", hint=f"name {what}") from None
    except (ValueError, OSError) as error:  # a name with a NUL character is a ValueError
        if isinstance(error, OSError) and error.errno in SHORTAGES:
            raise
        raise _bad(path, getattr(error, "strerror", None) or "that is no name of a file", what) from None
    if len(data) > most:
        raise _bad(path, f"it is larger than {most} bytes", what)
    return data


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOCTTY)


def _bad(path: str, why: str, what: str) -> FleetError:
    return FleetError("bad_input", f"cannot read {path}: {why}", hint=f"name {what}")
