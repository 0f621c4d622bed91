"""What is left of an account, put in order: bounded, checked, and unknown where it is ambiguous. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from agent_fleet.accounts.values import QuotaReading, QuotaStatus, Window

GENERAL_IDS = ("five_hour", "seven_day", "weekly", "week")
GENERAL_KINDS = ("session", "weekly")
STATUSES: tuple[str, ...] = get_args(QuotaStatus)
_TOKEN = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)
_MOST_WINDOWS = 64
_LONGEST_RESET = 60 * 86400.0
_SKEW = 120.0


def token(text: object, otherwise: str) -> str:
    """A provider's word if it is a plain one, else `otherwise`: no free text of a provider is kept or shown."""
    return text if isinstance(text, str) and _TOKEN.fullmatch(text) else otherwise


def normalised(reading: QuotaReading, now: float) -> QuotaReading:
    """The reading with every number in its bounds. One that calls itself fresh without saying when, or with nothing, is none."""
    windows = _windows(reading.windows, now)
    observed = reading.observed_at if _is_time(reading.observed_at, now) else None
    status = reading.status if reading.status in STATUSES else "unavailable"
    reason = token(reading.reason, "provider_reported_error") if reading.reason else ""
    if status == "fresh" and observed is None:
        status, reason = "unavailable", "missing_remote_verification_timestamp"
    elif status == "fresh" and headroom(windows) is None:
        status, reason = "unavailable", "invalid_quota"
    return replace(
        reading,
        status=status,
        windows=windows,
        observed_at=observed,
        reason=reason,
        source=token(reading.source, "unknown"),
    )


def headroom(windows: Iterable[Window]) -> float | None:
    """The least that remains, in percent, over the windows that bound all work; None if none of them is known."""
    known = list(windows)
    general = [w.remaining for w in known if w.id in GENERAL_IDS]
    general = general or [w.remaining for w in known if w.kind in GENERAL_KINDS]
    return min(general, default=None)


def next_reset(windows: Iterable[Window], now: float) -> float | None:
    """When the first window that bounds all work is full again, of those that say."""
    return min(
        (
            w.resets_at
            for w in windows
            if w.resets_at is not None and w.resets_at > now and (w.id in GENERAL_IDS or w.kind in GENERAL_KINDS)
        ),
        default=None,
    )


def _windows(windows: Iterable[Window], now: float) -> tuple[Window, ...]:
    kept: dict[str, Window] = {}
    doubted = set()
    for window in list(windows)[:_MOST_WINDOWS]:
        name, remaining = token(window.id, ""), _percent(window.remaining)
        if not name or remaining is None:
            continue
        made = replace(
            window,
            id=name,
            kind=token(window.kind, "unknown"),
            remaining=remaining,
            resets_at=window.resets_at if _is_reset(window.resets_at, now) else None,
            observed_at=window.observed_at if _is_time(window.observed_at, now) else None,
        )
        if name in kept and kept[name] != made:
            doubted.add(name)
        kept[name] = made
    return tuple(window for name, window in kept.items() if name not in doubted)


def _percent(value: object) -> float | None:
    number = _number(value)
    return None if number is None else min(100.0, max(0.0, number))


def _is_time(value: object, now: float) -> bool:
    """A moment that can have been observed: not before this century's clocks, and not in the time to come."""
    number = _number(value)
    return number is not None and 1_500_000_000 < number <= now + _SKEW


def _is_reset(value: object, now: float) -> bool:
    number = _number(value)
    return number is not None and now - 86400 <= number <= now + _LONGEST_RESET


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)
