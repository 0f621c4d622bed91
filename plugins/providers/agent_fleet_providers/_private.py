"""Reading small files of an account's home, which only this user may have written."""

from __future__ import annotations

import os
import stat

MOST = 16 << 20


def read_private(path: str, limit: int = MOST) -> bytes:
    """The bytes of a plain file of this user. Raises OSError for anything else, and for one that is longer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise OSError("not a plain file that only this user may write")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError("too long")
    return data
