"""What the windows of an account mean for new work. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from agent_fleet.accounts import windows
from agent_fleet.accounts.values import QuotaReading, Window
from agent_fleet.accounts.windows import GENERAL_IDS, GENERAL_KINDS

ANOTHER = "identity_contradicted"  # the reason of numbers that name somebody else than the home does


def believable(reading: QuotaReading, now: float) -> QuotaReading:
    """The reading with nothing in it that is not to be believed: one that calls itself fresh must have a general window."""
    found = windows.checked(reading, windows.token(reading.source, "unknown"), now)
    if found.status == "fresh" and headroom(found.windows) is None:
        return replace(found, status="unavailable", reason="invalid_quota")
    if found.status == "unavailable" and reading.status == "fresh":
        return replace(found, reason=found.reason or "missing_remote_verification_timestamp")
    return found


def headroom(given: Iterable[Window]) -> float | None:
    """The least that remains, in percent, over the windows that bound all work; None if none of them is known."""
    known = list(given)
    general = [w.remaining for w in known if w.id in GENERAL_IDS]
    general = general or [w.remaining for w in known if w.kind in GENERAL_KINDS]
    return min(general, default=None)


def next_reset(given: Iterable[Window], now: float) -> float | None:
    """When the first window that bounds all work is full again, of those that say."""
    return min(
        (
            w.resets_at
            for w in given
            if w.resets_at is not None and w.resets_at > now and (w.id in GENERAL_IDS or w.kind in GENERAL_KINDS)
        ),
        default=None,
    )
