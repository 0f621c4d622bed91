"""What is left of an account: sources are asked in their order, the first fresh answer counts, and each has a deadline.

A source that raises, hangs or answers nonsense costs its own answer and nothing else. What it raised is never repeated.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from agent_fleet.accounts import pins, quota
from agent_fleet.accounts.spec import Account
from agent_fleet.accounts.values import NO_SOURCE, QuotaReading, Window
from agent_fleet.accounts.windows import checked, moment, remaining
from agent_fleet.protocols import Provider, QuotaReader, Quotas
from agent_fleet.queue.files import BadFileError, read_json

T = TypeVar("T")

DEADLINE = 15.0  # seconds of one source
PATIENT = 120.0  # and of one that may ask a person
GRACE = 1.0  # seconds more, for a source that ends its own process at the deadline
_WORTH = {"fresh": 0, "rate_limited": 1, "auth_required": 2, "stale": 3, "error": 4, "unavailable": 5, "none": 6}


class Manual:
    """What a person wrote into the file that the profile's `quota_file` names."""

    name = "manual"

    def read(self, account: Account, deadline: float) -> QuotaReading | None:  # noqa: ARG002 - a file is read at once
        """The file's windows; None if the profile names no file. `observed_at` is the file's own, else when it was written."""
        named = account.options.get("quota_file")
        if not named:
            return None
        path = os.path.expanduser(str(named))
        try:
            given = read_json(path)
            written = os.stat(path).st_mtime
        except (OSError, BadFileError):
            return QuotaReading(status="unavailable", source=self.name, reason="file_unusable")
        now = time.time()
        rows = given.get("windows")
        return QuotaReading(
            status="fresh",
            source=self.name,
            observed_at=moment(given.get("observed_at", written), now),
            windows=tuple(_window(row, now) for row in rows if isinstance(row, dict)) if isinstance(rows, list) else (),
        )


def sources(provider: Provider, account: Account) -> list[QuotaReader]:
    """The sources for this account, in the order in which they are asked: the provider's own, and what a person wrote down.

    None at all where the provider has no numbers to read: an account on an API key has no windows.
    """
    if not isinstance(provider, Quotas):
        return [Manual()] if account.options.get("quota_file") else []
    answer = within(lambda: list(provider.quota_readers(account)), DEADLINE)
    return [*(answer if isinstance(answer, list) else []), Manual()]


def read_quota(
    readers: Sequence[QuotaReader],
    account: Account,
    *,
    fresh_for: float,
    who: str = "",
    deadline: float = DEADLINE,
    clock: Callable[[], float] = time.time,
) -> QuotaReading:
    """The first reading that is fresh and at most `fresh_for` seconds old; else the one that says most of why there is none.

    Without a source at all the status is `none`. One that names somebody else than `who`, whom the home is said to hold, ends
    it: which of the two is right is not known, and the numbers of the other sources may as well be those of the other account.
    """
    best = QuotaReading(status="none")
    for reader in readers:
        name = str(getattr(reader, "name", "unnamed"))
        answer = within(lambda each=reader: each.read(account, deadline), deadline + GRACE)  # type: ignore[misc]
        if answer is None:
            continue
        now = clock()
        failed = QuotaReading(status="error", source=name, reason="reader_failed")
        reading = failed if isinstance(answer, Failure) else checked(answer, name, now)
        if who and reading.account and pins.named(reading.account) != pins.named(who):
            return QuotaReading(status="unavailable", source=name, reason=quota.ANOTHER)
        if reading.status == "fresh" and reading.observed_at is not None and now - reading.observed_at > fresh_for:
            reading = replace(reading, status="stale", reason="too_old")
        if reading.status == "fresh":
            return reading
        if _rank(reading) < _rank(best):
            best = reading
    return best if best.status != "none" or not readers else QuotaReading(status="unavailable", reason=NO_SOURCE)


class Failure:
    """What `within` gives where there was no answer."""

    __slots__ = ()


def within(call: Callable[[], T], deadline: float) -> T | Failure:
    """The call's answer, or a `Failure` if it raises or takes longer. What it raised may quote a secret and is dropped."""
    answers: list[T | Failure] = []

    def run() -> None:
        try:
            answers.append(call())
        except Exception:  # noqa: BLE001 - a plugin may raise anything
            answers.append(Failure())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(deadline)
    return answers[0] if answers else Failure()


def _window(row: dict[str, object], now: float) -> Window:
    left = remaining(row.get("remaining_percent", row.get("percentRemaining")), row.get("percentUsed"))
    return Window(
        id=str(row.get("id", "unknown")),
        kind=str(row.get("kind", "other")),
        remaining=float("nan") if left is None else left,  # not a figure: the check leaves it out
        resets_at=moment(row.get("resets_at", row.get("resetsAt")), now),
    )


def _rank(reading: QuotaReading) -> int:
    return _WORTH.get(reading.status, len(_WORTH))
