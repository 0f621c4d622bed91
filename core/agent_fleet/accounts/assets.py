"""Copies of what a person shares with the agents of an account: instructions, skills, rules. Never the things themselves.

A copy can be changed by an agent without harm to the original; a link could not. What was copied is written down, so that the
next copy takes away what is no longer there and touches nothing that others have put beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator

from agent_fleet.errors import FleetError, from_os_error
from agent_fleet.queue.files import BadFileError, read_bytes, read_json, write_whole

RECORD = ".fleet-shared.json"
MOST_FILES = 5000
MOST_BYTES = 64 << 20


def share(base: str, home: str, names: Iterable[str], *, never: Iterable[str] = ()) -> tuple[str, ...]:
    """Copy the named files and directories of the person's home `base`, read-only; the paths that were changed in `home`.

    Raises `refused` for a name in `never` (where a login lies), for something of others in the way, and for too much.
    """
    wanted: dict[str, bytes] = {}
    for name in names:
        if name in set(never) or os.path.dirname(name) or name.startswith("."):
            raise FleetError("refused", f"{name} is never shared", hint="take it out of what the provider shares")
        wanted.update(_contents(base, name))
    before = _recorded(home)
    changed = _put(home, wanted, before)
    changed += _take_away(home, [path for path in before if path not in wanted])
    if changed or sorted(before) != sorted(wanted):
        record = {"schema": 1, "files": {path: _digest(data) for path, data in sorted(wanted.items())}}
        write_whole(os.path.join(home, RECORD), json.dumps(record, indent=1).encode(), mode=0o600)
    return tuple(changed)


def _contents(base: str, name: str) -> dict[str, bytes]:
    """What lies under a name: relative path and bytes. Links are followed, for people keep such files elsewhere."""
    found: dict[str, bytes] = {}
    size = 0
    for path in _files(base, name, frozenset()):
        try:
            data = read_bytes(os.path.realpath(os.path.join(base, path)), MOST_BYTES)
        except (BadFileError, FileNotFoundError):
            continue
        size += len(data)
        if len(found) >= MOST_FILES or size > MOST_BYTES:
            raise FleetError(
                "refused",
                f"{os.path.join(base, name)} is more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB",
                hint="keep there what agents need",
            )
        found[path] = data
    return found


def _files(base: str, path: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    try:
        found = os.stat(os.path.join(base, path))
    except OSError:
        return
    if stat.S_ISREG(found.st_mode):
        yield path
        return
    here = (found.st_dev, found.st_ino)
    if not stat.S_ISDIR(found.st_mode) or here in above:
        return
    for name in sorted(os.listdir(os.path.join(base, path))):
        if not name.startswith("."):
            yield from _files(base, os.path.join(path, name), above | {here})


def _put(home: str, wanted: dict[str, bytes], before: dict[str, str]) -> list[str]:
    changed = []
    for path, data in wanted.items():
        target = os.path.join(home, path)
        there = _present(target)
        if there == data and stat.S_IMODE(os.lstat(target).st_mode) == 0o400:
            continue
        if there is not None and path not in before and there != data:
            raise FleetError(
                "refused", f"{target} is in the way of a shared file, and not fleet's", hint="move it away"
            )
        try:
            _make_below(home, os.path.dirname(path))
            write_whole(target, data, mode=0o400)
        except OSError as error:
            raise from_os_error(error, f"copying to {target}") from None
        changed.append(path)
    return changed


def _present(target: str) -> bytes | None:
    """The bytes of a file, None if there is none. Raises `refused` for anything that is no plain file."""
    try:
        return read_bytes(target, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except BadFileError as error:
        raise FleetError("refused", f"{target} is in the way of a shared file: {error}", hint="move it away") from None


def _make_below(home: str, folder: str) -> None:
    """Make the directories below the home one by one: none of them may be a link to somewhere else."""
    path = home
    for part in folder.split(os.sep) if folder else ():
        path = os.path.join(path, part)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise FleetError("refused", f"{path} is no directory", hint="move it away") from None


def _take_away(home: str, paths: Iterable[str]) -> list[str]:
    gone = []
    for path in paths:
        try:
            _make_below(home, os.path.dirname(path))
            os.unlink(os.path.join(home, path))
            gone.append(path)
            os.removedirs(os.path.dirname(os.path.join(home, path)))
        except OSError:  # already gone, or the directory holds more: nothing of ours is left either way
            continue
    return gone


def _recorded(home: str) -> dict[str, str]:
    try:
        files = read_json(os.path.join(home, RECORD)).get("files")
    except (OSError, BadFileError):
        return {}
    sound = isinstance(files, dict) and all(
        isinstance(path, str) and not os.path.isabs(path) and ".." not in path.split(os.sep) for path in files
    )
    return files if sound and isinstance(files, dict) else {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
