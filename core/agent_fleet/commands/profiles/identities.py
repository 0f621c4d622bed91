"""`fleet profile identity adopt` and `fleet profile verify`: who a home must belong to, and whether it does."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import click

from agent_fleet import errors
from agent_fleet.accounts import audit, outputs, quota, selection, standing, unfinished
from agent_fleet.accounts.leases import Clock, Leases
from agent_fleet.accounts.pins import Pin, Pins
from agent_fleet.accounts.registrar import STATE_LOCK
from agent_fleet.accounts.stored import iso
from agent_fleet.accounts.values import Profile, Proof
from agent_fleet.commands import Shared, command, group
from agent_fleet.commands.desk import Desk, keychain_option
from agent_fleet.commands.profiles.membership import look_at, would_stand
from agent_fleet.errors import FleetError

identity = group(
    "identity",
    help="Decide whom a home belongs to.",
    members={"adopt": ("profiles.identities", "adopt", "Take whoever is logged in now for the owner of the home.")},
)


@command(
    "adopt", help="Take whoever is logged in now for the owner of the home, and hold the home to that from now on."
)
@click.argument("label", metavar="ID")
@keychain_option
def adopt(shared: Shared, label: str, may_ask: bool) -> None:
    """The disabled workers of the same provider that nobody adopted yet are adopted with it, where they can be looked at."""
    desk = Desk(shared, may_ask=may_ask)
    profile = desk.registry.profile(label)
    unfinished.check(desk.vault, "identity adopt", profile.provider)
    known = Pins(desk.vault).all(desk.registry.profiles)
    others = [
        each
        for each in desk.registry.workers(profile.provider)
        if each.id != label and not each.enabled and each.id not in known
    ]
    seen = desk.prober.prove([profile, *others], force=True) if profile.is_worker else {}
    with desk.vault.lock(STATE_LOCK, "identity adopt"):
        _check(desk, profile, seen.get(label))
        faults = {each.id: _fault(desk, each, seen[each.id], seen) for each in [profile, *others]}
        if faults[label]:
            raise FleetError(
                "identity_conflict",
                f"{label} cannot be adopted: {faults[label]}",
                hint=_hint(desk, profile, faults[label].split(":")[0]),
            )
        adopted = [each for each in [profile, *others] if not faults[each.id]]
        for each in adopted:
            if each.id in known and known[each.id].fingerprint != seen[each.id].fingerprint:
                outputs.forget(desk.vault, each.id)
        pins = [Pins(desk.vault).adopt(each, seen[each.id].fingerprint) for each in adopted]
        audit.note(desk.vault, "identity-adopted", profiles=[pin.profile for pin in pins], provider=profile.provider)
    left = {each.id: faults[each.id] for each in others if faults[each.id]}
    payload = {
        "provider": profile.provider,
        "identity_bundle": _bundle(profile.provider, pins),
        "not_adopted": left,
        "enabled": False,
    }
    shared.emit(payload, lambda: _text(pins, left))


def _hint(desk: Desk, profile: Profile, fault: str) -> str:
    if fault == "duplicate_provider_identity":
        return "log in to another account in one of the two homes: one account counts once"
    if fault == quota.ANOTHER:
        return "its login and its numbers name two accounts: log in there again, then try again"
    if fault == "profile_unprovisioned":
        return f"`fleet profile provision {profile.id}` makes its home"
    return f"{selection.log_in(profile, desk.port.readiness(profile))}; then try again"


def _check(desk: Desk, profile: Profile, proof: Proof | None) -> None:
    if not profile.is_worker:
        raise FleetError("profile_state", f"{profile.id} is {profile.safety_policy}, which fleet never touches")
    now = desk.registrar.load()
    if now.profile(profile.id) != profile or proof is None:
        raise FleetError("busy", f"{profile.id} was changed while it was looked at", hint="run the same command again")
    if profile.enabled:
        raise FleetError(
            "profile_state", f"disable {profile.id} before that", hint=f"`fleet profile disable {profile.id}`"
        )
    active = Leases(desk.vault).active(Clock.read(), now.rules.lease_grace_seconds)
    if busy := [lease.task for lease in active if lease.profile == profile.id]:
        raise FleetError("profile_state", f"{profile.id} is leased to {', '.join(busy)}", hint="wait for those tasks")


def _fault(desk: Desk, profile: Profile, proof: Proof, seen: dict[str, Proof]) -> str:
    """Why an account cannot be taken for its home's owner, or the empty text. Numbers do not matter here."""
    situation = desk.router.situation(None, seen)
    ready = situation.readiness.get(profile.id)
    if ready is None or not ready.provisioned:
        return "profile_unprovisioned"
    if ready.fault:
        return f"profile_not_ready: {ready.fault}"
    if proof.stamp != ready.stamp:
        return "credential_source_changed"
    if proof.status == "auth_required" or proof.credential == "absent":
        return proof.reason or "auth_required"
    if not proof.fingerprint and proof.status not in ("fresh", "none"):
        return proof.reason or "identity_unavailable"
    twins = selection.duplicates(profile, situation)
    if twins:
        return f"duplicate_provider_identity: {', '.join(twins)}"
    own = selection.own_login(profile, situation)
    return f"{own[0]}: {own[1]}" if own else ""


