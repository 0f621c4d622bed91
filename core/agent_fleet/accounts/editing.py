"""Changes of the registry's document: one key or table at a time, every other byte as the person wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import AbstractTable

from agent_fleet.accounts.values import Profile


def first(settings: Mapping[str, str], providers: Mapping[str, str], profiles: Iterable[Profile]) -> str:
    """The text of a new registry; `providers` are binaries by name, empty for one that is found on the path when used."""
    document = tomlkit.document()
    document.add(
        tomlkit.comment("The accounts of this machine: labels and policy. Logins stay in the homes named here.")
    )
    document.add("version", tomlkit.item(1))
    table(document, "settings").update({key: value for key, value in settings.items() if value})
    for name, binary in providers.items():
        made = table(document, "providers", name)
        if binary:
            made["binary"] = binary
    for profile in profiles:
        add_profile(document, profile)
    return document.as_string()


def table(document: TOMLDocument, *path: str) -> AbstractTable:
    """The table at a path, made where it is not there."""
    here: Any = document
    for position, name in enumerate(path):
        if name not in here:
            here[name] = tomlkit.table(is_super_table=position + 1 < len(path))
        here = here[name]
    found: AbstractTable = here
    return found


def add_profile(document: TOMLDocument, profile: Profile) -> None:
    table(document, "providers", profile.provider)
    made = table(document, "profiles", profile.id)
    made["provider"] = profile.provider
    made["home"] = profile.home
    made["pools"] = list(profile.pools)
    made["enabled"] = profile.enabled
    made["weight"] = profile.weight
    made["max_concurrent"] = profile.max_concurrent
    made["reserve_percent"] = profile.reserve_percent
    made["safety_policy"] = profile.safety_policy
    made.update(profile.options)


def set_profile(document: TOMLDocument, label: str, **values: Any) -> None:
    table(document, "profiles", label).update(values)


def remove_profile(document: TOMLDocument, label: str) -> None:
    del table(document, "profiles")[label]


def set_projects(document: TOMLDocument, provider: str, paths: Iterable[str]) -> None:
    made = tomlkit.array()
    made.extend(sorted(set(paths)))
    table(document, "providers", provider)["trusted_projects"] = made.multiline(multiline=len(made) > 1)
