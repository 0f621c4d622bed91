"""What was made ready for a profile: its home, the hooks that its sessions call, and the program that runs there.

One file a profile says so. Whether it still holds is asked of the home and of the program themselves, each time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fleet.accounts import binaries
from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.stored import check_schema, iso, texts
from agent_fleet.accounts.values import Profile
from agent_fleet.accounts.vault import Vault
from agent_fleet.queue.files import BadFileError

DIRECTORY = "homes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What provisioning left: the words by which hooks call fleet, and the pin of the provider's program."""

    profile: str
    provider: str
    home: str
    words: tuple[str, ...]
    pin: binaries.Pin


def words_of(registry: Registry) -> tuple[str, ...]:
    """The words by which a provider's hook calls this fleet, wherever it is run."""
    # -P: a hook runs in the project, whose own modules must not be taken for ours
    return (sys.executable, "-P", "-m", "agent_fleet", "--config", registry.path)


def parse(found: Mapping[str, Any], profile: str) -> Made:
    """What a file says. Raises BadFileError."""
    check_schema(found, 1)
    fields = texts(found, "profile", "provider", "home")
    words, pin = found.get("words"), binaries.pin_from(found["pin"]) if isinstance(found.get("pin"), dict) else None
    if fields["profile"] != profile or pin is None:
        raise BadFileError("it is not what was made for the profile that its name says")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise BadFileError("words is no command line")
    return Made(**fields, words=tuple(words), pin=pin)


class Homes:
    """All of one vault. Whoever writes holds the state lock."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    def of(self, profile: Profile) -> Made | None:
        """What was made for a profile as it is now; None if nothing was, or for another home or provider."""
        place = (DIRECTORY, f"{profile.id}.json")
        try:
            found = self.vault.read(*place)
            made = None if found is None else parse(found, profile.id)
        except BadFileError as error:
            self.vault.note(place, f"{error}; `fleet profile provision` writes it anew")
            return None
        if made is None or (made.home, made.provider) != (profile.home, profile.provider):
            return None
        return made

    def write(self, made: Made) -> None:
        self.vault.write(
            (DIRECTORY, f"{made.profile}.json"),
            {
                "schema": 1,
                "profile": made.profile,
                "provider": made.provider,
                "home": made.home,
                "words": list(made.words),
                "pin": made.pin.as_json(),
                "provisioned_at": iso(time.time()),
            },
        )

    def remove(self, profile: str) -> bool:
        return self.vault.remove(DIRECTORY, f"{profile}.json")
