"""When a limit resets, read from the words that a banner uses.

Times of day have no date, dates have no year and zones may be missing; what is meant is the next such moment. A zone
that this machine does not know makes the moment unknown. Without a zone the machine's own is meant.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}

EPOCH = re.compile(r"\|\s*(\d{10})(\d{3})?\b")
ISO = re.compile(r"\b(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)")
SPAN = re.compile(
    r"\bin\s+((?:\d+(?:\.\d+)?\s*(?:d|h|m|s|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?)\b[\s,]*(?:and\s+)?)+)",
    re.I,
)
PART = re.compile(r"(\d+(?:\.\d+)?)\s*([dhms])", re.I)
WHEN = re.compile(r"\b(?:resets?|try again)\b\s*(?:at|on)?\s*(.+)", re.I | re.S)
ZONE = re.compile(r"\(([^)\n]{1,64})\)|\b(UTC|GMT)\b|(?<=\d)(Z)\b")
CLOCK = re.compile(r"\b(\d{1,2})(?::(\d\d))?\s*([ap])\.?m\b|\b(\d{1,2}):(\d\d)\b", re.I)
MONTH_DAY = re.compile(
    rf"\b({'|'.join(MONTHS)})[a-z]*\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,?\s+(\d{{4}})\b)?", re.I
)
DAY_MONTH = re.compile(rf"\b(\d{{1,2}})\s+({'|'.join(MONTHS)})[a-z]*\b(?:,?\s+(\d{{4}})\b)?", re.I)
WEEKDAY = re.compile(rf"\b({'|'.join(DAYS)})(?:[a-z]*day)?\b", re.I)


def reset_time(text: str, now: float) -> float | None:
    """The moment that a banner names, in seconds since the epoch; None if it names none that can be understood."""
    try:
        return _epoch(text) or _span(text, now) or _stamp(text) or _named(text, now)
    except (ValueError, OverflowError, OSError):
        return None


def _epoch(text: str) -> float | None:
    found = EPOCH.search(text)
    return float(found[1]) if found else None


def _span(text: str, now: float) -> float | None:
    found = SPAN.search(text)
    if not found:
        return None
    return now + sum(float(count) * SECONDS[unit.lower()] for count, unit in PART.findall(found[1]))


def _stamp(text: str) -> float | None:
    found = ISO.search(text)
    return datetime.fromisoformat(found[1].replace("Z", "+00:00")).timestamp() if found else None


def _named(text: str, now: float) -> float | None:
    phrase = WHEN.search(text)
    if not phrase:
        return None
    words = phrase[1][:120]
    known, zone = _zone(words)
    if not known:
        return None
    words = ZONE.sub(" ", words, count=1)
    today = datetime.fromtimestamp(now, zone)
    clock = _clock(words)
    day = _date(words, today.date())
    if day is not None:
        return _moment(day, clock or (0, 0), zone)
    weekday = WEEKDAY.search(words)
    if weekday:
        ahead = (DAYS.index(weekday[1].lower()) - today.weekday()) % 7
        return _next(today.date() + timedelta(days=ahead), clock or (0, 0), zone, now, days=7)
    if re.search(r"\btomorrow\b", words, re.I):
        return _moment(today.date() + timedelta(days=1), clock or (0, 0), zone)
    return _next(today.date(), clock, zone, now, days=1) if clock else None


def _zone(words: str) -> tuple[bool, tzinfo | None]:
    """Whether the zone is known, and the zone; None is the machine's own."""
    found = ZONE.search(words)
    if not found:
        return True, None
    name = (found[1] or found[2] or found[3]).strip()
    if name.upper() in ("UTC", "GMT", "Z"):
        return True, UTC
    if name.lower() in ("local", "local time"):
        return True, None
    try:
        return True, ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # no such name, a directory of names, a path
        return False, None


def _clock(words: str) -> tuple[int, int] | None:
    found = CLOCK.search(words)
    if not found:
        return None
    if found[3] is None:
        hour, minute = int(found[4]), int(found[5])
    elif 1 <= int(found[1]) <= 12:
        hour, minute = int(found[1]) % 12 + (12 if found[3].lower() == "p" else 0), int(found[2] or 0)
    else:
        return None
    return (hour, minute) if hour < 24 and minute < 60 else None


def _date(words: str, today: date) -> date | None:
    """The date that is named; without a year the one nearest to today, before it (a reset just past) or after."""
    found = MONTH_DAY.search(words)
    month, day, year = (found[1], found[2], found[3]) if found else ("", "", None)
    if not found:
        found = DAY_MONTH.search(words)
        if not found:
            return None
        month, day, year = found[2], found[1], found[3]
    number = MONTHS.index(month.lower()[:3]) + 1
    if year:
        return date(int(year), number, int(day))
    return min(_years(today.year, number, int(day)), key=lambda each: abs(each - today))


def _years(year: int, month: int, day: int) -> list[date]:
    dates = []
    for each in (year - 1, year, year + 1):
        try:
            dates.append(date(each, month, day))
        except ValueError:  # 29 February
            continue
    return dates


def _moment(day: date, clock: tuple[int, int], zone: tzinfo | None, fold: int = 0) -> float:
    return datetime(day.year, day.month, day.day, *clock, tzinfo=zone, fold=fold).timestamp()


def _next(day: date, clock: tuple[int, int], zone: tzinfo | None, now: float, *, days: int) -> float:
    """The next moment after now; an hour that the clock shows twice counts twice.

    The minute that a clock shows now is meant as a whole: a reset in it is at its end, and not on another day.
    """
    for fold in (0, 1):
        moment = _moment(day, clock, zone, fold)
        if moment > now:
            return moment
        if moment + 60 > now:
            return moment + 60
    return _moment(day + timedelta(days=days), clock, zone)
