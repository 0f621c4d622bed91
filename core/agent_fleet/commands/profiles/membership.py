"""`fleet profile add`, `remove`, `enable`, `disable` and `policy`: what the registry says of one account."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import click

from agent_fleet.accounts import audit, outputs, places, selection, unfinished
from agent_fleet.accounts.cooldowns import Cooldowns
from agent_fleet.accounts.homes import Homes
from agent_fleet.accounts.leases import Clock, Leases
from agent_fleet.accounts.pins import Pins
from agent_fleet.accounts.registry import OWN_KEYS, POLICIES, Registry, check_label, crew_pool, default_pools
from agent_fleet.accounts.selection import EXPLICIT, Request, Verdict
from agent_fleet.accounts.values import Profile, SafetyPolicy
from agent_fleet.commands import Shared, command
from agent_fleet.commands.desk import Desk, profile_record
from agent_fleet.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tomlkit import TOMLDocument

    Edit: TypeAlias = Callable[[TOMLDocument, Registry], None]


@command("add", help="Register an account under an opaque label, disabled.")
@click.argument("label", metavar="ID")
@click.option("--provider", required=True, help="Whose account it is: claude, codex, or another provider's name.")
@click.option("--home", metavar="DIR", help="Where its login lives; a directory of its own by default.")
@click.option("--pool", "pools", multiple=True, metavar="NAME", help="A pool that it is in; several may be named.")
@click.option("--weight", type=click.IntRange(min=1), default=1, show_default=True, help="Five points for each more.")
@click.option("--max-concurrent", type=click.IntRange(min=1), default=2, show_default=True, help="Tasks at once.")
@click.option(
    "--reserve-percent", type=click.IntRange(0, 100), default=15, show_default=True, help="Left to the person."
)
@click.option("--safety-policy", type=click.Choice(POLICIES), default="worker", show_default=True)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key that only its provider understands, such as key_env=NAME or key_file=FILE.",
)
def add(
    shared: Shared,
    label: str,
    provider: str,
    home: str | None,
    pools: tuple[str, ...],
    weight: int,
    max_concurrent: int,
    reserve_percent: int,
    safety_policy: SafetyPolicy,
    options: tuple[str, ...],
) -> None:
    desk = Desk(shared)
    check_label(label)
    for pool in pools:
        check_label(pool, "pool id")
    if safety_policy != "worker" and crew_pool(provider) in pools:
        raise FleetError("bad_input", f"a reserve is never in {crew_pool(provider)}", hint="choose another pool")
    if safety_policy == "worker":
        desk.port.spec(provider)
    rules = desk.registry.rules
    made = Profile(
        id=label,
        provider=check_label(provider, "provider name"),
        home=os.path.join(rules.share_dir, "accounts", provider, label)
        if home is None
        else places.lexical(home, "--home"),
        pools=tuple(dict.fromkeys(pools)) or default_pools(provider, safety_policy),
        weight=weight,
        max_concurrent=max_concurrent,
        reserve_percent=reserve_percent,
        safety_policy=safety_policy,
        options=dict(map(_option, options)),
    )

    def edit(document: TOMLDocument, registry: Registry) -> None:
        from agent_fleet.accounts import editing

        if label in registry.profiles:
            raise FleetError("profile_state", f"there is a profile {label} already", hint="choose another label")
        editing.add_profile(document, made)

    _told(shared, desk, label, edit, "profile-added", f"{label} was added, disabled")


def _option(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.isidentifier() or key in OWN_KEYS:
        raise FleetError(
            "bad_input", f"--option {text!r} is no KEY=VALUE of a provider's own", hint="write key_env=NAME"
        )
    return key, value


@command("remove", help="Forget a profile that is disabled and idle. Its home and its login stay where they are.")
@click.argument("label", metavar="ID")
def remove(shared: Shared, label: str) -> None:
    desk = Desk(shared)
    provider = desk.registry.profile(label).provider

    def edit(document: TOMLDocument, registry: Registry) -> None:
        from agent_fleet.accounts import editing

        profile = _disabled(registry, label)
        if not profile.is_worker:
            raise FleetError(
                "profile_state", f"{label} is a reserve, which fleet never touches", hint="take it out of the registry"
            )
        if busy := _tasks_on(desk, registry, label):
            raise FleetError(
                "profile_state",
                f"{label} is leased to {', '.join(busy)}",
                hint="wait for those tasks, or release their leases",
            )
        editing.remove_profile(document, label)
        Pins(desk.vault).remove(label)
        Cooldowns(desk.vault).clear(label)
        outputs.forget(desk.vault, label)
        desk.vault.remove("quota", f"{label}.json")
        Homes(desk.vault).remove(label)

    desk.registrar.change(
        desk.vault, edit, lambda: audit.note(desk.vault, "profile-removed", profile=label, provider=provider)
    )
    shared.emit(
        {"profile": label, "removed": True, "home_deleted": False}, lambda: f"{label} was forgotten; its home stays"
    )


@command("enable", help="Look at an account now, and if it is who it must be and can be read, let it take work.")
@click.argument("label", metavar="ID")
def enable(shared: Shared, label: str) -> None:
    desk = Desk(shared)
    profile = desk.registry.profile(label)
    unfinished.check(desk.vault, "enable", profile.provider)
    if not profile.is_worker:
        raise FleetError("profile_state", f"{label} is {profile.safety_policy} and can never be enabled")
    look_at(desk, [profile])
    verdict = would_stand(desk, profile)
    if not verdict.eligible:
        raise FleetError(
            "identity_conflict" if verdict.code.startswith(("identity_", "duplicate_")) else "profile_state",
            f"{label} cannot be enabled: {verdict.code}",
            hint=verdict.words,
            details=selection.explain([verdict]),
            facts={"profiles": [{"profile": label, "reason": verdict.code, "words": verdict.words}]},
        )

    def edit(document: TOMLDocument, registry: Registry) -> None:
        from agent_fleet.accounts import editing

        if registry.profile(label) != profile:
            raise FleetError("busy", f"{label} was changed while it was looked at", hint="run the same command again")
        editing.set_profile(document, label, enabled=True)

    _told(shared, desk, label, edit, "profile-enabled", f"{label} takes work: {verdict.words}")


def look_at(desk: Desk, profiles: list[Profile]) -> None:
    """Look at these accounts now, all together; those whose homes are not ready are left alone."""
    situation = desk.router.situation()
    desk.prober.prove([p for p in profiles if _closed(p, situation) is None], force=True)


def would_stand(desk: Desk, profile: Profile) -> Verdict:
    """How a profile would stand if it were enabled and idle, by what was last seen of it; its reserve does not count."""
    situation = desk.router.situation()
    opened = replace(profile, enabled=True)
    profiles = {**situation.registry.profiles, profile.id: opened}
    opened_registry = replace(situation.registry, profiles=profiles)
    asked = replace(situation, registry=opened_registry, leases=(), cooldowns={})
    return selection.judge(opened, _for_itself(profile), asked)


def _closed(profile: Profile, situation: selection.Situation) -> object:
    return selection.before_proof(
        replace(profile, enabled=True), _for_itself(profile), replace(situation, cooldowns={})
    )


def _for_itself(profile: Profile) -> Request:
    return Request(task="", pool=EXPLICIT, profile=profile.id, workspace="", ignore_reserve=True)


@command("disable", help="Let an account take no new work. What runs on it goes on.")
@click.argument("label", metavar="ID")
def disable(shared: Shared, label: str) -> None:
    desk = Desk(shared)

    def edit(document: TOMLDocument, registry: Registry) -> None:
        from agent_fleet.accounts import editing

        registry.profile(label)
        editing.set_profile(document, label, enabled=False)

    _told(shared, desk, label, edit, "profile-disabled", f"{label} takes no new work")


@command("policy", help="Make a disabled profile a worker, or a reserve that is never touched.")
@click.argument("label", metavar="ID")
@click.option("--safety-policy", type=click.Choice(POLICIES), required=True)
def policy(shared: Shared, label: str, safety_policy: SafetyPolicy) -> None:
    desk = Desk(shared)

    def edit(document: TOMLDocument, registry: Registry) -> None:
        from agent_fleet.accounts import editing

        profile = _disabled(registry, label)
        crew = crew_pool(profile.provider)
        pools = tuple(pool for pool in profile.pools if safety_policy == "worker" or pool != crew)
        pools = pools or default_pools(profile.provider, safety_policy)
        editing.set_profile(document, label, safety_policy=safety_policy, pools=list(pools))

    _told(shared, desk, label, edit, "profile-policy-changed", f"{label} is {safety_policy}")


def _disabled(registry: Registry, label: str) -> Profile:
    profile = registry.profile(label)
    if profile.enabled:
        raise FleetError("profile_state", f"disable {label} before that", hint=f"`fleet profile disable {label}`")
    return profile


def _tasks_on(desk: Desk, registry: Registry, label: str) -> list[str]:
    active = Leases(desk.vault).active(Clock.read(), registry.rules.lease_grace_seconds)
    return [lease.task for lease in active if lease.profile == label]


def _told(shared: Shared, desk: Desk, label: str, edit: Edit, event: str, words: str) -> None:
    """Change the registry, put it on record, and answer with the profile as it is now."""
    changed = desk.registrar.change(desk.vault, edit, lambda: audit.note(desk.vault, event, profile=label))
    shared.emit(profile_record(changed.profile(label)), lambda: words)
