"""What the person's registry of accounts says: its words checked, and what must hold between them. Pure.

The registry is `accounts.toml`, version 1. Keys that are not known here are kept on a save: a provider's, another
program's. One that is like a key of ours is told of: what it was to set is not in force.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from agent_fleet.accounts import places
from agent_fleet.accounts.values import Profile, SafetyPolicy
from agent_fleet.config import nearest, no_key
from agent_fleet.errors import FleetError

LABEL = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}", re.ASCII)
POLICIES: tuple[SafetyPolicy, ...] = ("worker", "manual_only", "desktop_shared")
_TOP_KEYS = ("version", "settings", "providers", "profiles", "pools")
OWN_KEYS = frozenset(
    ("provider", "home", "pools", "enabled", "weight", "max_concurrent", "reserve_percent", "safety_policy")
)
_PROVIDER_KEYS = ("binary", "base_home", "desktop_identity_file", "shared_entries", "trusted_projects")
_TABLES = {
    "providers": (*_PROVIDER_KEYS, "environment_allow"),
    "profiles": (*sorted(OWN_KEYS), "key_env", "key_file", "quota_file"),
    "pools": ("projects",),
}
"""What means something in the tables of each kind, to us or to all providers."""
_CHOICES = {
    "quota_policy": ("strict", "soft"),
    "proof_scope": ("profile", "provider"),
    "pin_policy": ("refuse", "follow"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The registry's `[settings]`. Times are seconds, the penalty is points of a score."""

    state_dir: str
    share_dir: str
    quota_stale_seconds: int = 300
    quota_verification_grace_seconds: int = 86400
    quota_retry_seconds: int = 60
    quota_binary: str = ""
    lease_grace_seconds: int = 120
    active_lease_penalty: int = 8
    quota_policy: str = "strict"
    proof_scope: str = "profile"
    pin_policy: str = "refuse"
    rotation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTable:
    """One `[providers.NAME]`. `options` holds the keys that only the provider itself understands."""

    name: str
    binary: str = ""
    base_home: str = ""
    desktop_identity_file: str = ""
    shared_entries: tuple[str, ...] = ()
    trusted_projects: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """All of it. Profiles are in the order of their labels; `pool_projects` binds pools to projects, `warnings` names what was
    written, means nothing, and is like what means something.
    """

    path: str
    rules: Rules
    providers: Mapping[str, ProviderTable]
    profiles: Mapping[str, Profile]
    pool_projects: Mapping[str, tuple[str, ...]]
    warnings: tuple[str, ...] = ()

    def profile(self, label: str) -> Profile:
        """Raises FleetError (`unknown_profile`)."""
        found = self.profiles.get(label)
        if found is None:
            raise FleetError(
                "unknown_profile", f"unknown profile: {label}", hint="`fleet profile list` shows those that there are"
            )
        return found

    def workers(self, provider: str | None = None) -> Iterator[Profile]:
        """The profiles that may be routed, of one provider or all."""
        return (p for p in self.profiles.values() if p.is_worker and provider in (None, p.provider))


def check_label(text: str, what: str = "profile id") -> str:
    """A label as it stands. Raises FleetError (`bad_input`) for anything else, an e-mail address above all."""
    if not LABEL.fullmatch(text):
        raise FleetError(
            "bad_input",
            f"invalid {what} {text!r}: use 1-128 letters, digits, dots, underscores and dashes",
            hint="choose an opaque label such as claude-1; it stands in files and logs, so never an address",
        )
    return text


def crew_pool(provider: str) -> str:
    """The pool that workers are in unless told otherwise, and reserves never are."""
    return f"{provider}-crew"


def default_pools(provider: str, policy: str) -> tuple[str, ...]:
    manual = f"{provider}-manual"
    return (crew_pool(provider), manual) if policy == "worker" else (manual,)


