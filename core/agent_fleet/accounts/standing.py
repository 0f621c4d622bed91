"""How profiles and pools stand, as they are told. Pure; the verdicts are those of a choice made now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent_fleet.accounts import cooldowns, proofs, quota, selection
from agent_fleet.accounts.selection import EXPLICIT, Request, Situation, Verdict
from agent_fleet.accounts.stored import iso
from agent_fleet.accounts.values import Profile

_BINDING = ("identity_binding_", "duplicate_provider_identity")
_LIVE = (quota.ANOTHER, "identity_unavailable", "credential_source_changed", "fresh_remote_identity_proof_required")


def judged(situation: Situation, pool: str = EXPLICIT, provider: str | None = None) -> list[tuple[Profile, Verdict]]:
    """The verdict on each profile of a pool for a task that has no lease yet."""
    request = Request(task="", pool=pool, provider=provider, workspace="")
    return [
        (profile, selection.judge(profile, request, situation))
        for profile in selection.candidates(request, situation.registry)
    ]


def row(profile: Profile, verdict: Verdict, situation: Situation) -> dict[str, Any]:
    """One profile in the status of a pool."""
    rules, proof = situation.registry.rules, situation.proofs.get(profile.id)
    ready = situation.readiness.get(profile.id)
    cached = proofs.view(proof, profile.id, profile.provider, rules, situation.now)
    closing = situation.cooldowns.get(profile.id)
    return {
        "profile": profile.id,
        "enabled": profile.enabled,
        "provisioned": bool(ready and ready.provisioned),
        "auth_status": auth_status(profile, situation),
        "active_leases": situation.active(profile.id),
        "max_concurrent": profile.max_concurrent,
        "quota_fresh": verdict.fresh,
        "cached_quota_fresh": cached["fresh"],
        "quota_status": cached["status"],
        "verified_recent": cached["verified_recent"],
        "headroom_percent": cached["headroom_percent"],
        "adjusted_headroom_percent": verdict.score if verdict.fresh and verdict.headroom is not None else None,
        "reserve_percent": profile.reserve_percent,
        "cooldown": cooldowns.record(max(closing, key=lambda each: each.expires)) if closing else None,
        "live_identity_failure": verdict.code if verdict.code in _LIVE else None,
        "identity_binding_conflict": verdict.code if verdict.code.startswith(_BINDING) else None,
        "eligible": verdict.eligible,
        "routeability_reason": verdict.code,
        "words": verdict.words,
        "resets_at": None if verdict.resets_at is None else iso(verdict.resets_at),
        "identity_fingerprint": cached["identity_fingerprint"],
    }


def auth_status(profile: Profile, situation: Situation) -> str:
    """What is known of a profile's login, in one word."""
    ready, proof = situation.readiness.get(profile.id), situation.proofs.get(profile.id)
    if not profile.is_worker:
        return "external-reserve"
    if ready is None or not ready.provisioned:
        return "not-provisioned"
    if proof is None or proof.stamp != ready.stamp:
        return "unknown"
    if proof.status == "auth_required":
        return "unauthenticated"
    return "authenticated" if proof.status in ("fresh", "none", "rate_limited") else "unknown"


def pool(name: str, provider: str | None, situation: Situation) -> dict[str, Any]:
    """The status of a pool, by provider."""
    found = judged(situation, name, provider)
    names = sorted({profile.provider for profile, _ in found} | ({provider} if provider else set()))
    return {
        "schema": 1,
        "pool": name,
        "providers": [_provider(each, [f for f in found if f[0].provider == each], situation) for each in names],
    }


def _provider(name: str, found: list[tuple[Profile, Verdict]], situation: Situation) -> dict[str, Any]:
    rows = [row(profile, verdict, situation) for profile, verdict in found]
    usable = [each for each in rows if each["eligible"] and each["quota_fresh"]]
    scores = [each["adjusted_headroom_percent"] for each in usable if each["adjusted_headroom_percent"] is not None]
    is_soft = not usable and any(each["eligible"] for each in rows)
    return {
        "provider": name,
        "available": bool(usable) or is_soft,
        "selection_mode": "quota" if usable else "soft" if is_soft else "unavailable",
        "degraded": is_soft,
        "best_adjusted_headroom_percent": max(scores, default=None),
        "eligible_profiles": len(usable),
        "live_identity_failures": _named(rows, "live_identity_failure"),
        "identity_binding_conflicts": _named(rows, "identity_binding_conflict"),
        "active_leases": sum(each["active_leases"] for each in rows),
        "profiles": rows,
    }


def _named(rows: Iterable[dict[str, Any]], key: str) -> dict[str, str]:
    return {each["profile"]: each[key] for each in rows if each[key]}
