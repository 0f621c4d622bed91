"""A token bucket with debt: what a call used is known only when it is over, so a level may go below nothing. Pure.

While the level is below what is needed nothing new begins; debt is paid back at the rate. It holds at most ten seconds' worth.
"""

from __future__ import annotations

from typing import NamedTuple

BURST = 10.0


class Bucket(NamedTuple):
    """`level` in the unit of the rate; None until it was first used, which is full."""

    level: float | None = None
    at: float = 0.0


def refilled(bucket: Bucket, rate: float, now: float) -> Bucket:
    """The bucket at a moment, `rate` in units a second. Time that runs back adds nothing and takes nothing."""
    most = _most(rate)
    if bucket.level is None:
        return Bucket(most, now)
    later = max(now, bucket.at)
    return Bucket(min(most, bucket.level + (later - bucket.at) * rate), later)


def charged(bucket: Bucket, amount: float) -> Bucket:
    """The bucket after something was used, or, below 0, given back."""
    return bucket._replace(level=(bucket.level or 0.0) - amount)


def wait(bucket: Bucket, rate: float, need: float) -> float:
    """Seconds until the level reaches `need`; 0 if it does."""
    missing = min(need, _most(rate)) - (bucket.level or 0.0)
    return missing / rate if missing > 0 else 0.0


def _most(rate: float) -> float:
    """A bucket holds at least one unit, else a slow rate would never let anything through."""
    return max(1.0, rate * BURST)
