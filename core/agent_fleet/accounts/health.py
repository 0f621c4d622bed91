"""What is wrong with the accounts of this machine, each thing with what mends it; one line says so where nothing is.

Enabled workers are looked at as a choice would look at them; reserves are not touched. What is closed for a while is told, and is
no fault.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from agent_fleet.accounts import projects, selection, unfinished
from agent_fleet.accounts.cooldowns import DIRECTORY as COOLDOWNS
from agent_fleet.accounts.cooldowns import told
from agent_fleet.accounts.homes import Homes
from agent_fleet.accounts.leases import DIRECTORY as LEASES
from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.router import Router
from agent_fleet.accounts.selection import EXPLICIT, Request, Situation
from agent_fleet.accounts.sessions import Sessions
from agent_fleet.accounts.values import Profile
from agent_fleet.accounts.vault import Vault, directory_fault
from agent_fleet.errors import FleetError
from agent_fleet.model import Finding

# reasons that pass by themselves: an account that is merely tired is a healthy one
_PASSING = ("fresh", "cooldown", "no_capacity", "quota_reserve", "rate_limited", "quota_unknown")


def findings(router: Router) -> Iterable[Finding]:
    """Everything that can be said; at least one finding. Raises FleetError where the registry itself cannot be read."""
    registry = router.registrar.load()
    found = [
        *_strange(registry),
        *_state(router.vault),
        *_homes(registry),
        *_unfinished(router.vault),
        *_projects(registry),
        *_tools(registry),
    ]
    situation = router.looked(Request(task="", pool=EXPLICIT, workspace=""))
    for profile in registry.workers():
        found += _profile(router, profile, situation)
    Sessions(router.vault).all()
    found += [Finding(level="fault", text=text, hint=_mend(text)) for text in router.vault.notices]
    router.vault.notices.clear()
    sound = [] if found else [Finding(level="ok", text=_sound(registry.workers()))]
    return [*found, *sound, *_closed(situation)]


def _strange(registry: Registry) -> Iterator[Finding]:
    hint = "write the key that is meant, or take the line out: what it was to set is not in force"
    return (Finding(level="warning", text=warning, hint=hint) for warning in registry.warnings)


def _closed(situation: Situation) -> Iterator[Finding]:
    for label in sorted(situation.cooldowns):
        if label in situation.registry.profiles:
            for each in sorted(situation.cooldowns[label], key=lambda each: each.expires):
                hint = f"`fleet profile cooldown-clear {label}` opens it at once"
                yield Finding(level="ok", text=f"{label} is {told(each)}", hint=hint)


def _sound(workers: Iterable[Profile]) -> str:
    enabled = [profile.id for profile in workers if profile.enabled]
    return (
        f"the accounts are in order: {', '.join(enabled)}"
        if enabled
        else "the accounts are in order, and none is enabled"
    )


def _state(vault: Vault) -> Iterator[Finding]:
    for name in ("", *sorted(_directories(vault.root))):
        path = vault.path(name) if name else vault.root
        try:
            fault = directory_fault(os.lstat(path), is_shared_root=not name)
        except OSError:
            continue
        if fault:
            yield Finding(
                level="fault", text=f"{path} is not private: {fault}", hint=f"look at it, then chmod 700 {path}"
            )
    aside = _directories(vault.path("quarantine"), files=True)
    if aside:
        yield Finding(
            level="warning",
            text=f"{len(aside)} files that could not be read were set aside in {vault.path('quarantine')}",
            hint="look at them, then delete them",
        )


def _directories(path: str, *, files: bool = False) -> list[str]:
    """Ours in the state directory; other memory of this machine lies there too."""
    ours = ("leases", "sessions", "cooldowns", "quota", "identity", "homes", "locks", "quarantine")
    try:
        return [name for name in os.listdir(path) if files or name in ours]
    except OSError:
        return []


def _unfinished(vault: Vault) -> Iterator[Finding]:
    try:
        unfinished.check(vault, "every choice")
    except FleetError as error:
        yield Finding(level="fault", text=error.message, hint=error.hint)


def _projects(registry: Registry) -> Iterator[Finding]:
    named = [
        (path, name, f"fleet project remove {path} --provider {name}")
        for name, table in registry.providers.items()
        for path in table.trusted_projects
    ]
    mend = "name another one in the registry, or take it out there"
    named += [(path, f"pool {pool}", mend) for pool, paths in registry.pool_projects.items() for path in paths]
    for path, whose, hint in named:
        try:
            projects.work_tree(path)
        except FleetError as error:
            yield Finding(level="warning", text=f"{error.message} (registered for {whose})", hint=hint)


def _homes(registry: Registry) -> Iterator[Finding]:
    """What lies above homes: who may write there could put another home in the place of one."""
    share = registry.rules.share_dir
    above = {share}
    for profile in registry.workers():
        parent = os.path.dirname(profile.home)
        while parent.startswith(share + os.sep):
            above.add(parent)
            parent = os.path.dirname(parent)
    for path in sorted(above):
        try:
            fault = directory_fault(os.lstat(path), is_shared_root=True)
        except OSError:
            continue
        if fault:
            yield Finding(
                level="fault",
                text=f"homes of accounts lie in {path}: {fault}",
                hint=f"look at it, then chmod 700 {path}",
            )


def _tools(registry: Registry) -> Iterator[Finding]:
    named = registry.rules.quota_binary
    if named and not os.access(named, os.X_OK):
        yield Finding(
            level="fault",
            text=f"the registry's quota_binary {named} is no program",
            hint="install it, name where it is, or take the line out of [settings]",
        )


def _profile(router: Router, profile: Profile, situation: Situation) -> Iterator[Finding]:
    made = Homes(router.vault).of(profile)
    if made is not None and not os.access(made.words[0], os.X_OK):
        yield Finding(
            level="fault",
            text=f"{profile.id}: its hooks call {made.words[0]}, which is gone",
            hint=f"fleet profile provision {profile.id}",
        )
    if not profile.enabled:
        return
    request = Request(task="", pool=EXPLICIT, profile=profile.id, workspace="", ignore_reserve=True)
    verdict = selection.judge(profile, request, situation)
    if verdict.code not in _PASSING:
        yield Finding(
            level="fault",
            text=f"{profile.id} takes no work: {verdict.code}: {verdict.words}",
            hint=f"mend that, then fleet profile verify {profile.id}; fleet profile disable {profile.id} takes it out",
        )


def _mend(text: str) -> str:
    is_set_aside = f"/{LEASES}/" in text or f"/{COOLDOWNS}/" in text
    return "the next choice sets it aside" if is_set_aside else "do what it says, or move the file away"
