"""What is left of an account, asked of `quota-axi` (https://www.npmjs.com/package/quota-axi), if the registry names that program.

Its reply (0.1.7 to 0.1.40) has `providers[]` with `source`, `account`, `state.status` and `windows[]`. A reply from its cache or
from the login of another program is none about this account.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from agent_fleet.api import Account, QuotaReading, Window, moment, remaining
from agent_fleet_providers._asking import output_of
from agent_fleet_providers._figures import table

TOOL = "quota-axi"
CACHE = ".agent-fleet-quota-cache"
FOREIGN = ("cache", "unavailable")
Status = Literal["fresh", "stale", "unavailable", "auth_required", "rate_limited", "error"]
STATUSES: dict[str, Status] = {
    "fresh": "fresh",
    "stale": "stale",
    "unavailable": "unavailable",
    "auth_required": "auth_required",
    "rate_limited": "rate_limited",
    "error": "error",
}


class QuotaAxi:
    """One question to the program, for the provider of this name."""

    name = TOOL

    def __init__(self, provider: str, identity: Callable[[Account], str | None]) -> None:
        self._provider = provider
        self._identity = identity

    def read(self, account: Account, deadline: float) -> QuotaReading | None:
        """Its answer; None if no such program is configured."""
        program = account.tools.get(TOOL)
        if not program or not account.home:
            return None
        env = {**account.environ, "XDG_CACHE_HOME": os.path.join(account.home, CACHE)}
        if self._provider == "codex" and account.binary:
            env["QUOTA_AXI_CODEX_BINARY"] = account.binary
        argv = [program, "--provider", self._provider, "--json", "--full"]
        if account.may_ask and self._provider == "claude":  # only this one's login lies in a keychain
            argv.append("--allow-keychain-prompt")
        output = output_of(argv, env=env, cwd=account.home, deadline=deadline)
        if output is None:
            return QuotaReading(status="unavailable", source=TOOL, reason="no_answer")
        return reading(output, self._provider, self._identity(account) or "", time.time())


def reading(output: bytes, provider: str, who: str, now: float) -> QuotaReading:
    """The reply about this provider, where the home says that it holds `who`.

    Whatever is not of the known form is an error without words.
    """
    row = _row(output, provider)
    if row is None:
        return QuotaReading(status="error", source=TOOL, reason="not_understood")
    state = table(row.get("state"))
    status = _status(state, row.get("source"))
    rows = row.get("windows")
    untrusted = state.get("untrustedWindowIds")
    doubted = set(map(str, untrusted)) if isinstance(untrusted, list) else set()
    windows = [_window(each, doubted, now) for each in rows if isinstance(each, dict)] if isinstance(rows, list) else []
    return QuotaReading(
        status=status,
        source=TOOL,
        observed_at=moment(state.get("refreshedAt"), now),
        windows=tuple(window for window in windows if window is not None),
        reason="" if status == "fresh" else status,
        account=_account(row, who),
    )


def _row(output: bytes, provider: str) -> Mapping[str, Any] | None:
    try:
        rows = table(json.loads(output)).get("providers")
    except (ValueError, RecursionError):
        return None
    found = [table(each) for each in rows if table(each).get("provider") == provider] if isinstance(rows, list) else []
    return found[0] if len(found) == 1 else None


def _status(state: Mapping[str, Any], source: object) -> Status:
    status = STATUSES.get(str(state.get("status")), "unavailable")
    text = str(state.get("error") or "").lower()
    if status == "stale" and any(word in text for word in ("sign-in", "required", "reauth", "revoked")):
        return "auth_required"
    if status == "stale" and "rate limit" in text:
        return "rate_limited"
    return "stale" if status == "fresh" and (_is_foreign(source) or state.get("stale") is True) else status


def _is_foreign(source: object) -> bool:
    return isinstance(source, str) and (source in FOREIGN or ":" in source)


def _window(row: Mapping[str, Any], doubted: set[str], now: float) -> Window | None:
    """The window, None where nothing is said of it. One that is doubted has no figure: the check knows that it is unknown."""
    figures = row.get("percentRemaining"), row.get("percentUsed")
    if figures == (None, None) or not isinstance(row.get("id"), str):
        return None
    left = None if row["id"] in doubted else remaining(*figures)
    return Window(
        id=str(row["id"]),
        kind=str(row.get("kind", "other")),
        remaining=math.nan if left is None else left,
        resets_at=moment(row.get("resetsAt"), now),
    )


def _account(row: Mapping[str, Any], who: str) -> str:
    """Who the reply says it is about, in the words of the provider's identity; empty if it does not, or is not sure.

    A reply names no organisation and no user, so that it confirms the identity that it agrees with.
    """
    account = table(row.get("account"))
    said = account.get("accountId") or account.get("account_id")
    if account.get("identityStatus") == "unverified" or not isinstance(said, str) or not said.strip():
        return ""
    if _is_foreign(row.get("source")):
        return ""
    named = f"account:{said.strip().lower()}:"
    return who if who.startswith(named) else named
