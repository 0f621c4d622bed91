"""Whether the queue's file system does what the queue is built on: locks, renames, appends, room, and a clock.

Locks are tried between two processes: some file systems grant everybody the same lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

from agent_fleet.api import Check, Config, Finding, hookimpl

FULL = 100 << 20  # bytes below which workers will soon fail
LITTLE = 1 << 30
INODES = 1000
SKEW = 2.0  # seconds
EPOCH = 1_700_000_000.0  # no clock that is right says less
SECONDS = 20.0

REMOTE = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|glusterfs|lustre|gpfs|beegfs|fuse(blk|\..*)?|drvfs|vboxsf|virtiofs|webdav|davfs2?"
)
ELSEWHERE = "put the project on a local file system, or let one machine alone work this queue"

OTHER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(7)
"""


class Filesystem:
    """Looks at the queue directory `directory`; `mounts` is a file such as /proc/self/mountinfo (proc(5))."""

    name = "filesystem"

    def __init__(
        self, directory: str, mounts: str = "/proc/self/mountinfo", clock: Callable[[], float] = time.time
    ) -> None:
        self._directory = directory
        self._mounts = mounts
        self._clock = clock

    def run(self, root: str) -> Iterable[Finding]:
        """Findings about the kind of file system, its room, and what was tried in a directory that is removed again."""
        del root
        if not os.path.isdir(self._directory):
            yield Finding(level="ok", text="there is no queue whose file system could be tried")
            return
        yield from self._kind()
        yield from self._room()
        try:
            place = tempfile.mkdtemp(prefix=".doctor-", dir=self._directory)
        except OSError as error:
            hint = "give this user access to it, or make the file system writable"
            text = f"nothing can be written to the queue directory: {error.strerror}"
            yield Finding(level="fault", text=text, hint=hint)
            return
        try:
            yield from self._tried(place)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                yield Finding(level="fault", text="the queue's file system is full", hint="free some space")
            else:
                yield Finding(level="fault", text=f"the queue's file system fails: {error.strerror}", hint=ELSEWHERE)
        except subprocess.SubprocessError as error:
            yield Finding(level="fault", text=f"the queue's file system fails: {error}", hint=ELSEWHERE)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _kind(self) -> Iterable[Finding]:
        kind = kind_of(os.path.realpath(self._directory), _read(self._mounts))
        if REMOTE.fullmatch(kind):
            text = f"the queue lies on {kind}: its locks and its clock may be another machine's"
            yield Finding(level="warning", text=text, hint=ELSEWHERE)

    def _room(self) -> Iterable[Finding]:
        state = os.statvfs(self._directory)
        free = state.f_bavail * state.f_frsize
        if not state.f_blocks:
            return  # a file system that counts nothing
        if free < LITTLE:
            text = f"the queue's file system is almost full: {free >> 20} MiB are free"
            yield Finding(level="fault" if free < FULL else "warning", text=text, hint="free some space")
        if state.f_files and state.f_favail < INODES:
            text = f"the queue's file system has room for {state.f_favail} more files"
            yield Finding(level="warning", text=text, hint="remove files that nobody needs")

    def _tried(self, place: str) -> Iterable[Finding]:
        yield _locks(os.path.join(place, "lock"))
        if not _renames(place):
            yield Finding(level="fault", text="a rename does not replace a file on this file system", hint=ELSEWHERE)
        if not _appends(os.path.join(place, "log")):
            text = "two writers that append lose each other's lines on this file system"
            yield Finding(level="fault", text=text, hint=ELSEWHERE)
        yield from self._time(os.path.join(place, "lock"))

    def _time(self, path: str) -> Iterable[Finding]:
        now = self._clock()
        if now < EPOCH:
            yield Finding(level="fault", text="the clock of this machine is wrong by years", hint="set the clock")
            return
        os.utime(path)
        skew = os.stat(path).st_mtime - now
        if abs(skew) > SKEW:
            text = (
                f"the clock of the queue's file system is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} ours"
            )
            yield Finding(level="warning", text=text, hint="let both machines set their clocks by the network")


def kind_of(path: str, mounts: str) -> str:
    """The type of the file system that `path` lies on, by a table of mounts; empty if the table does not tell."""
    best, kind = "", ""
    for row in mounts.splitlines():
        before, dash, after = row.partition(" - ")
        fields, told = before.split(" "), after.split(" ")
        if not dash or len(fields) < 5 or not told[0]:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, "drvfs" if "aname=drvfs" in after else told[0]
    return kind


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _locks(path: str) -> Finding:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other = [sys.executable, "-I", "-S", "-c", OTHER, path]
        done = subprocess.run(other, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "an error")
        text = f"the queue's file system takes no locks ({name}): host limits do not hold"
        return Finding(level="warning", text=text, hint=ELSEWHERE)
    finally:
        os.close(descriptor)
    if done.returncode == 7:
        return Finding(level="ok", text="the file system of the queue takes locks")
    if done.returncode == 0:
        text = "two processes got the same lock on the queue's file system: host limits do not hold"
        return Finding(level="fault", text=text, hint=ELSEWHERE)
    return Finding(level="unknown", text="whether the file system takes locks could not be tried", hint=ELSEWHERE)


def _renames(place: str) -> bool:
    new, old = os.path.join(place, "new"), os.path.join(place, "old")
    for path, text in ((new, "new"), (old, "old")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    os.rename(new, old)
    return _read(old) == "new" and not os.path.exists(new)


def _appends(path: str) -> bool:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    writers = [os.open(path, flags, 0o600) for _ in range(2)]
    try:
        for number in range(20):
            os.write(writers[number % 2], b"%d\n" % number)
    finally:
        for writer in writers:
            os.close(writer)
    return _read(path).split() == [str(number) for number in range(20)]


@hookimpl
def fleet_checks(config: Config) -> Iterable[Check]:
    yield Filesystem(config.queue_dir)
