"""A pool as the text of its file, and back. What is read is not trusted."""

from __future__ import annotations

import json
import math
from typing import Any

from agent_fleet.throttle.bucket import Bucket
from agent_fleet.throttle.closing import Closing
from agent_fleet.throttle.curve import SLICES, Curve, Slice
from agent_fleet.throttle.pool import Pool
from agent_fleet.throttle.shares import Holder

FORMAT = 1
MOST_HOLDERS = 10_000


class NewerError(Exception):
    """The file was written by a newer version."""


def written(pool: Pool, boot: str, names: dict[str, str]) -> bytes:
    """The text of a pool; `names` are for people who look into the file."""
    content = {
        "format": FORMAT,
        **names,
        "boot": boot,
        "at": pool.at,
        "news": pool.news,
        "curve": [pool.curve.level, pool.curve.at, _told(pool.curve.cut), pool.curve.good],
        "slices": pool.curve.slices,
        "closing": [
            pool.closing.until,
            _told(pool.closing.since),
            _told(pool.closing.opened),
            *pool.closing[3:],
        ],
        "buckets": [pool.calls, pool.tokens],
        "holders": pool.holders,
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def parsed(data: bytes, boot: str, now: float) -> Pool:
    """The pool in a file; a new one if the file is empty or of another boot. Raises ValueError, NewerError."""
    if not data.strip():
        return Pool()
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    version = found.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise NewerError
    if version != FORMAT:
        raise ValueError("it has no format")
    if found.get("boot") != boot:
        return Pool()  # its moments mean nothing here
    try:
        return _checked(_pool(found), now)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"a part of it is missing or of the wrong kind ({error})") from None


def _pool(found: dict[str, Any]) -> Pool:
    level, at, cut, good = found["curve"]
    until, since, opened, strikes, row, prober, met = found["closing"]
    calls, tokens = found["buckets"]
    return Pool(
        curve=Curve(
            _number(level),
            _number(at),
            _moment(cut),
            None if good is None else _number(good),
            tuple(_slice(each) for each in found["slices"]),
        ),
        closing=Closing(
            None if until is None else _number(until),
            _moment(since),
            _moment(opened),
            _count(strikes),
            _count(row),
            _text(prober),
            _text(met),
        ),
        calls=_bucket(calls),
        tokens=_bucket(tokens),
        holders={_text(name): _holder(parts) for name, parts in found["holders"].items()},
        at=_number(found["at"]),
        news=_count(found["news"]),
    )


def _checked(pool: Pool, now: float) -> Pool:
    """Moments that are yet to come would stop the limit's clock. Raises ValueError."""
    moments = (pool.at, pool.curve.at, pool.curve.cut, pool.closing.since, pool.closing.opened, pool.calls.at)
    if max(*moments, pool.tokens.at, pool.curve.good or 0.0) > now + 1.0:
        raise ValueError("it has a moment that is yet to come")
    if not 0.0 < pool.curve.level <= 1.0 or len(pool.curve.slices) > SLICES or len(pool.holders) > MOST_HOLDERS:
        raise ValueError("a number in it is out of bounds")
    return pool


def _slice(parts: list[Any]) -> Slice:
    number, calls, errors, timed, latency = parts
    return Slice(_count(number), _count(calls), _count(errors), _count(timed), _number(latency))


def _bucket(parts: list[Any]) -> Bucket:
    level, at = parts
    return Bucket(None if level is None else _number(level), _number(at))


def _holder(parts: list[Any]) -> Holder:
    given, flying, want, seen, starts = parts
    return Holder(_count(given), _count(flying), _count(want), _number(seen), _count(starts))


def _told(moment: float) -> float | None:
    """JSON has no infinity."""
    return None if math.isinf(moment) else moment


def _moment(value: Any) -> float:
    return -math.inf if value is None else _number(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("a number is wanted")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise TypeError("a count is wanted")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is wanted")
    return value
