"""The first registry of a machine: so many disabled workers of each provider, and where everything lies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from agent_fleet.accounts import editing, places, unfinished
from agent_fleet.accounts.pins import salt_of
from agent_fleet.accounts.registrar import STATE_LOCK, Registrar
from agent_fleet.accounts.registry import Registry, default_pools
from agent_fleet.accounts.values import Profile
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError

MOST = 99


def found(registrar: Registrar, numbers: Mapping[str, int], rooms: Mapping[str, int]) -> Registry:
    """Make the registry: `numbers` of accounts by provider, each with `rooms` tasks at once. Nothing is written over.

    A provider's program is `$AGENT_FLEET_<NAME>_BIN`, else the one of its name on the path, if there is one. Raises FleetError:
    `bad_input` for numbers that cannot be, `refused` where there is a registry.
    """
    if any(not 0 <= number <= MOST for number in numbers.values()):
        raise FleetError("bad_input", f"a number of accounts is 0 to {MOST}", hint="give each provider such a number")
    if not sum(numbers.values()):
        raise FleetError("bad_input", "at least one profile is required", hint="for one of each: --claude 1 --codex 1")
    environ = registrar.environ
    state, share = places.state_dir(environ), places.share_dir(environ)
    vault = Vault(state)
    unfinished.check(vault, "a new registry")
    profiles = [
        _profile(provider, number, share, rooms[provider])
        for provider, count in numbers.items()
        for number in range(1, count + 1)
    ]
    settings = {"state_dir": state, "share_dir": share, "quota_binary": _named(environ, "QUOTA")}
    binaries = {provider: _binary(environ, provider) for provider in numbers}
    with vault.lock(STATE_LOCK, "a new registry"):
        made = registrar.create(editing.first(settings, binaries, profiles))
    salt_of(vault)
    return made


def _profile(provider: str, number: int, share: str, room: int) -> Profile:
    return Profile(
        id=f"{provider}-{number}",
        provider=provider,
        home=os.path.join(share, "accounts", provider, str(number)),
        pools=default_pools(provider, "worker"),
        max_concurrent=room,
    )


def _named(environ: Mapping[str, str], name: str) -> str:
    variable = f"AGENT_FLEET_{name}_BIN"
    return places.lexical(environ[variable], variable) if environ.get(variable) else ""


def _binary(environ: Mapping[str, str], provider: str) -> str:
    on_path = shutil.which(provider, path=environ.get("PATH", ""))
    return _named(environ, provider.upper()) or (os.path.abspath(on_path) if on_path else "")
