"""A home is made ready: private, with the values that are ours in the provider's own files, and copies of what is shared.

Nothing else of the home is read, and nothing is taken away but what fleet itself had put there.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agent_fleet.accounts.documents import merged, wrong
from agent_fleet.accounts.spec import AccountSpec, OwnedKey
from agent_fleet.errors import FleetError, from_os_error
from agent_fleet.queue.files import BadFileError, read_bytes, write_whole

MOST_BYTES = 16 << 20
_ROUNDS = 10


class Hooks(NamedTuple):
    """What a provider's session runs when it begins and when a turn ends: a command line for a shell each.

    `turn_end_words` is the same for a provider that starts a program by itself; it may add arguments of its own.
    """

    session_start: str
    turn_end: str
    turn_end_words: tuple[str, ...]


class Fault(NamedTuple):
    """Why a home is not ready: a token for programs, a sentence, and what mends it."""

    code: str
    text: str
    hint: str


def hooks(words: Sequence[str]) -> Hooks:
    """The hooks of a fleet that is called by these words.

    Whatever the command comes to, its status is 0: a provider takes 2 as an order to go on, and others as an error of its own.
    """
    called = shlex.join(words)
    return Hooks(
        session_start=f"{called} hook session-start || exit 0",
        turn_end=f"{called} hook turn-end || exit 0",
        turn_end_words=(*words, "hook", "turn-end"),
    )


def owned(spec: AccountSpec, roots: Iterable[str], commands: Hooks) -> tuple[OwnedKey, ...]:
    """The spec's keys with every place filled in: one for each trusted project where the key is of one."""
    found: list[OwnedKey] = []
    trusted = tuple(dict.fromkeys(roots))
    for key in spec.owned:
        for root in trusted if _names_root(key) else ("",):
            path = tuple(root if part == "{root}" else part for part in key.path)
            found.append(replace(key, path=path, value=_filled(key.value, root, commands)))
    return tuple(found)


def provision(home: str, keys: Iterable[OwnedKey]) -> tuple[str, ...]:
    """Make the home and set what is ours in it; the names of the files that were changed.

    Raises `refused` for a home that is not provably this user's alone, `corrupt` for a file of it that cannot be used.
    """
    _make_private(home)
    changed = []
    for file, group in _by_file(keys):
        if _write_owned(os.path.join(home, file), group):
            changed.append(file)
    return tuple(changed)


def faults(home: str, keys: Iterable[OwnedKey]) -> list[Fault]:
    """What keeps the home from being ready; nothing is changed. Empty if it is."""
    again = "provision the profile again"
    try:
        _check_private(home)
    except FileNotFoundError:
        return [Fault("not_provisioned", "the home has not been made", again)]
    except FleetError as error:
        return [Fault("home_unsafe", error.message, error.hint)]
    except OSError as error:
        return [Fault("home_unsafe", from_os_error(error, "looking at the home").message, again)]
    found = []
    for file, group in _by_file(keys):
        try:
            missing = wrong(_read(os.path.join(home, file)), group)
        except FleetError as error:
            found.append(Fault("file_unusable", error.message, error.hint))
            continue
        if missing:
            names = ", ".join(".".join(key.path) for key in missing[:3])
            found.append(Fault("keys_missing", f"{file} does not hold {names} as fleet sets it", again))
    return found


def _names_root(key: OwnedKey) -> bool:
    return "{root}" in key.path


def _filled(value: Any, root: str, commands: Hooks) -> Any:
    if isinstance(value, str):
        places: dict[str, Any] = {
            "{root}": root,
            "{session_start}": commands.session_start,
            "{turn_end}": commands.turn_end,
            "{turn_end_words}": list(commands.turn_end_words),
        }
        return places.get(value, value)
    if isinstance(value, dict):
        return {name: _filled(each, root, commands) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_filled(each, root, commands) for each in value]
    return value


def _by_file(keys: Iterable[OwnedKey]) -> list[tuple[str, list[OwnedKey]]]:
    groups: dict[str, list[OwnedKey]] = {}
    for key in keys:
        groups.setdefault(key.file, []).append(key)
    return list(groups.items())


def _write_owned(path: str, keys: list[OwnedKey]) -> bool:
    """Set the keys; True if the file had to change. A running session writes such files too: what changes meanwhile is kept."""
    for _ in range(_ROUNDS):
        before = _read(path)
        after = merged(before, keys)
        if after == before:
            return False
        _make_private(os.path.dirname(path))
        if _read(path) != before:
            continue
        try:
            write_whole(path, after.encode("utf-8"), mode=0o600)
        except OSError as error:
            raise from_os_error(error, f"writing {path}") from None
        return True
    raise FleetError(
        "busy", f"{path} is being changed all the time", hint="end the sessions of this profile, then try again"
    )


def _read(path: str) -> str:
    try:
        return read_bytes(path, MOST_BYTES).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (BadFileError, UnicodeDecodeError) as error:
        what = str(error) if isinstance(error, BadFileError) else "it is not UTF-8"
        raise FleetError("corrupt", f"{path} cannot be used: {what}", hint="mend the file, or move it away") from None
    except OSError as error:
        raise from_os_error(error, f"reading {path}") from None


def _make_private(directory: str) -> None:
    try:
        os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass
        found = os.lstat(directory)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and found.st_mode & 0o077:
            os.chmod(directory, 0o700)
        _check_private(directory)
    except OSError as error:
        raise from_os_error(error, f"making {directory}") from None


def _check_private(directory: str) -> None:
    found = os.lstat(directory)
    if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
        what = "is a link" if stat.S_ISLNK(found.st_mode) else "is no directory"
        raise FleetError(
            "refused", f"the home {directory} {what}", hint="move it away, then provision the profile again"
        )
    if found.st_uid != os.getuid():
        raise FleetError("refused", f"the home {directory} belongs to somebody else", hint="choose another home")
    if found.st_mode & 0o077:
        raise FleetError(
            "refused", f"others may look into the home {directory}", hint="provision the profile again, which closes it"
        )
