"""What is left of a Codex plan: asked of Codex's own server, or read from what Codex wrote down after its last answers."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from agent_fleet.api import Account, QuotaReading, Window, moment, remaining, window_name
from agent_fleet_providers._asking import ask
from agent_fleet_providers._figures import table
from agent_fleet_providers._records import loaded, tail

REQUESTS = (
    {
        "id": 1,
        "method": "initialize",
        "params": {"clientInfo": {"name": "agent-fleet", "title": "fleet", "version": "1"}},
    },
    {"method": "initialized"},
    {"id": 2, "method": "account/rateLimits/read", "params": None},
)
FILES = 20  # newest files of threads that are looked into
TAIL = 4 << 20  # bytes of each


class Server:
    """`account/rateLimits/read` of `codex app-server` (0.171): the provider's own answer of this moment."""

    name = "codex-app-server"

    def read(self, account: Account, deadline: float) -> QuotaReading | None:
        """What the server says; None without a program. A login with an API key has no windows, and says so."""
        if not account.binary or not account.home:
            return None
        said = b"".join(json.dumps(each).encode() + b"\n" for each in REQUESTS)
        answer = ask(
            (account.binary, "app-server"),
            env=account.environ,
            cwd=account.home,
            said=said,
            wanted=_answer,
            deadline=deadline,
        )
        if answer is None:
            return QuotaReading(status="unavailable", source=self.name, reason="no_answer")
        if "error" in answer:
            return QuotaReading(status="unavailable", source=self.name, reason="refused")
        limits = table(table(answer.get("result")).get("rateLimits"))
        now = time.time()
        windows = _windows(limits, ("usedPercent", "windowDurationMins", "resetsAt"), now)
        return QuotaReading(status="fresh", source=self.name, observed_at=now, windows=windows)


class Rollout:
    """The figures that came with the last answer of the model, in the newest file of a thread."""

    name = "codex-rollout"

    def read(self, account: Account, deadline: float) -> QuotaReading | None:  # noqa: ARG002 - files are read at once
        """What the file says, as old as that answer; None if no file tells."""
        now = time.time()
        for path in _newest(os.path.join(account.home, "sessions")) if account.home else ():
            found = _last_limits(path)
            if found is None:
                continue
            limits, at = found
            windows = _windows(limits, ("used_percent", "window_minutes", "resets_at"), now)
            if not all(math.isnan(window.remaining) for window in windows):
                return QuotaReading(status="fresh", source=self.name, observed_at=moment(at, now), windows=windows)
        return None


def _answer(output: bytes) -> Mapping[str, Any] | None:
    """The answer to the second request among the lines that are complete."""
    for line in output.split(b"\n")[:-1]:
        message = loaded(line)
        if message.get("id") == 2 and ("result" in message or "error" in message):
            return message
    return None


def _windows(limits: Mapping[str, Any], names: tuple[str, str, str], now: float) -> tuple[Window, ...]:
    used, minutes, resets = names
    found = []
    for part in ("primary", "secondary"):
        row = table(limits.get(part))
        if row.get(used) is None:
            continue
        left = remaining(None, row.get(used))
        name, kind = window_name(row.get(minutes))
        told = math.nan if left is None else left  # not a figure: the check knows that this window is unknown
        found.append(Window(id=name, kind=kind, remaining=told, resets_at=moment(row.get(resets), now)))
    return tuple(found)


def _newest(sessions: str) -> list[str]:
    """The newest files of threads: the folders are years, months and days."""
    found: list[str] = []
    for folder in _days(sessions):
        files = [each for each in _entries(folder) if each.endswith(".jsonl")]
        found += sorted(files, key=_changed, reverse=True)
        if len(found) >= FILES:
            break
    return sorted(found[:FILES], key=_changed, reverse=True)


def _days(sessions: str) -> Iterator[str]:
    for year in reversed(_entries(sessions)):
        for month in reversed(_entries(year)):
            yield from reversed(_entries(month))


def _entries(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        return []


def _changed(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _last_limits(path: str) -> tuple[Mapping[str, Any], object] | None:
    """The last figures in a file, and when they were written."""
    for line in reversed(tail(path, TAIL)):
        if b'"token_count"' not in line or b'"rate_limits"' not in line:
            continue
        entry = loaded(line)
        payload = table(entry.get("payload"))
        limits = table(payload.get("rate_limits"))
        if payload.get("type") == "token_count" and limits:
            return limits, entry.get("timestamp")
    return None
