"""Which profiles take no new work for a while, and why: one file a profile, and one for each narrower scope of a limit.

A file that cannot be read may have closed all of its profile, for as long as any may: that is what it counts for, until its time
is over or a person opens the profile.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from agent_fleet.accounts import audit
from agent_fleet.accounts.registry import LABEL
from agent_fleet.accounts.stored import check_schema, iso, moment, seconds, texts
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError

DIRECTORY = "cooldowns"
LONGEST = 86400
UNREADABLE: Final = "its cooldown could not be read, and counts as the longest that there is"
_MOST = 128  # characters of a reason


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


def told(cooldown: Cooldown) -> str:
    """What is closed, until when, why, and whether that is when the limit ends or merely when it is tried again."""
    until = at_clock(cooldown.expires)
    if cooldown.resets_at is None and cooldown.reason.startswith("limit"):
        until += ", when it is tried again, as nobody said when the limit ends"
    elif cooldown.resets_at is not None and cooldown.resets_at > cooldown.expires + 1:
        until += f", when it is tried again; the limit was said to end {at_clock(cooldown.resets_at)}"
    return f"closed{cooldown.what} until {until}: {cooldown.reason}"


def at_clock(at: float) -> str:
    """A moment for people, as short as its distance allows."""
    ahead = abs(at - time.time())
    form = "%H:%M:%S" if ahead < 43200 else "%a %H:%M" if ahead < 6 * 86400 else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(at))


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
        for stem in self._stems():
            cooldown, fault = self._read(stem, now)
            if fault:
                mend = f"`fleet profile cooldown-clear {_label(stem)}` opens the profile"
                self.vault.note((DIRECTORY, f"{stem}.json"), f"{fault}; {mend}" if cooldown else fault)
            if cooldown and _is_in_force(cooldown, now):
                found.setdefault(cooldown.profile, []).append(cooldown)
        return found

    def repair(self, now: float) -> list[Cooldown]:
        """Set every file aside that cannot be read; what its profile is closed by instead, for each that is."""
        made = []
        for stem in self._stems():
            lost, fault = self._read(stem, now)
            if not fault:
                continue
            self.vault.set_aside((DIRECTORY, f"{stem}.json"), fault)
            if lost and (closed := self._instead(lost, now)):
                made.append(closed)
        return made

    def last(self, profile: str, scope: str = "") -> Cooldown | None:
        """The last one of a profile under this scope, whether it is over or not."""
        return self._read(_stem(profile, scope), time.time())[0]

    def begin(
        self, profile: str, reason: str, length: float, *, scope: str = "", resets_at: float | None = None
    ) -> Cooldown:
        """Close a profile for `length` seconds. Raises FleetError (`bad_input`) beyond 1 second to a day."""
        most = LONGEST
        if not 1 <= length <= most:
            raise FleetError(
                "bad_input", f"a cooldown lasts 1 to {most:.0f} seconds, not {length:.0f}", hint="ask less"
            )
        if not 1 <= len(reason) <= _MOST or not reason.isprintable():
            raise FleetError("bad_input", f"a reason is 1-{_MOST} printable characters", hint="say it in one line")
        now = time.time()
        self.repair(now)
        made = Cooldown(
            profile=profile, reason=reason, created=now, expires=now + length, scope=scope, resets_at=resets_at
        )
        self.vault.write((DIRECTORY, f"{_stem(profile, scope)}.json"), record(made))
        return made

    def clear(self, profile: str) -> bool:
        """Open a profile again, whatever it was closed for; whether there was any such file."""
        self.repair(time.time())
        stems = [stem for stem in self._stems() if _label(stem) == profile]
        removed = [self.vault.remove(DIRECTORY, f"{stem}.json") for stem in stems]
        return any(removed)

    def _stems(self) -> list[str]:
        return [stem for stem in self.vault.names(DIRECTORY) if LABEL.fullmatch(_label(stem))]

    def _read(self, stem: str, now: float) -> tuple[Cooldown | None, str]:
        """What a file says, or what it counts for and why it cannot be read; None where it is gone or would be over by now."""
        place = (DIRECTORY, f"{stem}.json")
        try:
            found = self.vault.read(*place)
            return None if found is None else parse(found, stem), ""
        except BadFileError as error:
            return self._lost(stem, now), str(error)

    def _lost(self, stem: str, now: float) -> Cooldown | None:
        """What an unreadable file counts for. None lasts longer than a day, so it is over a day after it was written."""
        try:
            written = min(now, os.lstat(self.vault.path(DIRECTORY, f"{stem}.json")).st_mtime)
        except FileNotFoundError:
            return None
        lost = Cooldown(profile=_label(stem), reason=UNREADABLE, created=written, expires=written + LONGEST)
        return lost if _is_in_force(lost, now) else None

    def _instead(self, lost: Cooldown, now: float) -> Cooldown | None:
        """Write what an unreadable file counted for. A readable one of the whole profile keeps its reason, and lasts as long."""
        kept = self._read(lost.profile, now)[0]
        if kept and _is_in_force(kept, now):
            if kept.expires >= lost.expires:
                return None
            lost = replace(kept, expires=lost.expires, reason=f"{kept.reason}; {UNREADABLE}"[:_MOST])
        self.vault.write((DIRECTORY, f"{lost.profile}.json"), record(lost))
        audit.note(self.vault, "cooldown-unreadable", profile=lost.profile, expires_unix=lost.expires)
        return lost


def _label(stem: str) -> str:
    return stem.partition("@")[0]


def _is_in_force(cooldown: Cooldown, now: float) -> bool:
    return now < cooldown.expires <= now + 8 * LONGEST
