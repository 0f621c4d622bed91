"""The end of a file of JSON lines that a vendor's program wrote: read without trust."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from agent_fleet_providers._figures import table


def tail(path: str, most: int) -> list[bytes]:
    """The lines in the last `most` bytes, the first perhaps cut; none of what is a link or cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            file.seek(max(0, os.fstat(descriptor).st_size - most))
            return file.read(most).split(b"\n")
    except OSError:
        return []


def loaded(line: bytes) -> Mapping[str, Any]:
    """The object on a line; an empty one if there is none."""
    try:
        return table(json.loads(line))
    except (ValueError, RecursionError):
        return {}
