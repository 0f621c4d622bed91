"""What was last seen of each account, kept for a while: who it is and what it has left. Anybody may lose it.

A proof is good while it is young, the credentials still look as they did, and no window has been refilled since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from agent_fleet.accounts import quota, windows
from agent_fleet.accounts.registry import Rules
from agent_fleet.accounts.stored import check_schema, iso, number, seconds
from agent_fleet.accounts.values import CredentialState, Proof, Window
from agent_fleet.accounts.vault import Vault
from agent_fleet.queue.files import BadFileError

DIRECTORY = "quota"
_STATES: tuple[str, ...] = get_args(CredentialState)
_SKEW = 5.0


def is_good(proof: Proof | None, stamp: str, rules: Rules, now: float) -> bool:
    """Whether new work may rest on this proof without another look."""
    if proof is None or proof.status not in ("fresh", "none") or proof.stamp != stamp:
        return False
    moments = (proof.made_at, proof.made_at if proof.observed_at is None else proof.observed_at)
    is_young = all(_is_young(moment, now, rules.quota_stale_seconds) for moment in moments)
    return is_young and not _is_refilled(proof, now)


def is_due(proof: Proof | None, stamp: str, rules: Rules, now: float) -> bool:
    """Whether another look is worth its price. A failure is not asked about again at once: endpoints count their callers."""
    if proof is None or proof.stamp != stamp:
        return True
    if proof.status in ("fresh", "none"):
        return not is_good(proof, stamp, rules, now)
    return not _is_young(proof.made_at, now, rules.quota_retry_seconds)


def is_recent(proof: Proof, rules: Rules, now: float) -> bool:
    """Whether the proof still says who the account is, for finding one account under two labels."""
    return _is_young(proof.made_at, now, rules.quota_verification_grace_seconds)


def _is_young(at: float, now: float, most: float) -> bool:
    return -_SKEW <= now - at <= most


def _is_refilled(proof: Proof, now: float) -> bool:
    return any(window.resets_at is not None and proof.made_at < window.resets_at <= now for window in proof.windows)


def record(proof: Proof) -> dict[str, Any]:
    """The proof as a file and as an answer; nothing in it is a provider's own text."""
    return {
        "schema": 1,
        "profile": proof.profile,
        "provider": proof.provider,
        "status": proof.status,
        "reported_status": proof.status,
        "reason": proof.reason or None,
        "headroom_percent": quota.headroom(proof.windows),
        "windows": [_window(window) for window in proof.windows],
        "verified_at": None if proof.observed_at is None else iso(proof.observed_at),
        "refreshed_at": iso(proof.made_at),
        "identity_fingerprint": proof.fingerprint or None,
        "identity_broader": proof.broader or None,
        "identity_source": proof.source or None,
        "credential_state": proof.credential,
        "source": proof.source,
        "stamp": proof.stamp,
    }


def _window(window: Window) -> dict[str, Any]:
    return {
        "id": window.id,
        "kind": window.kind,
        "remaining_percent": window.remaining,
        "resets_at": None if window.resets_at is None else iso(window.resets_at),
        "observed_at": None if window.observed_at is None else iso(window.observed_at),
    }


def parse(found: Mapping[str, Any], profile: str) -> Proof:
    """A stored proof of ours. Raises BadFileError, also for another program's: its fingerprints are not ours."""
    check_schema(found, 1)
    stamp, status, credential = found.get("stamp"), found.get("status"), found.get("credential_state")
    if found.get("profile") != profile or not isinstance(found.get("provider"), str):
        raise BadFileError("it is the proof of another profile than its name says")
    if not isinstance(stamp, str) or status not in windows.STATUSES or credential not in _STATES:
        raise BadFileError("its fields are not those of a proof")
    rows = found.get("windows")
    if not isinstance(rows, list):
        raise BadFileError("windows is no list")
    return Proof(
        profile=profile,
        provider=found["provider"],
        status=status,
        made_at=seconds(found.get("refreshed_at"), "refreshed_at"),
        observed_at=_time(found.get("verified_at")),
        windows=tuple(_read_window(row) for row in rows),
        source=windows.token(found.get("source"), ""),
        reason=windows.token(found.get("reason"), ""),
        fingerprint=_fingerprint(found.get("identity_fingerprint")),
        broader=_fingerprint(found.get("identity_broader")),
        stamp=stamp,
        credential=credential,
    )


def _fingerprint(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise BadFileError("its fingerprint is none")
    return value


def _read_window(found: object) -> Window:
    if not isinstance(found, Mapping):
        raise BadFileError("a window is no object")
    name, kind = windows.token(found.get("id"), ""), windows.token(found.get("kind"), "")
    remaining = number(found.get("remaining_percent"), "remaining_percent")
    if not name or not kind or not 0 <= remaining <= 100:
        raise BadFileError("a window is none")
    return Window(
        id=name,
        kind=kind,
        remaining=remaining,
        resets_at=_time(found.get("resets_at")),
        observed_at=_time(found.get("observed_at")),
    )


def _time(value: object) -> float | None:
    return None if value is None else seconds(value, "a time")


def view(proof: Proof | None, profile: str, provider: str, rules: Rules, now: float) -> dict[str, Any]:
    """The proof as it is shown, with its age and whether it would do; `no_cache` where there is none."""
    known = proof or Proof(profile=profile, provider=provider, status="unavailable", made_at=now, reason="no_cache")
    observed = known.observed_at
    return {
        **{key: value for key, value in record(known).items() if key not in ("stamp", "identity_broader")},
        "age_seconds": None if proof is None else max(0, int(now - known.made_at)),
        "verification_age_seconds": None if observed is None else max(0, int(now - observed)),
        "verified_recent": proof is not None and is_recent(known, rules, now) and bool(known.fingerprint),
        "fresh": is_good(proof, known.stamp, rules, now),
    }


class Proofs:
    """The cache of one vault."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    def of(self, profile: str) -> Proof | None:
        """The last proof of a profile; None if there is none that can be read: it is made again."""
        try:
            found = self.vault.read(DIRECTORY, f"{profile}.json")
            return None if found is None else parse(found, profile)
        except BadFileError:
            return None

    def write(self, proof: Proof) -> None:
        self.vault.write((DIRECTORY, f"{proof.profile}.json"), record(proof), durable=False)

    def spoil(self, profile: str) -> None:
        """Let the next choice look again, whatever is kept of the profile."""
        known = self.of(profile)
        if known is not None:
            self.write(replace(known, made_at=0.0, observed_at=None))
