"""What the core asks of a provider's accounts, answered by whichever provider the profile names.

A provider that is missing, offers no accounts, or raises costs its own profiles alone.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent_fleet.accounts import (
    assets,
    audit,
    binaries,
    credentials,
    environment,
    outputs,
    provisioning,
    quota,
    readers,
)
from agent_fleet.accounts.homes import Homes, Made, words_of
from agent_fleet.accounts.keychain import Keychain
from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.selection import Readiness
from agent_fleet.accounts.spec import Account, AccountSpec, Credential, CredentialPlace, HookSaid
from agent_fleet.accounts.values import CredentialState, Profile, QuotaReading
from agent_fleet.accounts.vault import Vault, directory_fault
from agent_fleet.errors import FleetError
from agent_fleet.plugins import PROVIDERS, Plugins
from agent_fleet.protocols import Accounts, Hooked, Identified, Personal, Provider

_OWN = 5.0  # seconds for a look at the person's own logins
_KNOWN: Mapping[str, CredentialState] = {"present": "present", "absent": "absent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one look came to."""

    reading: QuotaReading
    account: str
    credential: CredentialState


class ProviderPort:
    """Answers for the accounts of one registry by asking the plugins."""

    def __init__(
        self,
        plugins: Plugins,
        registry: Registry,
        vault: Vault,
        environ: Mapping[str, str],
        *,
        may_ask: bool = False,
    ) -> None:
        self.plugins = plugins
        self.registry = registry
        self.homes = Homes(vault)
        self.environ = environ
        self.may_ask = may_ask
        self._known: dict[str, tuple[Provider, AccountSpec]] = {}
        # accounts are looked at in threads, and loading a plugin leads the whole process's output elsewhere for a moment
        self._loading = threading.Lock()

    def spec(self, provider: str) -> AccountSpec:
        """What a provider says of its accounts. Raises FleetError: `unknown_plugin`, or `unusable` if it has none."""
        return self._offer(provider)[1]

    def _offer(self, provider: str) -> tuple[Provider, AccountSpec]:
        with self._loading:
            return self._known.get(provider) or self._loaded(provider)

    def _loaded(self, provider: str) -> tuple[Provider, AccountSpec]:
        offer = self.plugins.offer(PROVIDERS, provider)
        thing = offer.thing
        if not isinstance(thing, Accounts):
            raise FleetError(
                "unusable",
                f"the provider {provider} offers no accounts",
                hint="`fleet plugins` lists the providers; one offers accounts by an account_spec of its own",
            )
        self._known[provider] = thing, self.plugins.ask(offer, lambda _: thing.account_spec())
        return self._known[provider]

    def heard(self, provider: str, event: str, arguments: Sequence[str], payload: bytes) -> HookSaid | None:
        """What a call of `fleet hook` says; None of a provider that has no hooks. Raises FleetError (`bad_input`)."""
        offer = self.plugins.offer(PROVIDERS, provider)
        thing = offer.thing
        if not isinstance(thing, Hooked):
            return None
        return self.plugins.ask(offer, lambda _: thing.hook_event(event, arguments, payload))

    # ---------------------------------------------------------------------------------------------- made ready

    def provision(self, profile: Profile) -> tuple[Made, tuple[str, ...]]:
        """Make the home and set what is ours in it; what was made, and which of its files were changed.

        Raises FleetError for a home, a file or a program that cannot be trusted. The caller keeps what was made.
        """
        spec, table = self.spec(profile.provider), self.registry.providers[profile.provider]
        binary = binaries.locate(table.binary or spec.binary, self.environ.get("PATH", ""))
        pin = binaries.pinned(binaries.behind(binary, spec.behind))
        changed: tuple[str, ...] = ()
        made = Made(
            profile=profile.id, provider=profile.provider, home=profile.home, words=words_of(self.registry), pin=pin
        )
        if spec.homes:
            roots = self.registry.providers[profile.provider].trusted_projects
            keys = provisioning.owned(spec, roots, provisioning.hooks(made.words))
            changed = provisioning.provision(profile.home, keys)
            if table.base_home and table.shared_entries:
                never = {place.name for place in spec.credentials}
                allowed = [name for name in table.shared_entries if name in spec.shared]
                changed += assets.share(table.base_home, profile.home, allowed, never=never)
        return made, changed

    def readiness(self, profile: Profile) -> Readiness:
        """Whether what was made still holds, and how the login looks from outside. No process is started."""
        spec = self.spec(profile.provider)
        made = self.homes.of(profile)
        if made is None:
            return Readiness(provisioned=False)
        fault = self._home_fault(profile, spec, made) or _login_fault(spec, profile)
        fault = fault or _hook_fault(spec, made) or self._binary_fault(profile, made)
        return Readiness(provisioned=True, fault=fault, stamp=_stamp(spec, profile), login=_login(spec, made))

    def _home_fault(self, profile: Profile, spec: AccountSpec, made: Made) -> str:
        if not spec.homes:
            return ""
        try:
            found = os.lstat(profile.home)
        except OSError:
            return f"its home {profile.home} is gone; `fleet profile provision {profile.id}` makes it again"
        if not stat.S_ISDIR(found.st_mode):
            return f"its home {profile.home} is no directory, or a link to one; put the directory itself there"
        fault = directory_fault(found)
        if fault:
            return f"its home is not private: {fault}; `fleet profile provision {profile.id}` closes it"
        # the trust of a project is no part of it: that one is set anew at every launch, for the work tree that it is for
        keys = provisioning.owned(spec, (), provisioning.hooks(made.words))
        faults = provisioning.faults(profile.home, keys)
        return f"{faults[0].text}; {faults[0].hint}" if faults else ""

    def _binary_fault(self, profile: Profile, made: Made) -> str:
        policy: Literal["refuse", "follow"] = "follow" if self.registry.rules.pin_policy == "follow" else "refuse"
        checked = binaries.check(made.pin, made.pin.path, policy)
        if checked.pin is not None:
            if checked.pin != made.pin:
                self._repin(profile, made, checked)
            return ""
        return f"{checked.words}; `fleet profile provision {made.profile}` pins it anew"

    def _repin(self, profile: Profile, made: Made, checked: binaries.Checked) -> None:
        """Keep a pin that was followed, or whose file was only touched: to read a large program again takes a second each time.

        While it was read somebody may have provisioned the profile anew; what that left is newer.
        """
        if checked.pin is None or self.homes.of(profile) != made:
            return
        self.homes.write(replace(made, pin=checked.pin))
        if checked.state == "changed":
            # no lock is held here, or the caller's: the line is added, and the file is turned over by somebody else
            audit.note(self.homes.vault, "program-followed", largest=sys.maxsize, profile=made.profile)

    # ----------------------------------------------------------------------------------------------- looked at

    def look(self, profile: Profile, deadline: float) -> Seen:
        """Who is logged in and what is left: the provider's sources in turn, until one has fresh numbers."""
        provider, spec = self._offer(profile.provider)
        login = self._credential(profile, spec)
        if login.state in ("absent", "invalid"):
            reason = "auth_required" if login.state == "absent" else "credential_invalid"
            return Seen(
                reading=QuotaReading(status="auth_required", reason=reason),
                account="",
                credential=_KNOWN.get(login.state, "indeterminate"),
            )
        account = self.account(profile)
        who: str | None = None
        if isinstance(provider, Identified):
            answer = readers.within(lambda: provider.identity(account, deadline), deadline)
            who = answer if isinstance(answer, str) else None
        reading = readers.read_quota(
            readers.sources(provider, account),
            account,
            fresh_for=self.registry.rules.quota_stale_seconds,
            deadline=readers.PATIENT if self.may_ask else readers.DEADLINE,
            who=who or "",
        )
        if reading.reason == quota.ANOTHER:
            who = ""
        return Seen(reading=reading, account=who or "", credential=_KNOWN.get(login.state, "indeterminate"))

    def own(self, provider: str) -> tuple[str, ...]:
        """Who the person is logged in as outside of all accounts, where the registry says where to look. It raises nothing."""
        table = self.registry.providers.get(provider)
        if table is None or not (table.base_home or table.desktop_identity_file):
            return ()
        try:
            thing = self._offer(provider)[0]
        except FleetError:
            return ()
        if not isinstance(thing, Personal):
            return ()
        asked = lambda: tuple(map(str, thing.own_accounts(table.base_home, table.desktop_identity_file)))  # noqa: E731
        answer = readers.within(asked, _OWN)
        return () if isinstance(answer, readers.Failure) else answer

    def _credential(self, profile: Profile, spec: AccountSpec) -> Credential:
        keychain = Keychain() if sys.platform == "darwin" else None
        return credentials.credential(
            spec,
            profile.home,
            environment.person(),
            options=profile.options,
            ambient=self.environ,
            keychain=keychain,
        )

    def _named_keys(self, profile: Profile, spec: AccountSpec) -> dict[str, str]:
        """The keys that the profile names; none if one of them is not there, which the state of its login tells."""
        try:
            return credentials.handed_over(spec, profile.options, self.environ)
        except FleetError:
            return {}

    def account(self, profile: Profile) -> Account:
        """The profile as its provider sees it when it is asked something."""
        spec = self.spec(profile.provider)
        made = self.homes.of(profile)
        tools = {"quota-axi": self.registry.rules.quota_binary} if self.registry.rules.quota_binary else {}
        home = profile.home if spec.homes else ""
        return Account(
            profile=profile.id,
            provider=profile.provider,
            home=home,
            binary=made.pin.path if made else "",
            environ=environment.environment(
                spec,
                home,
                self.environ,
                environment.person(),
                path=environment.safe_path(self.environ.get("PATH", "")),
                allow=environment.allowed(self.registry.providers[profile.provider].options, profile.provider),
                sets=self._named_keys(profile, spec),
            ),
            options={key: str(value) for key, value in profile.options.items()},
            tools=tools,
            last_output=outputs.last(self.homes.vault, profile.id),
            may_ask=self.may_ask,
        )


def _hook_fault(spec: AccountSpec, made: Made) -> str:
    if not spec.homes or os.access(made.words[0], os.X_OK):
        return ""
    return f"its hooks call {made.words[0]}, which is gone; `fleet profile provision {made.profile}` names this one"


def _login_fault(spec: AccountSpec, profile: Profile) -> str:
    """What is wrong with the rights of a login's file, which every other user of this machine could take."""
    for place in spec.credentials:
        path = os.path.join(profile.home, place.name)
        try:
            found = os.lstat(path) if place.store == "file" else None
        except OSError:
            continue
        if found is not None and (found.st_uid != os.getuid() or found.st_mode & 0o077):
            return (
                f"its login {path} is not yours alone (mode {stat.S_IMODE(found.st_mode):04o}); `chmod 600` closes it"
            )
    return ""


def _login(spec: AccountSpec, made: Made) -> str:
    """The command by which a person logs in in the home, for a shell; empty for an account without one, which names a key."""
    if not spec.homes:
        return ""
    return f"{spec.homes[0]}={shlex.quote(made.home)} {shlex.join([made.pin.path, *spec.login])}"


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