def parse(document: Mapping[str, Any], path: str, environ: Mapping[str, str]) -> Registry:
    """The registry in a parsed file. Raises FleetError (`bad_config`) that names the first thing that cannot stand."""
    if document.get("version") != 1 or isinstance(document.get("version"), bool):
        raise _bad(path, "version must be 1")
    rules = _rules(_Table(path, "settings", document.get("settings", {})), environ)
    providers = {
        name: _provider(_Table(path, f"providers.{name}", table))
        for name, table in _tables(path, document, "providers")
    }
    profiles = {
        label: _profile(_Table(path, f'profiles."{label}"', table), label, rules)
        for label, table in sorted(_tables(path, document, "profiles"))
    }
    bound = {
        name: _Table(path, f"pools.{name}", table).paths("projects") for name, table in _tables(path, document, "pools")
    }
    registry = Registry(
        path=path,
        rules=rules,
        providers=providers,
        profiles=profiles,
        pool_projects={name: projects for name, projects in bound.items() if projects},
        warnings=tuple(_strange(document, path)),
    )
    check(registry)
    return registry


def check(registry: Registry) -> None:
    """What must hold between the parts. Raises FleetError (`bad_config`)."""
    rules = registry.rules
    labels: dict[str, str] = {}
    for label in registry.profiles:
        # their files are named by them, and some file systems take capitals for small letters
        if (twin := labels.setdefault(label.casefold(), label)) != label:
            raise _bad(registry.path, f"{twin} and {label} differ by capitals alone: give one of them another label")
    homes = [profile for profile in registry.profiles.values() if profile.home]
    for position, profile in enumerate(homes):
        home = profile.home
        if profile.provider not in registry.providers:
            raise _bad(registry.path, f"profile {profile.id} names the provider {profile.provider}, which has no table")
        for other in homes[position + 1 :]:
            if places.overlap(home, other.home):
                raise _bad(registry.path, f"the homes of {profile.id} and {other.id} overlap: {home}, {other.home}")
        if places.overlap(home, rules.state_dir):
            raise _bad(registry.path, f"the home of {profile.id} overlaps the state directory: {home}")
        if places.is_within(rules.share_dir, home):
            raise _bad(registry.path, f"the home of {profile.id} holds the directory of all homes: {home}")
        table = registry.providers[profile.provider]
        if table.base_home and places.overlap(home, table.base_home):
            raise _bad(registry.path, f"the home of {profile.id} overlaps your own {profile.provider} home: {home}")
        if table.desktop_identity_file and places.is_within(table.desktop_identity_file, home):
            raise _bad(registry.path, f"the home of {profile.id} holds your own desktop's login: {home}")
    for profile in registry.profiles.values():
        if not profile.is_worker and profile.enabled:
            raise _bad(registry.path, f"{profile.id} is {profile.safety_policy} and can never be enabled")


def _strange(document: Mapping[str, Any], path: str) -> Iterator[str]:
    """The keys that are like one of ours and are none, and the tables that nobody reads."""
    yield from (no_key(path, key, nearest(key, _TOP_KEYS)) for key in document if key not in _TOP_KEYS)
    tables = [("settings", document.get("settings", {}), tuple(each.name for each in fields(Rules)))]
    for kind, known in _TABLES.items():
        tables += [(f"{kind}.{name}", table, known) for name, table in _tables(path, document, kind)]
    for where, table, names in tables:
        for key in table:
            near = "" if key in names else nearest(key, names)
            if near:
                yield no_key(path, f"{where}.{key}", f"{where}.{near}")


def _rules(table: _Table, environ: Mapping[str, str]) -> Rules:
    for name, allowed in _CHOICES.items():
        table.choice(name, allowed)
    return Rules(
        state_dir=os.path.realpath(table.path("state_dir") or places.state_dir(environ)),
        share_dir=os.path.realpath(table.path("share_dir") or places.share_dir(environ)),
        quota_stale_seconds=table.whole("quota_stale_seconds", 300),
        quota_verification_grace_seconds=table.whole("quota_verification_grace_seconds", 86400),
        quota_retry_seconds=table.whole("quota_retry_seconds", 60),
        quota_binary=table.path("quota_binary"),
        lease_grace_seconds=table.whole("lease_grace_seconds", 120),
        active_lease_penalty=table.whole("active_lease_penalty", 8),
        quota_policy=table.choice("quota_policy", _CHOICES["quota_policy"]),
        proof_scope=table.choice("proof_scope", _CHOICES["proof_scope"]),
        pin_policy=table.choice("pin_policy", _CHOICES["pin_policy"]),
        rotation=table.truth("rotation", False),
    )


