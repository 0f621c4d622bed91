"""When no call may begin at all: a server that says "too many", or fails call after call, closes the gate for everybody. Pure.

It stays closed as long as the server asked for, plus a jitter that doubles from closing to closing. Then one call probes; a
success opens it, a failure closes it for longer. A hint of 0 is no hint, and none is kept to for longer than `max_wait`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from agent_fleet.throttle.terms import ANSWERED, CONGESTED, ERRORS, Observation, Terms, pause


class Closing(NamedTuple):
    """The gate. It is open while `until` is None; else nothing begins before that moment, and then one probe.

    `since` is the moment of the last closing, `opened` of the last opening; `strikes` counts closings that no quiet time lay
    between, `row` failures in a row; `prober` is who may try, `met` how the last failure ended that
    counted here.
    """

    until: float | None = None
    since: float = -math.inf
    opened: float = -math.inf
    strikes: int = 0
    row: int = 0
    prober: str = ""
    met: str = ""


def is_shut(closing: Closing, now: float) -> bool:
    """Whether nobody may begin a call, not even to probe."""
    return closing.until is not None and now < closing.until


def observed(closing: Closing, terms: Terms, seen: Observation, holder: str, now: float, draw: float) -> Closing:
    """The gate after one more call of a holder has ended. `draw` is a random number from 0 to 1."""
    is_probe = seen.probe and closing.until is not None and closing.prober == holder
    if seen.ending in ANSWERED:
        return _answered(closing, terms, now, is_probe=is_probe)
    if seen.ending not in ERRORS:
        return closing._replace(prober="") if is_probe else closing
    hint = min(terms.max_wait, seen.retry_after) if seen.retry_after and seen.retry_after > 0 else 0.0
    if not is_probe and (closing.until is not None or seen.began < closing.since):
        # it was on its way when the gate closed: no news, unless it knows of a longer wait
        until = max(closing.until or 0.0, now + hint + pause(closing.strikes, draw, terms))
        return closing._replace(until=until) if hint else closing
    row = closing.row + 1
    if not (is_probe or hint or seen.ending in CONGESTED or row >= terms.failures):
        return closing._replace(row=row, met=seen.ending)
    strikes = closing.strikes + 1
    until = max(closing.until or 0.0, now + hint + pause(strikes, draw, terms))
    return closing._replace(until=until, since=now, strikes=strikes, row=row, prober="", met=seen.ending)


def _answered(closing: Closing, terms: Terms, now: float, *, is_probe: bool) -> Closing:
    if is_probe and is_shut(closing, now):
        return closing._replace(row=0, prober="")
    if is_probe:
        return closing._replace(until=None, opened=now, row=0, prober="")
    if closing.until is None and closing.strikes and now >= closing.opened + terms.look:
        return closing._replace(strikes=0, row=0)
    return closing._replace(row=0) if closing.row else closing
