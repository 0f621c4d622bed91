"""The adaptive limit: what calls turned out to be, in the order of a clock, to how many may be in flight. Pure.

- More than 5 % of the calls of the last 30 seconds failed: 20 % less, and no further cut for 30 seconds.
- Else, on average they took more than 2 seconds to answer: 10 % less, and no further cut for 30 seconds.
- Both good for 60 seconds: 10 % more, up to the baseline; another 60 seconds before the next step.

Never below 1, never above the baseline. A cut wants a sample, so that one failure among few calls is no rate. A call that
began before a cut says nothing about the limit after it and is not counted. All figures are those of `Terms`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from agent_fleet.throttle.terms import ERRORS, Observation, Terms

SLICES = 6  # parts of the window; it moves on by one part at a time
_ROUNDING = 1e-9


class Slice(NamedTuple):
    """What ended in one part of the window; `latency` is the sum of the `timed` calls, in seconds."""

    number: int
    calls: int = 0
    errors: int = 0
    timed: int = 0
    latency: float = 0.0


class Curve(NamedTuple):
    """The state of the limit. `level` is the part of the baseline that is in force, above 0 and at most 1.

    `at` is the newest moment seen, `cut` that of the last cut; `good` is since when all was well, None if it is not.
    """

    level: float = 1.0
    at: float = 0.0
    cut: float = -math.inf
    good: float | None = None
    slices: tuple[Slice, ...] = ()


def limit(curve: Curve, terms: Terms) -> float:
    """The limit as the rules compute it, a number with a fraction."""
    return min(float(terms.calls), max(1.0, curve.level * terms.calls))


def permits(curve: Curve, terms: Terms) -> int:
    """How many calls may be in flight."""
    return int(limit(curve, terms) + _ROUNDING)


def observed(curve: Curve, terms: Terms, seen: Observation) -> Curve:
    """The limit after one more call has ended. A moment before the newest one counts as that one."""
    now = max(curve.at, seen.at)
    failed = seen.ending in ERRORS
    if seen.began < curve.cut or not (failed or seen.ending == "ok"):
        return curve._replace(at=now)
    width = terms.look / SLICES
    number = int(now // width) if width > 0 else 0
    # after a silence longer than the window nobody knows how it was meanwhile
    good = curve.good if curve.slices and curve.slices[-1].number > number - SLICES else None
    kept = _added(curve.slices, number, seen, failed=failed)
    return _judged(curve._replace(at=now, good=good, slices=kept), terms, now)


def _added(slices: tuple[Slice, ...], number: int, seen: Observation, *, failed: bool) -> tuple[Slice, ...]:
    kept = tuple(each for each in slices if each.number > number - SLICES)
    last = kept[-1] if kept and kept[-1].number == number else Slice(number)
    timed = not failed and seen.latency is not None
    more = Slice(
        number,
        last.calls + 1,
        last.errors + failed,
        last.timed + timed,
        last.latency + (max(0.0, seen.latency or 0.0) if timed else 0.0),
    )
    return (*(kept[:-1] if last.calls else kept), more)


def _judged(curve: Curve, terms: Terms, now: float) -> Curve:
    calls = errors = timed = 0
    latency = 0.0
    for each in curve.slices:
        calls += each.calls
        errors += each.errors
        timed += each.timed
        latency += each.latency
    failing = errors > terms.errors * calls
    slow = latency > terms.latency * timed
    if not failing and not slow:
        return _risen(curve, terms, now)
    curve = curve._replace(good=None)
    if now < curve.cut + terms.look:
        return curve
    if failing and calls >= terms.sample:
        return _cut(curve, terms, now, terms.error_cut)
    if slow and timed >= terms.sample:
        return _cut(curve, terms, now, terms.latency_cut)
    return curve


def _cut(curve: Curve, terms: Terms, now: float, part: float) -> Curve:
    level = max(1.0 / terms.calls, min(1.0, curve.level) * (1.0 - part))
    return curve._replace(level=level, cut=now, slices=())


def _risen(curve: Curve, terms: Terms, now: float) -> Curve:
    if curve.good is None:
        return curve._replace(good=now)
    if curve.level >= 1.0 or now < curve.good + terms.calm:
        return curve
    return curve._replace(level=min(1.0, max(1.0 / terms.calls, curve.level) * (1.0 + terms.rise)), good=now)