def _bundle(provider: str, pins: list[Pin]) -> dict[str, Any]:
    workers = {
        pin.profile: {
            "profile": pin.profile,
            "provider": pin.provider,
            "stable_home": pin.home,
            "remote_fingerprint": pin.fingerprint or None,
        }
        for pin in pins
    }
    return {"schema": 1, "provider": provider, "adopted_at": iso(time.time()), "workers": workers}


def _text(pins: list[Pin], left: dict[str, str]) -> str:
    lines = [f"{pin.profile} is held to {_owner(pin)}" for pin in pins]
    lines += [f"{label} was left as it is: {fault}" for label, fault in left.items()]
    return "\n".join([*lines, f"next: fleet profile enable {pins[0].profile}"])


def _owner(pin: Pin) -> str:
    if pin.fingerprint:
        return f"account {pin.fingerprint[:12]}"
    return "its home; its provider does not tell accounts apart"


@command("verify", help="Look at accounts now, and say whether they could work. Exit status 1 if one could not.")
@click.argument("label", metavar="ID", required=False)
@click.option("--all", "everything", is_flag=True, help="All workers.")
@keychain_option
def verify(shared: Shared, label: str | None, everything: bool, may_ask: bool) -> int:
    """Nothing is enabled and nothing provisioned; only what was seen is kept."""
    desk = Desk(shared, may_ask=may_ask)
    workers = [profile for profile in desk.asked(label, everything) if profile.is_worker]
    look_at(desk, workers)
    found = [_verified(desk, profile) for profile in workers]
    ready = bool(found) and all(each["routeability"]["eligible"] for each in found)
    closed = [each["profile"] for each in found if not each["enabled"] and each["routeability"]["eligible"]]
    step = f"fleet profile enable {closed[0]}" if closed else "" if ready else "mend what is named, then verify again"
    payload: dict[str, Any] = {"profiles": found, "ready": ready, "enabled_as_batch": None, "next_step": step}
    if not ready:
        payload |= {"ok": False, "code": "unhealthy", "error": "an account could not work"}
    shared.emit(payload, lambda: "\n".join([*map(_line, found), *([f"next: {step}"] if step else [])]))
    return errors.OK if ready else errors.CODES["unhealthy"][0]


def _verified(desk: Desk, profile: Profile) -> dict[str, Any]:
    verdict = would_stand(desk, profile)
    situation = desk.router.situation()
    row = standing.row(profile, replace(verdict, active=0), situation)
    proof = situation.proofs.get(profile.id)
    return {
        "profile": profile.id,
        "provider": profile.provider,
        "local_auth": row["auth_status"],
        "remote_status": proof.status if proof else "unavailable",
        "remote_reason": (proof.reason or None) if proof else "no_cache",
        "credential_verified": bool(proof and proof.status in ("fresh", "none")),
        "identity_conflict": verdict.code if verdict.code == "duplicate_provider_identity" else None,
        "identity_binding_conflict": row["identity_binding_conflict"],
        "identity_set_block": None,
        "routeability": {
            "eligible": verdict.eligible,
            "mode": "quota" if verdict.eligible else "blocked",
            "reason": verdict.code,
            "words": verdict.words,
        },
        "enabled": profile.enabled,
    }


def _line(found: dict[str, Any]) -> str:
    way = found["routeability"]
    return f"{found['profile']}: {'could work' if way['eligible'] else way['reason']}: {way['words']}"
