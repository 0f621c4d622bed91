"""Which program runs under an account: found once, looked at, and known again by its content.

A launcher may be a link and a program may have several names (npm lays both out so); what is pinned is the file that they lead
to. The digest of a large program takes a second, so it is made again only when the file's own marks have changed.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agent_fleet.accounts.environment import is_trusted
from agent_fleet.errors import FleetError, from_os_error

MOST_LINKS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A program as it was when it was pinned. `marks` are device, inode, size and times: as long as they stay, so does the rest."""

    path: str
    real: str
    owner: int
    mode: int
    digest: str
    marks: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A program beside its pin. `pin` is how it is now; None if it must not run, and then `words` say why."""

    state: Literal["same", "changed", "unsafe"]
    pin: Pin | None
    words: str = ""


def locate(named: str, path: str) -> str:
    """The absolute path of a program that is named by a path, or by a name on this `PATH`. Raises `not_found`."""
    found = shutil.which(os.path.expanduser(named), path=path)
    if not found or not os.path.isabs(found):
        raise FleetError(
            "not_found", f"there is no program {named}", hint="install it, or name its absolute path in the registry"
        )
    return found


def behind(launcher: str, places: Iterable[str]) -> str:
    """The program that a package manager's launcher starts: the only one at the first of these places that has any, else itself.

    A place is a pattern, seen from the directory of the launcher's own file. Of the program itself nothing is left alive when
    the process that was leased to is killed, and its bytes are what is pinned.
    """
    here = glob.escape(os.path.dirname(os.path.realpath(launcher)))
    for place in places:
        found = [each for each in glob.glob(os.path.join(here, place)) if os.access(each, os.X_OK)]
        if found:
            return os.path.normpath(found[0]) if len(found) == 1 else launcher
    return launcher


def pinned(path: str) -> Pin:
    """A pin of this program. Raises `not_found`, and `refused` if somebody else could exchange it."""
    for each in _hops(path):
        if not is_trusted(each):
            raise FleetError(
                "refused",
                f"somebody else than root and you may change {each}, or what lies above it",
                hint="take the rights to write from others, or install the program elsewhere",
            )
    real = os.path.realpath(path)
    found = _look(real)
    if not stat.S_ISREG(found.st_mode) or not os.access(real, os.X_OK):
        raise FleetError("refused", f"{path} is no program", hint="name the program itself")
    return Pin(
        path=path,
        real=real,
        owner=found.st_uid,
        mode=stat.S_IMODE(found.st_mode),
        digest=_digest(real),
        marks=_marks(found),
    )


def pin_from(stored: Mapping[str, Any]) -> Pin | None:
    """A pin as `as_json` wrote it; None for anything else."""
    try:
        pin = Pin(**stored)
    except TypeError:
        return None
    texts = all(isinstance(value, str) for value in (pin.path, pin.real, pin.digest, pin.marks))
    whole = all(isinstance(value, int) for value in (pin.owner, pin.mode))
    return pin if texts and whole else None


def check(pin: Pin, path: str, policy: Literal["refuse", "follow"]) -> Checked:
    """Compare the program at `path` with its pin.

    A program that has changed is refused, or followed if root or this user owns it and nobody else could have changed it. What
    was followed comes back as another pin, for the caller to keep and to tell of.
    """
    try:
        real = os.path.realpath(path)
        if (path, real, _marks(_look(real))) == (pin.path, pin.real, pin.marks):
            return Checked(state="same", pin=pin)
        now = pinned(path)
    except FleetError as error:
        return Checked(state="unsafe", pin=None, words=error.message)
    except OSError as error:
        return Checked(state="unsafe", pin=None, words=from_os_error(error, f"looking at {path}").message)
    if (now.digest, now.owner, now.mode) == (pin.digest, pin.owner, pin.mode):
        return Checked(state="same", pin=now)
    words = f"{path} is another program than the one that was pinned"
    return Checked(state="changed", pin=now if policy == "follow" else None, words=words)


def _hops(path: str) -> Iterator[str]:
    """The path, and every path that a link on the way leads to."""
    for _ in range(MOST_LINKS):
        yield path
        try:
            target = os.readlink(path)
        except OSError:
            yield os.path.realpath(path)
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), target))
    raise FleetError("refused", f"{path} is a link that leads nowhere", hint="name the program itself")


def _look(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError:
        raise FleetError("not_found", f"there is no program {path}", hint="install it again") from None


def _marks(found: os.stat_result) -> str:
    values = (
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_uid,
        found.st_mode,
    )
    return ":".join(str(each) for each in values)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
