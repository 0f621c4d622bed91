"""Who of several processes may have how many of the permits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

TURN = 1.0


class Holder(NamedTuple):
    """One process: permits it has, calls in flight, calls it would have in flight, starts it may still make, when it last asked."""

    granted: int
    flying: int
    want: int
    seen: float
    starts: int = 0


def fair(wants: Mapping[str, int], permits: int, now: float) -> dict[str, int]:
    """The permits divided so that nobody gets more than is wanted and nobody less than another, but for those left over.

    Those go round: each second others get them, so that with fewer permits than processes all have their turn.
    """
    shares = dict.fromkeys(sorted(wants), 0)
    left = permits
    while left > 0 and (open_ := [name for name in shares if shares[name] < wants[name]]):
        each = left // len(open_)
        if each == 0:
            first = int(now // TURN) * left % len(open_)
            for name in (open_[first:] + open_[:first])[:left]:
                shares[name] += 1
            break
        for name in open_:
            more = min(each, wants[name] - shares[name])
            shares[name] += more
            left -= more
    return shares


def granted(holders: Mapping[str, Holder], name: str, permits: int, now: float) -> int:
    """How many calls one of the holders may have in flight before it begins another; it may have more in flight already.

    What others hold beyond their share is not taken from them before they ask again or their calls have ended.
    """
    shares = fair({each: max(holder.want, holder.flying) for each, holder in holders.items()}, permits, now)
    others = sum(max(holder.granted, holder.flying) for each, holder in holders.items() if each != name)
    return max(0, min(shares[name], permits - others))
