"""A short critical section between processes: a kernel lock on a directory or file that is already there.

The kernel drops the lock with its holder, so nothing is ever left to clean up and nothing is ever unlinked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from types import TracebackType
from typing import NamedTuple

from agent_fleet.errors import FleetError
from agent_fleet.paths import private_dir

# EBADF: a network file system that wants the lock's file open for writing, which a directory never is
_UNSUPPORTED = (errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.EBADF)
_DEADLINE = 30.0


class DirLock:
    """Holds an exclusive lock on `directory` inside a `with` block.

    Where the file system has no `flock` the lock is taken on a directory of this user's in the temporary directory, named
    after the device and inode of `directory`: exclusion then reaches all processes of this machine. Raises FleetError
    (`busy`) if the lock is not free within `patience` seconds.
    """

    __slots__ = ("_descriptor", "directory", "patience")

    def __init__(self, directory: str, *, patience: float = _DEADLINE) -> None:
        self.directory = directory
        self.patience = patience
        self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """What holds the lock: a process that inherits it keeps the lock until it has ended too."""
        return self._descriptor

    def __enter__(self) -> DirLock:
        self._descriptor = _locked(self.directory, os.O_DIRECTORY, self.directory, self.patience).descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


class LeaseLocks:
    """Holds locks on the files of active tasks, all in `directory`, inside a `with` block: outcome and move are one step.

    Fencing does not rest on this: a rename still finds its source or fails. Who takes several takes them in one order.
    """

    __slots__ = ("_descriptors", "_holds_all", "directory", "patience")

    def __init__(self, directory: str, *, patience: float = _DEADLINE) -> None:
        self.directory = directory
        self.patience = patience
        self._descriptors: list[int] = []
        self._holds_all = False

    def __enter__(self) -> LeaseLocks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def take(self, path: str) -> None:
        """Lock one more.

        Raises FileNotFoundError if the file is gone, or moved while its lock was waited for, and FleetError (`busy`) if the
        lock is not free within `patience` seconds; what was taken before stays.
        """
        if not self._holds_all:
            found = _locked(path, os.O_NOFOLLOW | os.O_NONBLOCK, self.directory, self.patience)
            self._descriptors.append(found.descriptor)
            self._holds_all = found.stands_in
        os.lstat(path)


class _Lock(NamedTuple):
    """An open descriptor that holds a lock; `stands_in` if it is that of the whole directory."""

    descriptor: int
    stands_in: bool


def _locked(path: str, flags: int, directory: str, patience: float) -> _Lock:
    """The lock on `path`, or where there is no such lock, on the stand-in of `directory`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        _wait(descriptor, path, patience)
        return _Lock(descriptor, stands_in=False)
    except OSError as error:
        os.close(descriptor)
        if error.errno not in _UNSUPPORTED:
            raise
    except FleetError:
        os.close(descriptor)
        raise
    descriptor = os.open(_stand_in(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _wait(descriptor, path, patience)
    except BaseException:
        os.close(descriptor)
        raise
    return _Lock(descriptor, stands_in=True)


def _wait(descriptor: int, path: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    pause = 0.0005
    while True:
        try:
            lock(descriptor)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise FleetError(
                    "busy",
                    f"another process has held the lock on {path} for {patience:.0f} s",
                    hint="try again; if it stays so, look for a stopped fleet process",
                ) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)


def lock(descriptor: int) -> None:
    """Take the lock or raise BlockingIOError; other OSErrors mean that this file system has no such lock."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _stand_in(directory: str) -> str:
    import tempfile

    found = os.stat(directory)
    path = os.path.join(private_dir(tempfile.gettempdir()), f"lock-{found.st_dev}-{found.st_ino}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path
