"""Files and directories at the edge: read without trust, written whole or not at all, moved by rename."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

from agent_fleet.errors import SHORTAGES, FleetError

FEW = 16  # files or directories that are synced one by one; more of them by one sync of their file system
_MAX_BODY = 64 * 1024 * 1024
# A shortage in this process says nothing about the file.
_SHORTAGE = (*SHORTAGES, errno.EINTR, errno.ESTALE)
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
        size = min(found.st_size + 1, 1 << 20)
        while part := os.read(descriptor, size):
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

    def settle(descriptor: int) -> None:
        if durable:
            os.fsync(descriptor)
        if last:
            last(descriptor)

    temporary = write_draft(path, data, mode=mode, last=settle)
    try:
        os.rename(temporary, path)
    except BaseException:
        drop_draft(temporary)
        raise
    if durable:
        sync_directory(os.path.dirname(path))


def write_draft(path: str, data: bytes, *, mode: int = 0o644, last: Callable[[int], None] | None = None) -> str:
    """Write what is to become the file at `path` under another name beside it, and return that. Nothing is durable yet.

    Whoever renames it there has the file whole. `mode` and `last` are those of `write_whole`.
    """
    draft = os.path.join(os.path.dirname(path), f".tmp-{os.getpid()}-{time.monotonic_ns()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            write_all(descriptor, data)
            if last:
                last(descriptor)
        finally:
            os.close(descriptor)
    except BaseException as error:
        drop_draft(draft)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path  # a full disk says so on a descriptor, which has no name
        raise
    return draft


def drop_draft(path: str) -> None:
    """Remove what was written in vain; where that cannot be done it stays, and `fleet clean` finds it."""
    try:
        os.unlink(path)
    except OSError:
        pass


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)[os.write(descriptor, data) :]
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: str) -> None:
    """Make the names in a directory durable. A file system that cannot sync directories is left as it is."""
    try:
        sync_file(path, os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def sync_file(path: str, flags: int = os.O_NOFOLLOW) -> None:
    """Make the contents of a file durable, whoever wrote them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Collection[str], each: Callable[[str], None], *, below: str) -> None:
    """Make durable what all lies on the file system of `below`: by `each` one after another if they are few."""
    if len(paths) > FEW:
        sync_file_system(below)
        return
    for path in paths:
        each(path)


def sync_file_system(path: str) -> None:
    """Make everything on the file system of `path` durable: `syncfs(2)` on Linux; elsewhere `sync(2)` and that directory."""
    if sys.platform == "linux":
        import ctypes  # most commands sync few files, and start faster without it

        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.syncfs(descriptor) == 0:
                return
            code = ctypes.get_errno()
            if code != errno.ENOSYS:
                raise OSError(code, os.strerror(code), path)
        finally:
            os.close(descriptor)
    os.sync()
    sync_directory(path)


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
