"""How the limits that calls share stand, for a person: how many calls are on their way, how many wait, and what they wait for."""

from __future__ import annotations

from typing import NamedTuple

from agent_fleet import identity
from agent_fleet.accounts.vault import uptime
from agent_fleet.errors import FleetError
from agent_fleet.text import count, duration
from agent_fleet.throttle import curve
from agent_fleet.throttle.shared import every
from agent_fleet.throttle.terms import MEANT, Terms


class Standing(NamedTuple):
    """One account, endpoint and model. `allowed` calls may be on their way at once, of `baseline` while all is well; `flying` are,
    `waiting` more would be. While the gate is `closed` none begins, and one tries in so many seconds (0: now); None if it is
    open. `met` is what the last failed call met, empty if that is unknown. `processes` are the identities of those that call.
    """

    account: str
    endpoint: str
    model: str
    allowed: int
    baseline: int
    flying: int
    waiting: int
    closed: float | None
    met: str
    processes: tuple[str, ...]

    @property
    def said(self) -> str:
        """It in one line."""
        who = f"calls of {self.account} to {self.model or 'its own model'} at {self.endpoint}"
        ways = f"{self.flying:,} on their way, {self.waiting:,} wait"
        if self.closed is None:
            cut = f", cut from {self.baseline:,} by failures or slow answers" if self.allowed < self.baseline else ""
            return f"{who}: {ways}; {count(self.allowed, 'call')} at once{cut}"
        met = f", the last of which met {self.met}" if self.met else ""
        when = f"in {duration(self.closed)}" if self.closed else "now"
        return f"{who}: {ways}; none begins after failures{met}; one is to try {when}"


def standings(state: str, terms: Terms) -> list[Standing]:
    """The limits under which anybody calls now, below the user's state directory; one that cannot be read now is left out."""
    found = []
    for shared in every(state):
        try:
            pool = shared.look()
        except (FleetError, OSError):
            continue
        holders = [each for each in pool.holders.items() if identity.is_alive(_process(each[0])) is not False]
        if not holders:
            continue
        until = pool.closing.until
        flying = sum(holder.flying for _, holder in holders)
        found.append(
            Standing(
                **shared.names,
                allowed=curve.permits(pool.curve, terms),
                baseline=terms.calls,
                flying=flying,
                waiting=max(0, sum(holder.want for _, holder in holders) - flying),
                closed=None if until is None else max(0.0, until - uptime()),
                met=_meaning(pool.closing.met),
                processes=tuple(sorted({_process(name) for name, _ in holders})),
            )
        )
    return found


def _meaning(ending: str) -> str:
    return next((text for name, text in MEANT.items() if name == ending), "")


def _process(holder: str) -> str:
    return holder.partition("/")[0]
