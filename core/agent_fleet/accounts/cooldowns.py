"""Which profiles take no new work for a while, and why: one file a profile, and one for each narrower scope of a limit."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fleet.accounts.registry import LABEL
from agent_fleet.accounts.stored import check_schema, iso, moment, seconds, texts
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError

DIRECTORY = "cooldowns"
LONGEST = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """A profile closed until `expires`. `scope` is a model's name where only work for that model waits; else empty."""

    profile: str
    reason: str
    created: float
    expires: float
    scope: str = ""


def record(cooldown: Cooldown) -> dict[str, Any]:
    """The cooldown as a file and as an answer; a scope is told only where there is one."""
    return {
        "schema": 1,
        "profile": cooldown.profile,
        "reason": cooldown.reason,
        "created_at": iso(cooldown.created),
        "expires_unix": cooldown.expires,
        **({"scope": cooldown.scope} if cooldown.scope else {}),
    }


def parse(found: Mapping[str, Any], stem: str) -> Cooldown:
    """A stored cooldown. Raises BadFileError."""
    check_schema(found, 1)
    words = texts(found, "profile", "reason")
    scope = found.get("scope", "")
    if not isinstance(scope, str) or _stem(words["profile"], scope) != stem:
        raise BadFileError("it is the cooldown of another profile than its name says")
    return Cooldown(
        **words,
        created=seconds(found.get("created_at"), "created_at"),
        expires=moment(found.get("expires_unix"), "expires_unix"),
        scope=scope,
    )


def _stem(profile: str, scope: str) -> str:
    """A label never holds an @, so a scoped file is never taken for another profile's."""
    return f"{profile}@{hashlib.sha256(scope.encode()).hexdigest()[:16]}" if scope else profile


class Cooldowns:
    """All cooldowns of one vault. Whoever writes holds the state lock."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    def active(self, now: float) -> dict[str, list[Cooldown]]:
        """Those that are not over, by profile. One that ends later than any may is taken for over: a clock was wrong."""
        found: dict[str, list[Cooldown]] = {}
        for stem in self.vault.names(DIRECTORY):
            cooldown = self._one(stem)
            if cooldown and now < cooldown.expires <= now + 8 * LONGEST:
                found.setdefault(cooldown.profile, []).append(cooldown)
        return found

    def last(self, profile: str) -> Cooldown | None:
        """The last one of a whole profile, whether it is over or not."""
        return self._one(profile)

    def begin(self, profile: str, reason: str, length: float, *, scope: str = "", most: float = LONGEST) -> Cooldown:
        """Close a profile for `length` seconds. Raises FleetError (`bad_input`) beyond 1 to `most` seconds."""
        if not 1 <= length <= most:
            raise FleetError(
                "bad_input", f"a cooldown lasts 1 to {most:.0f} seconds, not {length:.0f}", hint="ask less"
            )
        if not 1 <= len(reason) <= 128 or not reason.isprintable():
            raise FleetError("bad_input", "a reason is 1-128 printable characters", hint="say it in one line")
        now = time.time()
        made = Cooldown(profile=profile, reason=reason, created=now, expires=now + length, scope=scope)
        self.vault.write((DIRECTORY, f"{_stem(profile, scope)}.json"), record(made))
        return made

    def clear(self, profile: str) -> bool:
        """Open a profile again, whatever it was closed for; whether there was any such file."""
        stems = [stem for stem in self.vault.names(DIRECTORY) if stem.partition("@")[0] == profile]
        removed = [self.vault.remove(DIRECTORY, f"{stem}.json") for stem in stems]
        return any(removed)

    def _one(self, stem: str) -> Cooldown | None:
        if not LABEL.fullmatch(stem.partition("@")[0]):
            return None
        place = (DIRECTORY, f"{stem}.json")
        try:
            found = self.vault.read(*place)
            return None if found is None else parse(found, stem)
        except BadFileError as error:
            self.vault.note(place, f"{error}; `fleet profile cooldown-clear` removes it")
            return None
