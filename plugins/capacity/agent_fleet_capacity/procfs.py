"""What Linux says of itself in /proc. Formats: the proc(5) pages, Documentation/filesystems/proc.rst of the kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from agent_fleet.api import Config, Probe, Quantity, Reading, hookimpl
from agent_fleet_capacity.gauge import Taken, UnknownError, cpu_list, disk_free, gauge, number, pairs, stall, text

SAMPLE_SECONDS: Final = 0.05

MEMORY: Final[tuple[tuple[Quantity, str], ...]] = (
    ("memory_total", "MemTotal"),
    ("memory_available", "MemAvailable"),  # MemFree leaves out what the kernel would give back at once
    ("swap_total", "SwapTotal"),
    ("swap_free", "SwapFree"),
)

PRESSURES: Final[tuple[tuple[Quantity, str, str], ...]] = (
    ("cpu_pressure", "cpu", "some"),
    ("memory_pressure_some", "memory", "some"),
    ("memory_pressure_full", "memory", "full"),
)


def _pause() -> None:
    time.sleep(SAMPLE_SECONDS)


class Procfs:
    """Reads /proc at `root`, and the disk of `state_dir`; `pause` lies between two samples of CPU time."""

    name = "procfs"

    def __init__(
        self,
        root: str = "/proc",
        state_dir: str = ".",
        *,
        pause: Callable[[], None] = _pause,
        disk: Callable[[str], int] = disk_free,
    ) -> None:
        self.root = root
        self.state_dir = state_dir
        self.pause = pause
        self.disk = disk

    def usable(self) -> str | None:
        """None where /proc looks like Linux's, even if a file in it cannot be read."""
        if any(os.path.lexists(self._path(file)) for file in ("meminfo", "loadavg", "self/status")):
            return None
        return "there is no Linux /proc here"

    def read(self) -> Iterable[Reading]:
        """Everything but control groups."""
        yield from self._cpu()
        for quantity, key in MEMORY:
            yield from self._gauge(quantity, "meminfo", partial(self._memory, key))
        for quantity, file, kind in PRESSURES:
            source = f"pressure/{file}"
            yield from self._gauge(quantity, source, partial(self._pressure, source, kind))
        yield from self._gauge("commit_free", "meminfo", self._commit)
        yield from self._tables()
        yield from gauge("disk_free", f"{self.name} statvfs", lambda: (self.disk(self.state_dir), self.state_dir))

    def _path(self, file: str) -> str:
        return os.path.join(self.root, file)

    def _gauge(self, quantity: Quantity, file: str, take: Callable[[], Taken]) -> Iterator[Reading]:
        return gauge(quantity, f"{self.name} /proc/{file}", take)

    def _text(self, file: str) -> str:
        content = text(self._path(file))
        if content is None:
            raise UnknownError(f"there is no /proc/{file}")
        return content

    # ---------------------------------------------------------------------------------------------------- CPU

    def _cpu(self) -> Iterator[Reading]:
        yield from self._gauge("cores", "self/status", self._cores)
        yield from self._gauge("load1", "loadavg", lambda: (float(self._text("loadavg").split()[0]), "one-minute mean"))
        yield from self._gauge("cpu_idle", "stat", self._idle)

    def _cores(self) -> Taken:
        allowed, online = self._allowed(), frozenset(_cpu_times(self._text("stat")))
        if not allowed and not online:
            raise UnknownError("neither the affinity nor the list of CPUs could be read")
        usable = allowed & online if allowed and online else allowed or online
        note = f"affinity allows {len(usable)} of {len(online)}" if len(usable) < len(online) else ""
        return len(usable or online), note

    def _allowed(self) -> frozenset[int]:
        for line in (text(self._path("self/status")) or "").splitlines():
            if line.startswith("Cpus_allowed_list:"):
                return cpu_list(line.partition(":")[2])
        return frozenset()

    def _idle(self) -> Taken:
        """The idle share of the CPUs that we may use, between two samples: the file itself counts since boot."""
        before = _cpu_times(self._text("stat"))
        self.pause()
        after = _cpu_times(self._text("stat"))
        allowed = self._allowed()
        cpus = [cpu for cpu in after if cpu in before and (not allowed or cpu in allowed)]
        idle = sum(max(0, after[cpu][0] - before[cpu][0]) for cpu in cpus)
        total = sum(max(0, after[cpu][1] - before[cpu][1]) for cpu in cpus)
        if total <= 0:
            raise UnknownError("the clock of CPU time did not move between two samples")
        return min(100.0, 100.0 * idle / total), "waiting for a disk counts as idle"

    # ------------------------------------------------------------------------------------------------- memory

    def _memory(self, key: str) -> Taken:
        found = pairs(self._text("meminfo"))
        if key not in found:
            raise UnknownError(f"/proc/meminfo has no {key}")
        return found[key] * 1024, self._virtual() if key == "MemTotal" else ""

    def _virtual(self) -> str:
        release = text(self._path("sys/kernel/osrelease")) or ""
        return (
            "a WSL virtual machine: what it was given, not what the computer has"
            if "microsoft" in release.lower()
            else ""
        )

    def _commit(self) -> Taken:
        """Address space that strict overcommit still grants; nothing to know in the other modes."""
        if number(self._path("sys/vm/overcommit_memory")) != 2:
            return None
        found = pairs(self._text("meminfo"))
        return max(0, found["CommitLimit"] - found["Committed_AS"]) * 1024, "vm.overcommit_memory is 2"

    def _pressure(self, file: str, kind: str) -> Taken:
        content = text(self._path(file))
        share = None if content is None else stall(content, kind)
        return None if share is None else (share, f"{kind} avg10")

    # ------------------------------------------------------------------------------------------ kernel tables

    def _tables(self) -> Iterator[Reading]:
        yield from self._gauge("pids_free", "sys/kernel/pid_max", self._pids)
        yield from self._gauge("fds_free", "sys/fs/file-nr", self._files)
        yield from self._gauge("ptys_free", "sys/kernel/pty/max", self._ptys)
        yield from self._gauge("inotify_free", "sys/fs/inotify/max_user_instances", self._inotify)

    def _pids(self) -> Taken:
        """Of the kernel's tables and this user's own limit the one that leaves least. Threads take a pid each."""
        running = int(self._text("loadavg").split()[3].partition("/")[2])
        limits = {f"kernel.{n}": number(self._path(f"sys/kernel/{n}")) for n in ("pid_max", "threads-max")}
        rooms = [(limit - running, f"{name} {limit}, {running} in use") for name, limit in limits.items() if limit]
        if not rooms:
            raise UnknownError("neither kernel.pid_max nor kernel.threads-max could be read")
        uid, most = self._uid(), self._own_limit("Max processes")
        # The kernel does not hold root to it. All tasks are an upper bound of this user's, which spares the count.
        if uid and most is not None and most - running < min(rooms)[0]:
            mine = sum(threads for owner, threads, _ in self._processes() if owner == uid)
            rooms.append((most - mine, f"limit of processes {most}, {mine} in use by this user"))
        room, note = min(rooms)
        return max(0, room), note

    def _files(self) -> Taken:
        """Free handles of the whole system, or of a process such as this one where its own table is smaller.

        The second does not bind workers together, since each has its own table, but it binds whoever starts them all.
        """
        words = self._text("sys/fs/file-nr").split()
        rooms = [(int(words[2]) - int(words[0]), f"fs.file-max {words[2]}, {words[0]} in use")]
        most = self._own_limit("Max open files")
        if most is not None:
            mine = _entries(self._path("self/fd"))
            rooms.append((most - len(mine), f"limit of open files {most}, {len(mine)} in use here"))
        room, note = min(rooms)
        return max(0, room), note

    def _ptys(self) -> Taken:
        most = number(self._path("sys/kernel/pty/max"))
        if most is None:
            return None
        used = number(self._path("sys/kernel/pty/nr"))
        if used is None:
            raise UnknownError("there is no /proc/sys/kernel/pty/nr")
        return max(0, most - used), f"{most} at most, {used} in use"

    def _inotify(self) -> Taken:
        """Instances left to this user, as far as its processes can be looked into; the note says how far."""
        most = number(self._path("sys/fs/inotify/max_user_instances"))
        if most is None:
            return None
        uid, used, hidden = self._uid(), 0, 0
        if uid is None:
            return most, f"{most} at most; how many are in use cannot be told"
        for owner, _, folder in self._processes():
            if owner != uid:
                continue
            try:
                used += sum(_link(folder, entry) == "anon_inode:inotify" for entry in os.listdir(folder))
            except OSError:
                hidden += 1
        note = f"{most} at most, {used} seen in use by this user"
        return max(0, most - used), note + (f"; {hidden} processes hidden" if hidden else "")

    def _uid(self) -> int | None:
        return _identity(text(self._path("self/status")) or "")[0]

    def _own_limit(self, name: str) -> int | None:
        for line in (text(self._path("self/limits")) or "").splitlines():
            if line.startswith(name):
                soft = line.removeprefix(name).split()[0]
                return int(soft) if soft.isdigit() else None
        return None

    def _processes(self) -> Iterator[tuple[int | None, int, str]]:
        """Owner, threads and descriptor directory of every process that can be seen; one may end while we look."""
        for entry in _entries(self.root):
            if not entry.isdigit():
                continue
            try:
                status = text(self._path(f"{entry}/status"))
            except OSError:
                continue
            if status:
                uid, threads = _identity(status)
                yield uid, threads, self._path(f"{entry}/fd")


def _cpu_times(stat: str) -> dict[int, tuple[int, int]]:
    """Idle and whole time of each CPU in clock ticks; time of guests is in `user` already and not counted twice."""
    times: dict[int, tuple[int, int]] = {}
    for line in stat.splitlines():
        words = line.split()
        if words and words[0].startswith("cpu") and words[0][3:].isdigit():
            ticks = [int(word) for word in words[1:9]]
            times[int(words[0][3:])] = (sum(ticks[3:5]), sum(ticks))
    return times


def _identity(status: str) -> tuple[int | None, int]:
    uid, threads = None, 1
    for line in status.splitlines():
        if line.startswith("Uid:"):
            uid = int(line.split()[1])
        elif line.startswith("Threads:"):
            threads = int(line.split()[1])
    return uid, threads


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _link(folder: str, entry: str) -> str:
    try:
        return os.readlink(os.path.join(folder, entry))
    except OSError:
        return ""


@hookimpl
def fleet_probes(config: Config) -> Iterable[Probe]:
    """Offer /proc, with the disk of the queue."""
    yield Procfs(state_dir=config.queue_dir or config.root)
