"""What the commands of accounts share: the registry and the state it names, opened when they are first asked for."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import click

from agent_fleet.accounts import places, probing, readers
from agent_fleet.accounts.ports import ProviderPort
from agent_fleet.accounts.probing import Prober
from agent_fleet.accounts.registrar import Registrar
from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.router import Router
from agent_fleet.accounts.values import Profile
from agent_fleet.accounts.vault import Vault
from agent_fleet.commands import Shared
from agent_fleet.errors import FleetError

keychain_option = click.option(
    "--allow-keychain-prompt",
    "may_ask",
    is_flag=True,
    help="You are there: the macOS Keychain may ask you for the login, once; choose Always Allow.",
)


class Desk:
    """The accounts of one invocation.

    `may_ask` says that the person is there to answer for their keychain.
    For the commands of accounts `--config FILE` names the registry; elsewhere (`is_registry_named` false) a file of settings.
    """

    def __init__(self, shared: Shared, *, is_registry_named: bool = True, may_ask: bool = False) -> None:
        self.shared = shared
        self.may_ask = may_ask
        named = shared.config_file if is_registry_named else None
        self.registrar = Registrar(places.registry_path(shared.environ, named), shared.environ)

    @functools.cached_property
    def registry(self) -> Registry:
        """The registry as it was when this command began."""
        found = self.registrar.load()
        self.shared.tellers.append(lambda: list(found.warnings))
        return found

    @functools.cached_property
    def vault(self) -> Vault:
        found = Vault(self.registry.rules.state_dir)
        self.shared.tellers.append(lambda: found.notices)
        return found

    @functools.cached_property
    def port(self) -> ProviderPort:
        from agent_fleet import config
        from agent_fleet.plugins import Plugins

        shared = self.shared
        settings = config.load(shared.root, queue_dir=shared.queue_dir, environ=shared.environ, explicit=None)
        return ProviderPort(Plugins(settings), self.registry, self.vault, shared.environ, may_ask=self.may_ask)

    @functools.cached_property
    def router(self) -> Router:
        return Router(self.registrar, self.vault, self.port)

    @functools.cached_property
    def prober(self) -> Prober:
        deadline = probing.DEADLINE + (readers.PATIENT if self.may_ask else 0.0)
        return Prober(self.vault, self.port, self.registry.rules, deadline=deadline)

    def asked(self, label: str | None, everything: bool) -> list[Profile]:
        """The profiles that a command line names: one, or all with `--all`."""
        if (label is None) is not everything:
            raise FleetError("usage", "name one profile, or --all", hint="`fleet profile list` shows the labels")
        return list(self.registry.profiles.values()) if label is None else [self.registry.profile(label)]


def profile_record(profile: Profile) -> dict[str, Any]:
    """A profile as every command tells it."""
    return {
        "id": profile.id,
        "provider": profile.provider,
        "home": profile.home,
        "pools": list(profile.pools),
        "enabled": profile.enabled,
        "weight": profile.weight,
        "max_concurrent": profile.max_concurrent,
        "reserve_percent": profile.reserve_percent,
        "safety_policy": profile.safety_policy,
    }


def rows(lines: Sequence[tuple[str, ...]]) -> str:
    """Columns for people."""
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g} %"