def _provider(table: _Table) -> ProviderTable:
    desktop = table.values.get("desktop_identity_file", False)
    if desktop is True or desktop == "":
        raise table.bad("desktop_identity_file", "a path or false")
    name = table.name.removeprefix("providers.")
    check_label(name, "provider name")
    entries = table.texts("shared_entries")
    if any(os.sep in entry or entry in ("", ".", "..") for entry in entries):
        raise table.bad("shared_entries", "a list of plain names")
    return ProviderTable(
        name=name,
        binary=table.path("binary"),
        base_home=table.path("base_home"),
        desktop_identity_file="" if desktop is False else table.path("desktop_identity_file"),
        shared_entries=entries,
        trusted_projects=table.paths("trusted_projects"),
        options={key: value for key, value in table.values.items() if key not in _PROVIDER_KEYS},
    )


def _profile(table: _Table, label: str, rules: Rules) -> Profile:
    if not LABEL.fullmatch(label):
        raise _bad(table.file, f"invalid profile id {label!r}: an opaque label such as claude-1, never an address")
    provider = table.text("provider")
    if not LABEL.fullmatch(provider):
        raise table.bad("provider", "the name of a provider")
    policy = table.choice("safety_policy", POLICIES)
    home = table.path("home") or os.path.join(rules.share_dir, "accounts", provider, label)
    pools = table.texts("pools")
    if not pools or not all(LABEL.fullmatch(pool) for pool in pools):
        raise table.bad("pools", "a list of at least one pool label")
    if policy != "worker":
        pools = tuple(pool for pool in pools if pool != crew_pool(provider)) or default_pools(provider, policy)
    return Profile(
        id=label,
        provider=provider,
        # what a reserve's home is must not even be looked at; a worker's that is a link is refused where it is used
        home=_resolved(home) if policy == "worker" else home,
        pools=pools,
        enabled=table.truth("enabled", False),
        weight=table.whole("weight", 1, least=1),
        max_concurrent=table.whole("max_concurrent", 2, least=1),
        reserve_percent=table.whole("reserve_percent", 15, most=100),
        safety_policy=next(each for each in POLICIES if each == policy),
        options={key: value for key, value in table.values.items() if key not in OWN_KEYS},
    )


def _resolved(home: str) -> str:
    """The path without links on the way to it; what it is itself stays to be seen."""
    return os.path.join(os.path.realpath(os.path.dirname(home)), os.path.basename(home))


def _tables(path: str, document: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    found = document.get(name, {})
    if not isinstance(found, Mapping):
        raise _bad(path, f"[{name}] must be a table of tables")
    return list(found.items())


@dataclass(frozen=True, slots=True)
class _Table:
    """One table of the file, whose values are read by what they must be."""

    file: str
    name: str
    values: Any

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping):
            raise _bad(self.file, f"[{self.name}] must be a table")

    def bad(self, key: str, wanted: str) -> FleetError:
        return _bad(self.file, f"[{self.name}] {key} must be {wanted}")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not isinstance(value, str) or not value:
            raise self.bad(key, "a text")
        return value

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.values.get(key, allowed[0])
        if value not in allowed:
            raise self.bad(key, "one of " + ", ".join(allowed))
        return str(value)

    def truth(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.bad(key, "true or false")
        return value

    def whole(self, key: str, default: int, *, least: int = 0, most: int = 2**31) -> int:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.bad(key, f"a whole number from {least} to {most}")
        return value

    def path(self, key: str) -> str:
        value = self.values.get(key)
        return "" if value is None else self._path(key, value)

    def paths(self, key: str) -> tuple[str, ...]:
        return tuple(self._path(key, value) for value in self._list(key))

    def texts(self, key: str) -> tuple[str, ...]:
        found = self._list(key)
        if not all(isinstance(value, str) for value in found):
            raise self.bad(key, "a list of texts")
        return tuple(dict.fromkeys(found))

    def _list(self, key: str) -> list[Any]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.bad(key, "a list")
        return value

    def _path(self, key: str, value: object) -> str:
        if not isinstance(value, str):
            raise self.bad(key, "a path")
        try:
            return places.lexical(value, key)
        except FleetError as error:
            raise _bad(self.file, f"[{self.name}] {error.message}") from None


def _bad(path: str, what: str) -> FleetError:
    return FleetError("bad_config", f"{path}: {what}", hint="mend that line; everything else in the file is kept")
