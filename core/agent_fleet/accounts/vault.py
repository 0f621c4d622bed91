"""The state directory of accounts: private files, kernel locks, and a place for what cannot be read.

Directories are 0700, files 0600 under one name. A file that is unsafe or corrupt costs itself alone: readers name it, a
writer under the lock sets it aside.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agent_fleet import identity
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, read_json, sync_directory, write_all, write_whole
from agent_fleet.queue.lock import DirLock

PATIENCE = 30.0
_SIGN = 240


class Vault:
    """One state directory. `notices` collects what a person should know about files that could not be used."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.notices: list[str] = []

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def read(self, *parts: str) -> dict[str, Any] | None:
        """The JSON object in a private file; None if it is not there. Raises BadFileError."""
        try:
            return read_json(self.path(*parts), private=True)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, directory: str) -> list[str]:
        """The stems of the JSON files in a directory, sorted; none if there is no such directory."""
        try:
            return sorted(name[:-5] for name in os.listdir(self.path(directory)) if name.endswith(".json"))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def write(self, parts: tuple[str, ...], content: Mapping[str, Any], *, durable: bool = True) -> None:
        """Write one private file, whole or not at all. What is kept for speed alone need not be `durable`."""
        self._ensure(os.path.dirname(self.path(*parts)))
        data = json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"
        write_whole(self.path(*parts), data, durable=durable, mode=0o600)

    def remove(self, *parts: str, durable: bool = True) -> bool:
        """Take a file away; False if it was not there. What no boot outlives need not be `durable`."""
        path = self.path(*parts)
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if durable:
            sync_directory(os.path.dirname(path))
        return True

    def sweep(self, directory: str) -> None:
        """Take away what writers that were killed have left half written, an hour later."""
        try:
            left = [name for name in os.listdir(self.path(directory)) if name.startswith(".tmp-")]
        except OSError:
            return
        for name in left:
            try:
                if time.time() - os.lstat(self.path(directory, name)).st_mtime > 3600:
                    os.unlink(self.path(directory, name))
            except OSError:
                continue

    def append(self, name: str, line: bytes) -> None:
        """Add one line to a private file in a single write."""
        self._ensure(self.root)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.path(name), flags, 0o600)
        try:
            write_all(descriptor, line)
        finally:
            os.close(descriptor)

    def note(self, parts: tuple[str, ...], fault: str) -> None:
        """Remember that a file cannot be used, and go on without it."""
        notice = f"{self.path(*parts)} counts for nothing: {fault}"
        if notice not in self.notices:
            self.notices.append(notice)

    def set_aside(self, parts: tuple[str, ...], fault: str) -> None:
        """Move a file that cannot be used to `quarantine/`, so that it is in nobody's way; names it."""
        self._ensure(self.path("quarantine"))
        kept = self.path("quarantine", f"{'-'.join(parts)}.{time.time_ns()}")
        try:
            os.rename(self.path(*parts), kept)
        except FileNotFoundError:
            return
        except OSError as error:
            self.note(parts, f"{fault}; it could not be set aside: {error.strerror}")
            return
        self.notices.append(f"{self.path(*parts)} was set aside as {kept}: {fault}")

    @contextmanager
    def lock(self, name: str, purpose: str, *, patience: float = PATIENCE) -> Iterator[None]:
        """Hold a lock between processes, which the kernel drops with its holder; `owner.json` says who had it last.

        Raises FleetError (`busy`) if it is not free within `patience` seconds.
        """
        directory = self.path("locks", name)
        self._ensure(directory)
        try:
            with DirLock(directory, patience=patience):
                self._sign(directory, purpose)
                yield
        except FleetError as error:
            if error.code == "busy" and directory in error.message:
                raise FleetError("busy", f"{error.message}{self._holder(name)}", hint=error.hint) from None
            raise

    def _sign(self, directory: str, purpose: str) -> None:
        """Say who holds the lock, in place: it is for people alone, and a torn text harms nothing.

        The text has one length, for a file system writes a file out that is cut to nothing and filled again.
        """
        owner = {"schema": 1, "pid": os.getpid(), "purpose": purpose, "created_unix": time.time()}
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(os.path.join(directory, "owner.json"), flags, 0o600)
        except OSError:
            return
        try:
            write_all(descriptor, json.dumps(owner).encode().ljust(_SIGN - 1) + b"\n")
        except OSError:
            pass
        finally:
            os.close(descriptor)

    def _holder(self, name: str) -> str:
        try:
            owner = self.read("locks", name, "owner.json") or {}
        except BadFileError:
            return ""
        pid, purpose = owner.get("pid"), owner.get("purpose")
        return f"; process {pid} took it last, for {purpose}" if isinstance(pid, int) else ""

    def _ensure(self, directory: str) -> None:
        """Make a private directory, and those above it. Raises FleetError if one is there that others may use."""
        try:
            found = os.lstat(directory)
        except FileNotFoundError:
            parent = os.path.dirname(directory)
            if directory != self.root:
                self._ensure(parent)
            else:
                os.makedirs(parent, exist_ok=True)
            try:
                os.mkdir(directory, 0o700)
            except FileExistsError:
                self._ensure(directory)
                return
            sync_directory(parent)
            return
        fault = directory_fault(found, is_shared_root=directory == self.root)
        if fault:
            raise FleetError(
                "refused", f"{directory} is not private: {fault}", hint=f"look at it, then `chmod 700 {directory}`"
            )


def directory_fault(found: os.stat_result, *, is_shared_root: bool = False) -> str:
    """Why a directory is not private, or the empty text. The root of the state may be read by others, never written."""
    if not stat.S_ISDIR(found.st_mode):
        return "it is no directory"
    if found.st_uid != os.getuid():
        return "it belongs to another user"
    closed = 0o022 if is_shared_root else 0o077
    if stat.S_IMODE(found.st_mode) & closed:
        return f"others may use it (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def uptime() -> float:
    """Seconds since this machine was booted, sleep included: a clock that nobody sets."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot() -> str:
    """Which boot `uptime` counts from; empty where the system does not say."""
    try:
        return identity.boot_id()
    except (OSError, FleetError):
        return ""
