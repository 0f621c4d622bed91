"""One pool as a file that all processes of the user change in place, under a kernel lock.

The file lies in `<state>/throttle/<digest of account, endpoint and model>/`. Its text is written over in one piece, padded to
its former length, so that a killed writer leaves the old one or the new one. What cannot be read is set aside and the limit
starts anew; so it does after a reboot. An empty file beside it changes its time when something happened that nobody may overlook.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from agent_fleet import identity
from agent_fleet.accounts.vault import boot, directory_fault, uptime
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, make_directory, read_json, write_all
from agent_fleet.queue.lock import DirLock
from agent_fleet.throttle import record
from agent_fleet.throttle.pool import HUNG, LEASE, Grant, Pool, Report
from agent_fleet.throttle.terms import Terms

MAX_FILE = 8 << 20
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SWEEP = 1.0  # seconds between two looks at whether others live


class Shared:
    """The pool of one account, endpoint and model. `notices` tells what a person should know about its file.

    An `account` is any text that tells one credential from another, such as its label; never the credential. An `endpoint` is
    where the model is asked, as `endpoint` has it: what one server refuses says nothing of another.
    """

    def __init__(self, state: str, account: str, endpoint: str, model: str) -> None:
        self.names = {"account": account, "endpoint": endpoint, "model": model}
        self.directory = os.path.join(state, "throttle", _digest(account, endpoint, model))
        self.path = os.path.join(self.directory, "pool.json")
        self.news = os.path.join(self.directory, "news")
        self.notices: list[str] = []
        self._boot = boot()
        self._length = 0
        self._swept = 0.0
        _private(os.path.join(state, "throttle"))
        _private(self.directory)

    def exchange(self, terms: Terms, name: str, report: Report, draw: float) -> Grant | None:
        """Hand in a report under a name (`identity`, a slash, anything) and get a grant; None if another process has the lock.

        Raises FleetError, OSError.
        """
        try:
            with self._held() as descriptor:
                now = uptime()
                pool = self._read(descriptor, now)
                news = pool.news
                if now > self._swept + _SWEEP:
                    self._swept = now
                    self._sweep(pool, now)
                grant = pool.exchange(terms, name, report, now, draw)
                if pool.news != news:
                    self._announce()  # first, as it may lack a descriptor: what is not written is handed in again
                self._write(descriptor, pool)
                return grant
        except FleetError as error:
            if error.code == "busy":
                return None
            raise

    def look(self) -> Pool:
        """The pool as it is, for people. Raises FleetError, OSError."""
        with self._held(patience=LEASE) as descriptor:
            return self._read(descriptor, uptime())

    def heard(self) -> int:
        """A number that changes whenever the gate closes or opens, or the limit is cut, by whomever."""
        try:
            return os.stat(self.news).st_mtime_ns
        except OSError:
            return 0

    @contextmanager
    def _held(self, patience: float = 0.0) -> Iterator[int]:
        try:
            lock = DirLock(self.directory, patience=patience).__enter__()
        except FileNotFoundError:
            _private(os.path.dirname(self.directory))
            _private(self.directory)
            lock = DirLock(self.directory, patience=patience).__enter__()
        try:
            descriptor = os.open(self.path, _FLAGS, 0o600)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        finally:
            lock.__exit__(None, None, None)

    def _read(self, descriptor: int, now: float) -> Pool:
        found = os.fstat(descriptor)
        try:
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != os.getuid():
                raise ValueError("it is not a private file of this user's")
            if found.st_size > MAX_FILE:
                raise ValueError(f"it is larger than {MAX_FILE} bytes")
            self._length = found.st_size
            return record.parsed(os.pread(descriptor, MAX_FILE, 0), self._boot, now)
        except record.NewerError:
            raise FleetError(
                "format_newer", f"{self.path} was written by a newer version of fleet", hint="update fleet"
            ) from None
        except ValueError as error:
            self._set_aside(descriptor, str(error))
            return Pool()

    def _write(self, descriptor: int, pool: Pool) -> None:
        data = record.written(pool, self._boot, self.names)
        os.lseek(descriptor, 0, os.SEEK_SET)
        write_all(descriptor, data.ljust(self._length))

    def _set_aside(self, descriptor: int, fault: str) -> None:
        """Move the file away and put a new one in place of the open one; the lock is held."""
        kept = f"{self.path}.corrupt-{time.time_ns()}"
        os.rename(self.path, kept)
        fresh = os.open(self.path, _FLAGS, 0o600)
        os.dup2(fresh, descriptor, inheritable=False)
        os.close(fresh)
        self._length = 0
        self.notices.append(f"{self.path} was set aside as {kept}: {fault}")

    def _sweep(self, pool: Pool, now: float) -> None:
        """Take back what dead processes had. One that is silent and of which nobody can say whether it lives is given time."""
        for name in pool.silent(now):
            lives = identity.is_alive(name.partition("/")[0])
            if lives is False or (lives is None and now > pool.holders[name].seen + HUNG):
                pool.forget(name)

    def _announce(self) -> None:
        descriptor = os.open(self.news, _FLAGS, 0o600)
        try:
            now = time.time_ns()
            os.utime(descriptor, ns=(now, now))
        finally:
            os.close(descriptor)


def every(state: str) -> list[Shared]:
    """All pools that there are, by account, endpoint and model; a file that does not say whose it is, is left out."""
    root = os.path.join(state, "throttle")
    found = []
    for digest in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        try:
            told = read_json(os.path.join(root, digest, "pool.json"), private=True)
        except (BadFileError, FileNotFoundError, NotADirectoryError):
            continue
        names = [told.get(name) for name in ("account", "endpoint", "model")]
        account, endpoint, model = (name if isinstance(name, str) else None for name in names)
        if account is None or endpoint is None or model is None:
            continue
        if digest == _digest(account, endpoint, model):
            found.append(Shared(state, account, endpoint, model))
    return sorted(found, key=lambda each: tuple(each.names.values()))


def _digest(account: str, endpoint: str, model: str) -> str:
    whose = f"{len(account)}:{account}{len(endpoint)}:{endpoint}{model}"
    return hashlib.sha256(whose.encode(errors="surrogatepass")).hexdigest()[:24]


def _private(directory: str) -> None:
    """Make a directory of this user's alone. Raises FleetError if others may use the one that is there."""
    make_directory(os.path.dirname(directory))
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        fault = directory_fault(os.lstat(directory))
        if fault:
            raise FleetError(
                "refused", f"{directory} is not private: {fault}", hint=f"look at it, then `chmod 700 {directory}`"
            ) from None
