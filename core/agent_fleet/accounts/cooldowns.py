"""Which profiles take no new work for a while, and why: one file a profile, and one for each narrower scope of a limit."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Mapping
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
    """A profile closed until `expires`. `scope` is a model's name where only work for that model waits; else empty.

    `resets_at` is when its limit was said to end; None where nobody said so, and it is merely tried again then.
    """

    profile: str
    reason: str
    created: float
    expires: float
    scope: str = ""
    resets_at: float | None = None

    @property
    def what(self) -> str:
        """What is closed of it, in words that follow `closed`."""
        return f" to {self.scope}" if self.scope else ""


def concerns(scope: str, model: str | None) -> bool:
    """Whether work for a model waits for what is closed under this scope. Pure.

    Providers and people name a model by a longer or a shorter name, so one that holds the other is the same. An empty model is
    not known, and may be any; None is work of which some is for another model.
    """
    if not scope:
        return True
    if model is None:
        return False
    mine, other = _plain(scope), _plain(model)
    return mine in other or other in mine


def concerning(found: Iterable[Cooldown], model: str | None) -> list[Cooldown]:
    """Those of a profile's cooldowns that work for this model waits for."""
    return [each for each in found if concerns(each.scope, model)]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def record(cooldown: Cooldown) -> dict[str, Any]:
    """The cooldown as a file and as an answer; a scope is told only where there is one."""
    return {
        "schema": 1,
        "profile": cooldown.profile,
        "reason": cooldown.reason,
        "created_at": iso(cooldown.created),
        "expires_unix": cooldown.expires,
        **({"scope": cooldown.scope} if cooldown.scope else {}),
        **({} if cooldown.resets_at is None else {"resets_unix": cooldown.resets_at}),
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
        resets_at=None if found.get("resets_unix") is None else moment(found["resets_unix"], "resets_unix"),
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

    def last(self, profile: str, scope: str = "") -> Cooldown | None:
        """The last one of a profile under this scope, whether it is over or not."""
        return self._one(_stem(profile, scope))

    def begin(
        self, profile: str, reason: str, length: float, *, scope: str = "", resets_at: float | None = None
    ) -> Cooldown:
        """Close a profile for `length` seconds. Raises FleetError (`bad_input`) beyond 1 second to a day."""
        most = LONGEST
        if not 1 <= length <= most:
            raise FleetError(
                "bad_input", f"a cooldown lasts 1 to {most:.0f} seconds, not {length:.0f}", hint="ask less"
            )
        if not 1 <= len(reason) <= 128 or not reason.isprintable():
            raise FleetError("bad_input", "a reason is 1-128 printable characters", hint="say it in one line")
        now = time.time()
        made = Cooldown(
            profile=profile, reason=reason, created=now, expires=now + length, scope=scope, resets_at=resets_at
        )
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
