"""Why no account takes a task, as one error: a sentence for people, and the reason of each profile for programs. Pure."""

from __future__ import annotations

from agent_fleet.accounts import selection
from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.selection import Request, Verdict
from agent_fleet.errors import FleetError


def refusal(request: Request, verdicts: list[Verdict], registry: Registry) -> FleetError:
    """Why nobody takes the task: a sentence, and the reason of each profile."""
    what = request.profile or request.provider or request.pool
    facts = {"profiles": [{"profile": v.profile, "reason": v.code, "words": v.words} for v in verdicts]}
    details = selection.explain(verdicts)
    if not verdicts:
        if request.profile:
            registry.profile(request.profile)
        pools = sorted({pool for profile in registry.workers() for pool in profile.pools})
        known = f"pools: {', '.join(pools)}" if pools else "`fleet profile add` registers an account"
        of = f" of {request.provider}" if request.provider and request.pool in pools else ""
        return FleetError("not_found", f"no profile{of} is in pool {request.pool}", hint=known, facts=facts)
    codes = {verdict.code for verdict in verdicts}
    if codes == {"quota_reserve"}:
        message = "all eligible profiles are at or below their quota reserve"
    elif codes <= {"no_capacity", "cooldown", "profile_disabled", "profile_unprovisioned"}:
        message = f"no enabled, provisioned profile has capacity for {what}"
    elif "duplicate_provider_identity" in codes:
        message = f"no freshly proven profile is routeable for {what}; some are duplicate accounts"
    else:
        message = f"no freshly proven profile is routeable for {what}"
    code = "no_account" if any(verdict.is_waiting for verdict in verdicts) else "unroutable"
    for alone in ("project_refused", "pending_transaction"):
        if codes == {alone}:
            code, message = alone, verdicts[0].words
    hint = "each profile is listed with its reason; `fleet pool status` shows them again"
    if code == "project_refused":
        hint = "`fleet project register DIR --provider NAME` lets accounts be used in a git work tree of yours"
    return FleetError(
        code,
        message,
        hint=hint,
        details=details,
        facts=facts,
    )
