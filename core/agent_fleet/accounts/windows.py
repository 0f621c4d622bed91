"""Figures that a provider gives of what is left, taken for what they are worth: what is ambiguous is unknown.

Percentages are bounded, moments must lie near the present, and a text becomes a token or nothing: what a provider says in words can
hold a secret, and goes no further.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

from agent_fleet.accounts.values import QuotaReading, QuotaStatus, Window

DAY = 86400.0
PAST, FUTURE = 40 * DAY, 400 * DAY  # how far from now a moment may lie that a limit can mean
_ROUNDING = 1.0  # percent
AHEAD = 300.0  # seconds that another clock may be ahead of ours
MOST_WINDOWS = 32
# the windows that bound all work: by their ids, and only where none of these is told by their kinds
GENERAL_IDS = ("five_hour", "seven_day", "weekly", "week")
GENERAL_KINDS = ("session", "weekly")
_NEAR = 0.02  # by how much a length may miss a usual one: programs have told 299 minutes for five hours
STATUSES: tuple[str, ...] = get_args(QuotaStatus)
# Words of letters or of digits: a code may be made of these, and a key or a token hardly ever is.
_TOKEN = re.compile(r"(?=.{1,64}\Z)(?:[a-z]{1,24}|[0-9]{1,6}[a-z]{0,2})(?:[_.:-](?:[a-z]{1,24}|[0-9]{1,6}[a-z]{0,2}))*")
_GENERAL = {300: ("five_hour", "session"), 10080: ("seven_day", "weekly"), 43200: ("thirty_day", "monthly")}


def remaining(left: Any = None, used: Any = None) -> float | None:
    """Percent that is left, from percent left or percent used; None if neither is a figure, or if they contradict each other.

    More than all was used up by some plans, which is nothing left; more left than there can be is no percentage.
    """
    figures = [each for each in (finite(left), _complement(used)) if each is not None]
    if not figures or max(figures) - min(figures) > _ROUNDING or max(figures) > 100 + _ROUNDING:
        return None
    return min(100.0, max(0.0, figures[0]))


def finite(value: object) -> float | None:
    """The value as a finite number; None for anything else, also for a whole number too large for one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        figure = float(value)
    except OverflowError:
        return None
    return figure if math.isfinite(figure) else None


def moment(value: Any, now: float) -> float | None:
    """A moment in seconds since the epoch, from seconds or milliseconds since then or ISO 8601 with a zone; None if unclear."""
    if isinstance(value, str):
        try:
            read = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        found = [read.timestamp()] if read.tzinfo else []
    else:
        figure = finite(value)
        found = [figure, figure / 1000] if figure is not None else []
    return next((each for each in found if now - PAST <= each <= now + FUTURE), None)


def window_name(minutes: Any) -> tuple[str, str]:
    """The id and the kind of a window by its length; a length that is not a usual one names itself."""
    whole = finite(minutes)
    if whole is None or not 0 < whole < 1e6:
        return "unknown", "other"
    near = next((name for length, name in _GENERAL.items() if abs(whole - length) <= _NEAR * length), None)
    return near or (f"minutes_{round(whole)}", "other")


def token(text: Any, otherwise: str) -> str:
    """The text if it is one word of a code, else the other one."""
    return text if isinstance(text, str) and _TOKEN.fullmatch(text) else otherwise


def iso(at: float | None) -> str | None:
    """The moment as people and programs read it: UTC, whole seconds."""
    return None if at is None else datetime.fromtimestamp(int(at), UTC).isoformat()


def checked(reading: Any, source: str, now: float) -> QuotaReading:
    """A reading of a plugin, with nothing in it that is not to be believed.

    A window that is no figure, or told twice in two ways, is left out. If it is one that bounds all work the reading is not fresh:
    what the other windows have left says nothing of that one.
    """
    if not isinstance(reading, QuotaReading) or reading.status not in STATUSES:
        return QuotaReading(status="error", source=source, reason="reader_answered_nonsense")
    observed = reading.observed_at if finite(reading.observed_at) is not None else None
    if observed is not None and not now - PAST <= observed <= now + AHEAD:
        observed = None
    sound, doubtful = _windows(reading.windows, now)
    windows = tuple(each for each in sound if not _is_refilled(each, observed, now))
    status, reason = reading.status, reading.reason
    if status == "fresh" and _bounds_all(doubtful, sound):
        status, reason = "unavailable", "ambiguous_window"
    if status == "fresh" and (observed is None or not windows):
        status = "unavailable"
    account = reading.account if isinstance(reading.account, str) and len(reading.account) <= 512 else ""
    return replace(
        reading,
        source=source,
        status=status,
        observed_at=None if observed is None else min(observed, now),
        windows=windows,
        reason=token(reason, "provider_reported_error") if reason else "",
        account=account,
    )


def _windows(given: Any, now: float) -> tuple[list[Window], list[Window]]:
    """The windows that are told soundly, and those of which it is not known what they have left."""
    found: dict[str, Window] = {}
    doubtful: dict[str, Window] = {}
    for each in given[:MOST_WINDOWS] if isinstance(given, (list, tuple)) else ():
        if not isinstance(each, Window):
            continue
        left = remaining(each.remaining)
        if left is None:
            name = token(each.id, "unknown")
            doubtful[name] = replace(each, id=name, kind=token(each.kind, "other"))
            continue
        window = replace(
            each,
            id=token(each.id, "unknown"),
            kind=token(each.kind, "other"),
            remaining=left,
            resets_at=moment(each.resets_at, now),
            observed_at=moment(each.observed_at, now),
        )
        if window.id == "unknown" or found.setdefault(window.id, window) != window:
            doubtful[window.id] = window
    return [window for name, window in found.items() if name not in doubtful], list(doubtful.values())


def _bounds_all(doubtful: list[Window], sound: list[Window]) -> bool:
    """Whether one of the doubtful windows would count for all work beside the sound ones."""
    if any(each.id in GENERAL_IDS for each in doubtful):
        return True
    by_kind = not any(each.id in GENERAL_IDS for each in sound)
    return by_kind and any(each.kind in GENERAL_KINDS for each in doubtful)


def _is_refilled(window: Window, observed: float | None, now: float) -> bool:
    """Whether the window has been filled again since it was seen: what it had left then says nothing any more."""
    seen = window.observed_at if window.observed_at is not None else observed
    return window.resets_at is not None and seen is not None and seen < window.resets_at <= now


def _complement(used: Any) -> float | None:
    figure = finite(used)
    return None if figure is None else 100.0 - figure
