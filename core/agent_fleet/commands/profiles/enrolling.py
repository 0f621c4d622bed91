"""`fleet profile enroll`, also called `login`: whether a home holds the login that it is held to. No login is begun."""

from __future__ import annotations

import click

from agent_fleet.accounts import selection, unfinished
from agent_fleet.accounts.values import Profile
from agent_fleet.commands import Shared, command
from agent_fleet.commands.desk import Desk
from agent_fleet.commands.profiles.membership import look_at
from agent_fleet.errors import FleetError


@command("enroll", help="Say whether a home holds the login that it is held to, and else which command to use.")
@click.argument("label", metavar="ID")
def enroll(shared: Shared, label: str) -> None:
    """Nothing is changed but what was seen; the numbers of the account do not matter."""
    desk = Desk(shared)
    profile = desk.registry.profile(label)
    unfinished.check(desk.vault, "enroll", profile.provider)
    if not profile.is_worker:
        raise FleetError("profile_state", f"{label} is {profile.safety_policy}, which fleet never touches")
    look_at(desk, [profile])
    _check(desk, profile)
    payload = {
        "profile": label,
        "provider": profile.provider,
        "credential_verified": True,
        "identity_binding_conflict": None,
        "no_op": True,
        "provider_login_invoked": False,
        "enabled": profile.enabled,
    }
    shared.emit(payload, lambda: f"{label} holds the login that it is held to; there is nothing to do")


def _check(desk: Desk, profile: Profile) -> None:
    """Raises FleetError: `profile_state` where something is missing, `identity_conflict` where somebody else is seen, or nobody."""
    label, situation = profile.id, desk.router.situation()
    ready, proof = situation.readiness.get(profile.id), situation.proofs.get(profile.id)
    if ready is None or not ready.provisioned or ready.fault:
        why = f": {ready.fault}" if ready and ready.fault else ""
        raise FleetError("profile_state", f"{label} is not ready{why}", hint=f"`fleet profile provision {label}` first")
    if proof is None or proof.stamp != ready.stamp:
        raise FleetError(
            "busy", f"the login of {label} changes while it is looked at", hint="run the same command again"
        )
    if proof.credential == "absent" or proof.status == "auth_required":
        raise FleetError(
            "profile_state",
            f"{label} holds no login that its provider takes; no provider/browser login was invoked",
            hint=f"{selection.log_in(profile, ready)}; then `fleet profile identity adopt {label}`",
        )
    if twins := selection.duplicates(profile, situation):
        raise FleetError(
            "identity_conflict",
            f"{label} holds the same account as {', '.join(twins)}; no provider/browser login was invoked",
            hint="log in to another account in one of the homes: one account counts once",
        )
    if own := selection.own_login(profile, situation):
        raise FleetError("identity_conflict", f"{label} cannot be used: {own[0]}", hint=own[1])
    pin = situation.pins.get(label)
    if closed := selection.binding(profile, pin, proof):
        code = "profile_state" if pin is None else "identity_conflict"
        why = proof.reason if closed[0] == "identity_unavailable" and proof.reason else closed[0]
        fault = f"is not seen to be the one that its home is held to: {why}" if pin else "was adopted by nobody"
        raise FleetError(code, f"the login of {label} {fault}; no provider/browser login was invoked", hint=closed[1])
