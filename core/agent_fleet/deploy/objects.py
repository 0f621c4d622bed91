"""JSON objects in a text that an agent wrote around them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_MOST = 5_000  # beginnings that are none; a text of nothing else must not take minutes
_BEGINNING = re.compile(r'\{\s*["}]')


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object of a text that lies in no other object, first one first; what is around them counts for nothing."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    at = failures = 0
    while failures < _MOST and (begin := _BEGINNING.search(text, at)):
        try:
            found, at = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            at = begin.start() + 1
            failures += 1
            continue
        if isinstance(found, dict):
            yield found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
