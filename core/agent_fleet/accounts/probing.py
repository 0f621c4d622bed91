"""Looking at accounts: each in a thread of its own with a deadline, once between all processes, kept for the others.

What a provider tells passes through here alone: numbers are normalised, who it is becomes a salted digest, and whatever it
raises costs its own profile and shows no text of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Protocol

from agent_fleet.accounts import pins, proofs, quota, windows
from agent_fleet.accounts.proofs import Proofs
from agent_fleet.accounts.registry import Rules
from agent_fleet.accounts.selection import Readiness
from agent_fleet.accounts.values import CredentialState, Profile, Proof, QuotaReading
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError

DEADLINE = 45.0


class Look(Protocol):
    """What one look at an account came to: numbers, who it is (empty: unknown), and whether there is a login."""

    @property
    def reading(self) -> QuotaReading: ...

    @property
    def account(self) -> str: ...

    @property
    def credential(self) -> CredentialState: ...


class Port(Protocol):
    """All that the core asks about accounts that only their provider knows."""

    def readiness(self, profile: Profile) -> Readiness:
        """What can be told without starting a process; quick."""
        ...

    def look(self, profile: Profile, deadline: float) -> Look:
        """Look at the account itself, within `deadline` seconds. It may raise anything."""
        ...

    def own(self, provider: str) -> tuple[str, ...]:
        """Who the person is logged in as outside of all accounts, where the registry says where to look. It raises nothing."""
        ...


class Prober:
    """Makes proofs for one vault. With `keep` false nothing is written: for those who only want to know."""

    def __init__(self, vault: Vault, port: Port, rules: Rules, *, deadline: float = DEADLINE) -> None:
        self.vault = vault
        self.port = port
        self.rules = rules
        self.deadline = deadline
        self.proofs = Proofs(vault)

    def prove(self, profiles: Iterable[Profile], *, force: bool = False) -> dict[str, Proof]:
        """A proof of each, all looked at together. One that is late is a proof that nothing is known, and kept as such.

        Without `force` the proof that another process has just made does.
        """
        asked = list(profiles)
        if not asked:
            return {}
        salt = pins.salt_of(self.vault)
        made: dict[str, Proof] = {}
        threads = [
            threading.Thread(target=self._one, args=(profile, salt, force, made), name=profile.id, daemon=True)
            for profile in asked
        ]
        until = time.monotonic() + self.deadline
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        found = dict(made)
        for profile in asked:
            if profile.id not in found:
                found[profile.id] = self._late(profile)
        return found

    def _late(self, profile: Profile) -> Proof:
        """What is known of an account that did not answer in time: kept, so that not every choice waits for it anew.

        What its look still comes to takes the place of this, and what another process has seen meanwhile stays.
        """
        try:
            stamp = self.port.readiness(profile).stamp
        except Exception:  # noqa: BLE001 -- a provider may raise anything; without a stamp the next choice looks again
            stamp = ""
        failed = self._failed(profile, "unavailable", "identity_probe_timeout", stamp)
        if proofs.is_due(self.proofs.of(profile.id), stamp, self.rules, time.time()):
            self.proofs.write(failed)
        return failed

    def _one(self, profile: Profile, salt: bytes, force: bool, made: dict[str, Proof]) -> None:
        try:
            asked_at = time.time()
            with self.vault.lock(f"proof-{profile.id}", "a look at the account", patience=self.deadline):
                made[profile.id] = self._shared(profile, salt, asked_at if force else None)
        except FleetError as error:
            made[profile.id] = self._failed(profile, "unavailable", error.code)
        except Exception as error:  # noqa: BLE001 -- one account's trouble is its own; the type is told, the text may hold a secret
            made[profile.id] = self._failed(profile, "error", type(error).__name__)

    def _shared(self, profile: Profile, salt: bytes, asked_at: float | None) -> Proof:
        """The proof that somebody made while the lock was waited for, else a new one."""
        known = self.proofs.of(profile.id)
        ready = self.port.readiness(profile)
        is_due = proofs.is_due(known, ready.stamp, self.rules, time.time())
        if known is not None and (not is_due if asked_at is None else known.made_at >= asked_at):
            return known
        proof = self._looked(profile, salt)
        self.proofs.write(proof)
        return proof

    def _looked(self, profile: Profile, salt: bytes) -> Proof:
        """A new proof. A login that changes while one looks is looked at once more: providers renew theirs by themselves."""
        for _ in range(2):
            before = self.port.readiness(profile).stamp
            began = time.time()
            try:
                look = self.port.look(profile, self.deadline)
            except Exception as error:  # noqa: BLE001 -- the type is told, the text may hold a secret
                return self._failed(profile, "error", type(error).__name__, before)
            if self.port.readiness(profile).stamp == before:
                return _proof(profile, look, salt, began, before)
        return self._failed(profile, "unavailable", "credential_source_changed", before)

    def _failed(self, profile: Profile, status: str, reason: str, stamp: str = "") -> Proof:
        return Proof(
            profile=profile.id,
            provider=profile.provider,
            status="error" if status == "error" else "unavailable",
            made_at=time.time(),
            reason=windows.token(reason, "probe_failed"),
            stamp=stamp,
        )


def _proof(profile: Profile, look: Look, salt: bytes, began: float, stamp: str) -> Proof:
    reading = quota.believable(look.reading, time.time())
    account = look.account or reading.account
    return Proof(
        profile=profile.id,
        provider=profile.provider,
        status=reading.status,
        made_at=began,
        observed_at=reading.observed_at,
        windows=reading.windows,
        source=reading.source,
        reason=reading.reason,
        fingerprint=pins.fingerprint(salt, profile.provider, account),
        broader=pins.fingerprint(salt, profile.provider, pins.broader(account)),
        stamp=stamp,
        credential=look.credential,
    )


def own_of(port: Port, vault: Vault, providers: Iterable[str]) -> dict[str, frozenset[str]]:
    """The fingerprints of the person's own logins, by provider; nothing of a provider whose own logins nobody configured."""
    seen = {provider: port.own(provider) for provider in providers}
    if not any(seen.values()):
        return {}
    salt = pins.salt_of(vault)
    return {
        provider: frozenset(pins.fingerprint(salt, provider, each) for each in accounts)
        for provider, accounts in seen.items()
        if accounts
    }


def readiness_of(port: Port, profiles: Iterable[Profile]) -> Mapping[str, Readiness]:
    """What can be told of each worker without a process; reserves are not even looked at."""
    found = {}
    for profile in profiles:
        if not profile.is_worker:
            continue
        try:
            found[profile.id] = port.readiness(profile)
        except FleetError as error:
            found[profile.id] = Readiness(provisioned=False, fault=error.message)
        except Exception as error:  # noqa: BLE001 -- a provider that raises costs its own profile alone
            found[profile.id] = Readiness(provisioned=False, fault=f"its provider raised {type(error).__name__}")
    return found
