"""What all processes share of one account, endpoint and model: the limit, the gate, the buckets, and who has which permits. Pure.

A process hands in what happened and what it wants, and gets permits for a short time. It makes as many calls with them as it
likes, so that a thousand agents need no lock for each call. Calls in flight are never taken back: after a cut the permits sink as
calls end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_fleet.throttle import bucket, closing, curve, shares
from agent_fleet.throttle.bucket import Bucket
from agent_fleet.throttle.closing import Closing
from agent_fleet.throttle.curve import Curve
from agent_fleet.throttle.shares import Holder
from agent_fleet.throttle.terms import Observation, Terms

LEASE = 2.0  # seconds that permits are good for without being asked for again
RENEW = 0.25  # seconds after which a process that works asks again
HUNG = 30.0  # seconds of silence after which a process that lives keeps no more than the calls it told of
POLL = 0.05  # the same while it has no permit and nothing says when there will be one
UNLIMITED = 1 << 40


class Report(NamedTuple):
    """What a process says: calls in flight, calls it would have in flight, starts of its allowance used, and what has ended.

    `is_probing` says that its probe is in flight.
    """

    flying: int = 0
    want: int = 0
    started: int = 0
    seen: tuple[Observation, ...] = ()
    is_probing: bool = False


class Grant(NamedTuple):
    """What a process may do: have `permits` calls in flight, begin `starts` more, until `ends`; ask again at `again`.

    `is_probe`: the one start tries a closed gate. `is_full`: all that was wanted was given. `limit`, `strikes` and `closed`
    (seconds until a closed gate is tried, else 0) are for people.
    """

    permits: int
    starts: int
    ends: float
    again: float
    is_probe: bool = False
    is_full: bool = False
    limit: float = 0.0
    strikes: int = 0
    closed: float = 0.0


@dataclass(slots=True)
class Pool:
    """The state in the shared file. `news` counts what no process may overlook until it asks again: closings and cuts."""

    curve: Curve = field(default_factory=Curve)
    closing: Closing = field(default_factory=Closing)
    calls: Bucket = field(default_factory=Bucket)
    tokens: Bucket = field(default_factory=Bucket)
    holders: dict[str, Holder] = field(default_factory=dict)
    at: float = 0.0
    news: int = 0

    def silent(self, now: float) -> list[str]:
        """The holders that have not asked for longer than permits are good."""
        return [name for name, holder in self.holders.items() if now > holder.seen + LEASE]

    def forget(self, name: str) -> None:
        """Take back what a process had that is no more; what it was yet to report is unknown and counts for nothing."""
        self.holders.pop(name, None)
        if self.closing.prober == name:
            self.closing = self.closing._replace(prober="")

    def exchange(self, terms: Terms, name: str, report: Report, now: float, draw: float) -> Grant:
        """Take in a process's report and say what it may do now. `draw` is a random number from 0 to 1."""
        self.at = now = max(self.at, now)
        self._learn(terms, name, report, now, draw)
        self._enlist(name, report, now)
        self._charge(terms, name, report, now)
        held = self.holders.get(name)
        if held is None:
            return self._told(terms, Grant(0, 0, now, math.inf, is_full=True), now)
        grant = self._grant(terms, name, held, now)
        self.holders[name] = held._replace(granted=max(held.flying, grant.permits), starts=min(grant.starts, UNLIMITED))
        return self._told(terms, grant, now)

    def _learn(self, terms: Terms, name: str, report: Report, now: float, draw: float) -> None:
        for seen in report.seen:
            before = self.curve.cut, self.closing.until
            known = seen._replace(at=min(seen.at, now))
            self.curve = curve.observed(self.curve, terms, known)
            self.closing = closing.observed(self.closing, terms, known, name, now, draw)
            self.news += before != (self.curve.cut, self.closing.until)
        if self.closing.prober == name and not report.is_probing:
            self.closing = self.closing._replace(prober="")

    def _enlist(self, name: str, report: Report, now: float) -> None:
        for other in self.silent(now):
            holder = self.holders[other]
            kept = holder.granted if now <= holder.seen + HUNG else holder.flying
            self.holders[other] = holder._replace(granted=kept, want=kept)
            if self.closing.prober == other:
                self.closing = self.closing._replace(prober="")
        if not report.want and not report.flying:
            before = self.holders.get(name)
            self.forget(name)
            if before and before.starts < UNLIMITED and self.calls.level is not None:
                self.calls = bucket.charged(self.calls, report.started - before.starts)
            return
        before = self.holders.get(name, Holder(0, 0, 0, now))
        self.holders[name] = before._replace(flying=report.flying, want=report.want, seen=now)

    def _charge(self, terms: Terms, name: str, report: Report, now: float) -> None:
        if terms.tokens_per_minute > 0:
            self.tokens = bucket.refilled(self.tokens, terms.tokens_per_minute / 60, now)
            self.tokens = bucket.charged(self.tokens, sum(max(0, seen.tokens) for seen in report.seen))
        if terms.calls_per_minute > 0:
            self.calls = bucket.refilled(self.calls, terms.calls_per_minute / 60, now)
            held = self.holders.get(name)
            if held and held.starts < UNLIMITED:
                # starts were paid for when they were allowed: what is left of them comes back
                self.calls = bucket.charged(self.calls, report.started - held.starts)

    def _grant(self, terms: Terms, name: str, held: Holder, now: float) -> Grant:
        nothing = Grant(held.flying, 0, now + LEASE, now + RENEW)
        if closing.is_shut(self.closing, now):
            return nothing._replace(again=min(now + LEASE / 2, self.closing.until or now))
        if self.closing.until is not None:
            return self._probe(name, held, nothing)
        if terms.tokens_per_minute > 0:
            debt = bucket.wait(self.tokens, terms.tokens_per_minute / 60, 0.0)
            if debt > 0:
                return nothing._replace(again=now + min(debt, LEASE / 2))
        permits = shares.granted(self.holders, name, curve.permits(self.curve, terms), now)
        grant = nothing._replace(permits=permits, starts=UNLIMITED, is_full=permits >= held.want)
        if permits <= 0:
            grant = grant._replace(again=now + POLL)
        return self._rationed(terms, held, grant, now) if terms.calls_per_minute > 0 else grant

    def _probe(self, name: str, held: Holder, nothing: Grant) -> Grant:
        if self.closing.prober or held.want <= held.flying:
            return nothing
        self.closing = self.closing._replace(prober=name)
        return nothing._replace(permits=held.flying + 1, starts=1, is_probe=True)

    def _rationed(self, terms: Terms, held: Holder, grant: Grant, now: float) -> Grant:
        rate = terms.calls_per_minute / 60
        starts = min(max(0, int(self.calls.level or 0.0)), max(0, held.want - held.flying))
        self.calls = bucket.charged(self.calls, starts)
        if starts:
            return grant._replace(starts=starts)
        again = now + max(POLL, bucket.wait(self.calls, rate, 1.0))
        return grant._replace(starts=0, is_full=False, again=min(again, now + LEASE / 2))

    def _told(self, terms: Terms, grant: Grant, now: float) -> Grant:
        shut = self.closing.until
        return grant._replace(
            limit=curve.limit(self.curve, terms),
            strikes=self.closing.strikes,
            closed=0.0 if shut is None else max(0.0, shut - now),
        )
