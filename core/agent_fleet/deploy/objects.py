"""JSON objects in a text that an agent wrote around them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_MOST = 200_000  # beginnings that are tried; a text of nothing but braces must not take minutes


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object of a text that lies in no other object, first one first; what is around them counts for nothing."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    at = 0
    for _ in range(_MOST):
        at = text.find("{", at)
        if at < 0:
            return
        try:
            found, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        if isinstance(found, dict):
            yield found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
