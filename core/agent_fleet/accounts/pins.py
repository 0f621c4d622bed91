"""Who each home must belong to. A pin is one file a profile, so that no account's coming or going touches another's.

Accounts are known by a digest salted for this installation: nobody can find an address from it, or compare two machines.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fleet.accounts.stored import check_schema, iso, seconds, texts
from agent_fleet.accounts.values import Profile
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError

DIRECTORY = "identity"
SALT = "salt.json"
_PIN = "pin-"
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Who a profile's home belongs to. `fingerprint` is empty where its provider cannot tell who is logged in."""

    profile: str
    provider: str
    home: str
    fingerprint: str
    adopted: float


def named(account: str) -> str:
    """What an account is called, so that two texts for one account are equal."""
    return account.strip().casefold()


def broader(account: str) -> str:
    """What is before the last colon of an account's name, which names all accounts that begin so; empty without a colon."""
    head, colon, _ = named(account).rpartition(":")
    return head + colon


def fingerprint(salt: bytes, provider: str, account: str) -> str:
    """64 hexadecimal digits for an account; the same for one account, whatever label or letter case; empty for an empty name."""
    name = named(account)
    if not name:
        return ""
    return hmac.new(salt, f"{provider}\0{name}".encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def salt_of(vault: Vault) -> bytes:
    """This installation's salt, made when it is first needed.

    Raises FleetError (`corrupt`), also where it is gone and pins are left: with another one every account
    would seem to be another.
    """
    known = _salt(vault)
    if known is None:
        with vault.lock("salt", "the salt of identities"):
            known = _salt(vault)
            if known is None:
                _check_nothing_rests_on_it(vault)
                known = secrets.token_bytes(32)
                vault.write((DIRECTORY, SALT), {"schema": 1, "salt": known.hex()})
    return known


def _check_nothing_rests_on_it(vault: Vault) -> None:
    if any(stem.startswith(_PIN) for stem in vault.names(DIRECTORY)):
        raise _lost(vault, "it is gone")


def _lost(vault: Vault, why: str) -> FleetError:
    return FleetError(
        "corrupt",
        f"the salt of identities cannot be read: {why}",
        hint=f"move {vault.path(DIRECTORY)} away, then `fleet profile identity adopt` each account again",
    )


def _salt(vault: Vault) -> bytes | None:
    try:
        found = vault.read(DIRECTORY, SALT)
        if found is None:
            return None
        check_schema(found, 1)
        return bytes.fromhex(texts(found, "salt")["salt"])
    except (BadFileError, ValueError) as error:
        raise _lost(vault, str(error)) from None


def parse(found: Mapping[str, Any], profile: str) -> Pin:
    """A stored pin. Raises BadFileError."""
    check_schema(found, 1)
    words = texts(found, "profile", "provider", "home")
    digits = "" if "fingerprint" in found and found["fingerprint"] is None else found.get("fingerprint")
    if words["profile"] != profile or not _is_fingerprint(digits):
        raise BadFileError("it is the pin of another profile than its name says")
    return Pin(**words, fingerprint=str(digits), adopted=seconds(found.get("adopted_at"), "adopted_at"))


def _is_fingerprint(digits: object) -> bool:
    """Whether it is one, or the empty text of a provider that tells no accounts apart: what is missing is neither."""
    return isinstance(digits, str) and len(digits) in (0, 64) and set(digits) <= _HEX


class Pins:
    """All pins of one vault. Whoever writes holds the state lock."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    def of(self, profile: str) -> Pin | None:
        """A profile's pin; one that cannot be read is none, so that its account is closed until it is adopted again."""
        place = (DIRECTORY, f"{_PIN}{profile}.json")
        try:
            found = self.vault.read(*place)
            return None if found is None else parse(found, profile)
        except BadFileError as error:
            self.vault.note(place, f"{error}; `fleet profile identity adopt` writes it anew")
            return None

    def all(self, profiles: Mapping[str, Profile]) -> dict[str, Pin]:
        found = {label: self.of(label) for label, profile in profiles.items() if profile.is_worker}
        return {label: pin for label, pin in found.items() if pin is not None}

    def adopt(self, profile: Profile, digits: str) -> Pin:
        pin = Pin(
            profile=profile.id,
            provider=profile.provider,
            home=profile.home,
            fingerprint=digits,
            adopted=time.time(),
        )
        self.vault.write(
            (DIRECTORY, f"{_PIN}{profile.id}.json"),
            {
                "schema": 1,
                "profile": pin.profile,
                "provider": pin.provider,
                "home": pin.home,
                "fingerprint": pin.fingerprint or None,
                "adopted_at": iso(pin.adopted),
            },
        )
        return pin

    def remove(self, profile: str) -> bool:
        return self.vault.remove(DIRECTORY, f"{_PIN}{profile}.json")
