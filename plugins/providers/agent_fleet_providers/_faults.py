"""Answers of an API that are no message: what the status, the headers and the body mean. Pure."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from agent_fleet.api import Fault

T = TypeVar("T")
_QUOTA = ("insufficient_quota", "billing", "credit balance")


def fault(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """What such an answer means for the one who asked."""
    told = parsed(body.decode("utf-8", "replace"))
    error = told.get("error")
    error = error if isinstance(error, dict) else {}
    message = str(error.get("message") or told.get("message") or "").split("\n", 1)[0][:300]
    kind = f"{error.get('type') or ''} {error.get('code') or ''}"
    reason = f"HTTP {status}: {message or kind.strip() or 'no reason was given'}"
    after = retry_after(headers)
    if status == 429:
        used_up = any(word in f"{kind} {message}".lower() for word in _QUOTA)
        return Fault("limit", reason, again=not used_up, after=after)
    if status in (401, 402, 403):
        return Fault("auth", reason)
    if status in (408, 409) or status >= 500:
        return Fault(
            "overload", reason, again=True, after=after, ending="overloaded" if status in (503, 529) else "server_error"
        )
    return Fault("failed", reason)  # a model that is not there, a prompt that is too long: the same request fails again


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The wait that the server asked for, in seconds (RFC 9110, 10.2.3; `retry-after-ms` is finer); None if it did not."""
    fine = _number(headers.get("retry-after-ms", ""))
    if fine is not None:
        return fine / 1000
    text = headers.get("retry-after", "").strip()
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def parsed(text: str, default: T | dict[str, Any] | None = {}) -> Any:  # noqa: B006 - never changed
    """The JSON object in a text, else the default."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return default
    return found if isinstance(found, dict) else default
