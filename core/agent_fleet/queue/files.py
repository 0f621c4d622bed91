"""Files and directories at the edge: read without trust, written whole or not at all, moved by rename."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Callable
from typing import Any

from agent_fleet.errors import FleetError

_MAX_BODY = 64 * 1024 * 1024
# A shortage in this process says nothing about the file.
_SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.ESTALE)
_TRIES = 100  # times that a file is opened anew which was replaced between its opening and the look at it
_STAYS = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR)


class BadFileError(Exception):
    """A file in the queue directory that cannot be what its place says; the text says why."""


def read_bytes(path: str, limit: int = _MAX_BODY, *, private: bool = False) -> bytes:
    """A regular file's bytes, opened without following a link and without blocking. Raises BadFileError, FileNotFoundError.

    A `private` file is refused unless it is this user's, under one name, and closed to everybody else.
    """
    descriptor, found = _opened(path)
    try:
        if not stat.S_ISREG(found.st_mode):
            raise BadFileError("it is not a regular file")
        if private and (fault := _exposed(found)):
            raise BadFileError(fault)
        if found.st_size > limit:
            raise BadFileError(f"it is larger than {limit} bytes")
        parts = []
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    except OSError as error:
        if error.errno in _SHORTAGE:
            raise
        raise BadFileError(f"it cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _opened(path: str) -> tuple[int, os.stat_result]:
    """The file as it is now. One that has no name any more was just replaced or removed: what stands there since is meant."""
    for tries in range(_TRIES):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENOENT or error.errno in _SHORTAGE:
                raise
            raise BadFileError(f"it cannot be opened: {error.strerror}") from None
        found = os.fstat(descriptor)
        if found.st_nlink or tries == _TRIES - 1:
            return descriptor, found
        os.close(descriptor)
    raise AssertionError("the last try always returns")


def _exposed(found: os.stat_result) -> str:
    """Why a file is not private, or the empty text."""
    if found.st_uid != os.getuid():
        return "it belongs to another user"
    if found.st_nlink != 1:
        return "it has more than one name (hard links)"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return f"others may use it (mode {stat.S_IMODE(found.st_mode):04o}); `chmod 600` makes it private"
    return ""


def read_json(path: str, *, private: bool = False) -> dict[str, Any]:
    """A JSON object from a file. Raises BadFileError if it is anything else, FileNotFoundError if it is not there."""
    data = read_bytes(path, private=private)
    if not data:
        raise BadFileError("it is empty")
    try:
        found = json.loads(data)
    except ValueError:
        raise BadFileError("it is not JSON, or cut short") from None
    except RecursionError:
        raise BadFileError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise BadFileError("it is not a JSON object")
    return found


def write_whole(
    path: str, data: bytes, *, durable: bool = True, mode: int = 0o644, last: Callable[[int], None] | None = None
) -> None:
    """Write a file so that it is there whole or not at all, whatever dies when.

    `mode` is lessened by the umask. `last` gets the descriptor of the new file just before it takes its place; what it raises
    leaves the old one there.
    """
    directory = os.path.dirname(path)
    temporary = os.path.join(directory, f".tmp-{os.getpid()}-{time.monotonic_ns()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
            if last:
                last(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    if durable:
        sync_directory(directory)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)[os.write(descriptor, data) :]
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: str) -> None:
    """Make the names in a directory durable. A file system that cannot sync directories is left as it is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def move(source: str, target: str) -> bool:
    """Rename, making the target's directory if need be. False if `source` is not there any more."""
    for tries in range(100):
        try:
            os.rename(source, target)
            return True
        except FileNotFoundError:
            if not os.path.lexists(source):
                return False
        # The directory may be removed by a claimer that saw it empty between these two calls, so this is a loop. On a busy machine
        # they are always interrupted at the same place; whoever has slept is not.
        time.sleep(tries // 10 / 1000)
        make_directory(os.path.dirname(target))
    raise FleetError("busy", f"cannot keep the directory of {target} in place", hint="run the same command again")


def make_directory(path: str) -> None:
    """Make a directory and those above it. Others may remove an empty one at any moment, even while it is made.

    Raises FileExistsError or NotADirectoryError if something else stands in the way.
    """
    for _ in range(100):
        try:
            os.makedirs(path, exist_ok=True)
            return
        except FileExistsError:
            if os.path.lexists(path) and not os.path.isdir(path):
                raise
        except FileNotFoundError:
            continue


def remove_if_empty(directory: str) -> None:
    """Remove an emptied directory; one that is not empty, or already gone, stays as it is."""
    try:
        os.rmdir(directory)
    except OSError as error:
        if error.errno not in _STAYS:
            raise
