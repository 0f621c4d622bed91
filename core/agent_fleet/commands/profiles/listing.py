"""`fleet profile list` and `fleet profile status`."""

from __future__ import annotations

from typing import Any

import click

from agent_fleet.accounts import cooldowns, proofs, standing
from agent_fleet.accounts.selection import EXPLICIT, Request, Situation
from agent_fleet.accounts.values import Profile
from agent_fleet.commands import Shared, command
from agent_fleet.commands.desk import Desk, percent, profile_record, rows


@command("list", help="List the profiles, without looking at their accounts.")
def listing(shared: Shared) -> None:
    found = list(Desk(shared).registry.profiles.values())
    shared.emit({"profiles": [profile_record(profile) for profile in found]}, lambda: _table(found))


def _table(found: list[Profile]) -> str:
    if not found:
        return "no profiles"
    lines = [("profile", "provider", "pools", "state")]
    lines += [(each.id, each.provider, ", ".join(each.pools), _state(each)) for each in found]
    return rows(lines)


def _state(profile: Profile) -> str:
    if not profile.is_worker:
        return profile.safety_policy
    return "enabled" if profile.enabled else "disabled"


@command("status", help="Show how profiles stand, as a choice made now would find them, and why one takes no work.")
@click.argument("label", metavar="ID", required=False)
@click.option("--all", "everything", is_flag=True, help="All profiles.")
def status(shared: Shared, label: str | None, everything: bool) -> None:
    desk = Desk(shared)
    asked = {profile.id for profile in desk.asked(label, everything)}
    request = Request(task="", pool=EXPLICIT, profile=label, workspace="")
    situation = desk.router.looked(request)
    found = [_record(profile, situation) for profile in situation.registry.profiles.values() if profile.id in asked]
    shared.emit({"profiles": found}, lambda: "\n".join(_line(each) for each in found) or "no profiles")


def _record(profile: Profile, situation: Situation) -> dict[str, Any]:
    verdict = next(verdict for each, verdict in standing.judged(situation) if each.id == profile.id)
    row = standing.row(profile, verdict, situation)
    closing = situation.cooldowns.get(profile.id)
    rules = situation.registry.rules
    quota: dict[str, Any] = {}
    if profile.is_worker:
        quota = proofs.view(situation.proofs.get(profile.id), profile.id, profile.provider, rules, situation.now)
    return {
        **profile_record(profile),
        "provisioned": row["provisioned"],
        "auth_status": row["auth_status"],
        "active_leases": row["active_leases"],
        "cooldown": cooldowns.record(closing[0]) if closing else None,
        "quota": quota,
        "live_identity_failure": row["live_identity_failure"],
        "identity_binding_conflict": row["identity_binding_conflict"],
        "routeability": {
            "eligible": verdict.eligible,
            "mode": "quota" if verdict.eligible else "blocked",
            "reason": verdict.code if profile.is_worker else "external_reserve_never_routed",
            "words": verdict.words,
        },
    }


def _line(found: dict[str, Any]) -> str:
    way = found["routeability"]
    mark = "can be used" if way["eligible"] else way["reason"]
    left = percent(found["quota"].get("headroom_percent"))
    taken = f"{found['active_leases']} of {found['max_concurrent']} leases"
    return f"{found['id']}: {mark}: {way['words']} ({taken}, {left} left)"


@command("auth-status", help="Say what is known of the logins of profiles, without looking at their accounts.")
@click.argument("label", metavar="ID", required=False)
@click.option("--all", "everything", is_flag=True, help="All profiles.")
def logins(shared: Shared, label: str | None, everything: bool) -> None:
    desk = Desk(shared)
    asked = desk.asked(label, everything)
    situation = desk.router.situation()
    found = [{"profile": profile.id, "status": standing.auth_status(profile, situation)} for profile in asked]
    shared.emit({"profiles": found}, lambda: "\n".join(f"{each['profile']}: {each['status']}" for each in found))
