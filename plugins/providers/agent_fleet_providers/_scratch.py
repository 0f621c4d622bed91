"""Files that a launch leaves for its process, readable by this user only."""

from __future__ import annotations

import os

from agent_fleet.api import FleetError


def write_private(path: str, text: str) -> str:
    """Write the text as UTF-8 to a file of mode 0600 and hand its path back.

    Raises `bad_input` for text that is no Unicode text, `io_error` if the file cannot be written.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise FleetError(
            "bad_input", "the text holds half of a surrogate pair and cannot be written", hint="add the task again"
        ) from None
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
    except OSError as error:
        raise FleetError(
            "io_error", f"cannot write {path}: {error.strerror}", hint="look at the file system, then run again"
        ) from None
    return path
