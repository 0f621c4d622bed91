"""What is left of a Claude plan, as far as Claude Code told it in the events of its last run: `rate_limit_event` (2.1).

`unifiedWindows` gives each window's use as a fraction. A run on an API key, and one that came nowhere near a limit, prints none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from agent_fleet.api import Account, QuotaReading, Window, moment, remaining
from agent_fleet_providers._figures import table
from agent_fleet_providers._records import loaded, tail

TAIL = 8 << 20
KINDS = {"five_hour": "session", "seven_day": "weekly"}
MOST_USED = 1.5  # a fraction above this is none: it may as well be a percentage


class LastRun:
    """The last event about limits in the log of the account's last run."""

    name = "claude-last-run"

    def read(self, account: Account, deadline: float) -> QuotaReading | None:  # noqa: ARG002 - a file is read at once
        """The windows of that event, as old as the events beside it; None if the log has no such event."""
        if not account.last_output:
            return None
        lines = tail(account.last_output, TAIL)
        now = time.time()
        for number in range(len(lines) - 1, -1, -1):
            if b'"rate_limit_event"' not in lines[number]:
                continue
            event = loaded(lines[number])
            info = table(event.get("rate_limit_info"))
            if event.get("type") == "rate_limit_event" and info:
                at = _when(event, (*reversed(lines[:number]), *lines[number + 1 :]), now)
                return reading(info, self.name, at, now)
        return None


def reading(info: Mapping[str, Any], source: str, at: float | None, now: float) -> QuotaReading | None:
    """What the event says, None if it names no window."""
    found = [
        Window(
            id=str(name),
            kind=KINDS.get(str(name), "model" if str(name).startswith("seven_day_") else "other"),
            remaining=math.nan if left is None else left,  # not a figure: the check knows that this window is unknown
            resets_at=moment(row.get("resetsAt"), now),
            observed_at=at,
        )
        for name, row in ((name, table(row)) for name, row in table(info.get("unifiedWindows")).items())
        if row.get("status") == "rejected" or row.get("utilization") is not None
        for left in (_left(row),)
    ]
    named = info.get("rateLimitType")
    rejected = info.get("status") == "rejected"
    if rejected and isinstance(named, str) and named not in {window.id for window in found}:
        window = Window(
            id=named,
            kind=KINDS.get(named, "other"),
            remaining=0.0,
            resets_at=moment(info.get("resetsAt"), now),
            observed_at=at,
        )
        found.append(window)
    if all(math.isnan(window.remaining) for window in found):
        return None
    return QuotaReading(status="fresh", source=source, observed_at=at, windows=tuple(found))


def _left(row: Mapping[str, Any]) -> float | None:
    if row.get("status") == "rejected":
        return 0.0
    used = row.get("utilization")
    if isinstance(used, bool) or not isinstance(used, (int, float)) or not 0 <= used <= MOST_USED:
        return None
    return remaining(None, 100.0 * used)


def _when(event: Mapping[str, Any], others: Iterable[bytes], now: float) -> float | None:
    """When the event was printed: its own time, else that of the nearest event before it, else of the first one after it."""
    for line in (None, *others):
        entry = event if line is None else loaded(line) if b'"timestamp"' in line else {}
        found = moment(entry.get("timestamp"), now)
        if found is not None:
            return found
    return None
