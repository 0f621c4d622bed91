"""What the core asks of a provider's accounts, answered by whichever provider the profile names.

A provider that is missing, offers no accounts, or raises costs its own profiles alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.selection import Readiness
from agent_fleet.accounts.spec import Account, AccountSpec, CredentialPlace
from agent_fleet.accounts.values import CredentialState, Profile, QuotaReading
from agent_fleet.accounts.vault import directory_fault
from agent_fleet.errors import FleetError
from agent_fleet.plugins import PROVIDERS, Offer, Plugins
from agent_fleet.protocols import Accounts, Identified, Provider, Quotas

_NO_NUMBERS = QuotaReading(status="none")
_SILENT = QuotaReading(status="unavailable", reason="no_source_answered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one look came to."""

    reading: QuotaReading
    account: str
    credential: CredentialState


class ProviderPort:
    """Answers for the accounts of one registry by asking the plugins."""

    def __init__(self, plugins: Plugins, registry: Registry, environ: Mapping[str, str]) -> None:
        self.plugins = plugins
        self.registry = registry
        self.environ = environ
        self._known: dict[str, tuple[Offer[Provider], AccountSpec]] = {}

    def spec(self, provider: str) -> AccountSpec:
        """What a provider says of its accounts. Raises FleetError: `unknown_plugin`, or `unusable` if it has none."""
        return self._offer(provider)[1]

    def _offer(self, provider: str) -> tuple[Offer[Provider], AccountSpec]:
        if provider not in self._known:
            offer = self.plugins.offer(PROVIDERS, provider)
            thing = offer.thing
            if not isinstance(thing, Accounts):
                raise FleetError(
                    "unusable",
                    f"the provider {provider} offers no accounts",
                    hint="`fleet plugins` lists the providers; one offers accounts by an account_spec of its own",
                )
            self._known[provider] = offer, self.plugins.ask(offer, lambda _: thing.account_spec())
        return self._known[provider]

    def readiness(self, profile: Profile) -> Readiness:
        """Whether the home is there and private, and how the login in it looks, by the state of its files alone."""
        spec = self.spec(profile.provider)
        if spec.homes:
            try:
                fault = directory_fault(os.lstat(profile.home))
            except OSError:
                return Readiness(provisioned=False, fault="there is no home yet")
            if fault:
                return Readiness(provisioned=True, fault=f"its home is not private: {fault}")
        return Readiness(provisioned=True, stamp=_stamp(spec, profile))

    def look(self, profile: Profile, deadline: float) -> Seen:
        """Who is logged in and what is left: the provider's sources in turn, until one has fresh numbers."""
        offer, _ = self._offer(profile.provider)
        provider, account = offer.thing, self.account(profile)
        who: str | None = None
        if isinstance(provider, Identified):
            who = self.plugins.ask(offer, lambda _: provider.identity(account, deadline))
        reading = _NO_NUMBERS
        if isinstance(provider, Quotas):
            reading = self.plugins.ask(offer, lambda _: _first_fresh(provider, account, deadline))
        credential: CredentialState = "indeterminate" if who is None else "present"
        return Seen(reading=reading, account=who or "", credential=credential)

    def account(self, profile: Profile) -> Account:
        """The profile as its provider sees it."""
        spec, table = self.spec(profile.provider), self.registry.providers[profile.provider]
        named = {name: self.environ[name] for name in ("PATH", "HOME", "LANG") if name in self.environ}
        return Account(
            profile=profile.id,
            provider=profile.provider,
            home=profile.home if spec.homes else "",
            binary=table.binary,
            environ={**named, **dict.fromkeys(spec.homes, profile.home)},
            options={key: str(value) for key, value in profile.options.items()},
            tools={"quota-axi": self.registry.rules.quota_binary} if self.registry.rules.quota_binary else {},
        )


def _first_fresh(provider: Quotas, account: Account, deadline: float) -> QuotaReading:
    best = _SILENT
    for reader in provider.quota_readers(account):
        reading = reader.read(account, deadline)
        if reading is not None and reading.status == "fresh":
            return reading
        best = reading or best
    return best


def _stamp(spec: AccountSpec, profile: Profile) -> str:
    """A digest of what the places of the login look like from outside; no byte of a login is read."""
    looks = [_looks(place, profile) for place in spec.credentials]
    return hashlib.sha256(repr(looks).encode()).hexdigest()[:32]


def _looks(place: CredentialPlace, profile: Profile) -> tuple[object, ...]:
    if place.store == "keychain":
        return (place.store, place.name)
    named = profile.options.get("key_file") if place.store == "named" else os.path.join(profile.home, place.name)
    if not named:
        return (place.store, profile.options.get("key_env"))
    try:
        found = os.lstat(os.path.expanduser(str(named)))
    except OSError:
        return (place.store, None)
    return (place.store, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
