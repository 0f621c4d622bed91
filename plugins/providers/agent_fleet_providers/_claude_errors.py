"""What an error that Claude Code reports means for a task: from its typed fields first, from its words second.

The fields are those of its stream of events (2.1): `error` of an assistant message or a retry, `api_error`,
`api_error_status`, `subtype`, `terminal_reason`, and `rate_limit_info`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from agent_fleet.api import Outcome
from agent_fleet_providers._figures import price
from agent_fleet_providers._limits import banner, limit_kind, limit_model
from agent_fleet_providers._output import one_line
from agent_fleet_providers._resets import reset_time

Kind = Literal["limit", "auth", "overload", "refused", "failed"]

# A wall that only a person can take away: a login, an account, or its money.
AUTH = frozenset(
    {
        "authentication_failed",
        "oauth_org_not_allowed",
        "account_on_hold",
        "verification_required",
        "cloud_credential_error",
        "billing_error",
    }
)
OVERLOAD = frozenset({"overloaded", "server_error"})
REFUSED = frozenset({"model_not_found", "invalid_request"})
_STATUSES: Mapping[int, Kind] = {401: "auth", 402: "auth", 403: "auth", 408: "overload", 429: "limit"}


class Signs(NamedTuple):
    """The last error as far as the events tell; `status` is the HTTP status, None if no answer came."""

    error: str = ""
    api_error: str = ""
    status: int | None = None
    text: str = ""
    limit: Mapping[str, Any] = {}


def rejected(info: Mapping[str, Any]) -> bool:
    """Whether this says that an account's window is used up (`allowed_warning` is only a warning)."""
    return info.get("status") == "rejected" and info.get("isUsingOverage") is not True


def classify(signs: Signs, now: float) -> Outcome:
    """The outcome of an attempt that the API would not serve."""
    text = one_line(signs.text) or signs.error or "the API reported an error and did not say which"
    said = banner(signs.text, now, failed=True)
    # a login by token has every 429 told as a rejection; one that names neither window nor reset is a burst
    window = signs.limit.get("rateLimitType") or signs.limit.get("resetsAt") or signs.error != "rate_limit"
    if signs.api_error == "usage_limit_reached" or (rejected(signs.limit) and window):
        return _window(signs.limit, text, now)
    if signs.error not in AUTH and said is not None and said.kind == "limit":
        return Outcome(
            kind="limit", reason=text, limit=said.limit, model=limit_model(said.limit), resets_at=said.resets_at
        )
    kind: Kind = _by_error(signs.error) or _by_status(signs.status) or (said.kind if said else "failed")
    return Outcome(kind=kind, reason=_named(signs.error, text), limit="burst" if kind == "limit" else "")


def _by_error(error: str) -> Kind | None:
    if error == "rate_limit":
        return "limit"
    if error in AUTH:
        return "auth"
    if error in OVERLOAD:
        return "overload"
    return "refused" if error in REFUSED else None


def _by_status(status: int | None) -> Kind | None:
    if status is None or status < 400:
        return None
    if status >= 500:
        return "overload"
    return _STATUSES.get(status, "refused")


def _window(info: Mapping[str, Any], text: str, now: float) -> Outcome:
    """A used-up window. Its kind and its reset, in seconds since the epoch, are the event's, else the text's."""
    named = info.get("rateLimitType")
    kind = named if isinstance(named, str) and named else limit_kind(text)
    return Outcome(
        kind="limit",
        reason=text,
        limit=kind,
        model=limit_model(kind),
        resets_at=price(info.get("resetsAt")) or reset_time(text, now),
    )


def _named(error: str, text: str) -> str:
    """The text, with the typed error where it names a wall that the text may not make plain."""
    return f"{text} ({error})" if error in AUTH and error not in ("authentication_failed", text) else text
