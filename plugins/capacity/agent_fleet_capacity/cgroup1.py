"""Limits of version 1 control groups, each controller with a hierarchy of its own.

Files: Documentation/admin-guide/cgroup-v1 of the kernel (memory, cpusets, pids) and scheduler/sched-bwc.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from agent_fleet.api import Probe, Quantity, Reading, hookimpl
from agent_fleet_capacity.gauge import Taken, UnknownError, cpu_list, gauge, number, pairs, text
from agent_fleet_capacity.hierarchy import Level, levels, mounts, tightest

# "No limit" is the largest signed 64-bit number rounded down to a page of any size; no machine has a quarter of it.
NO_LIMIT: Final = 1 << 61


class Cgroup1:
    """Reads the groups of this process; `root` is the directory that stands for `/`."""

    name = "cgroup1"

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def usable(self) -> str | None:
        """None if a v1 controller is mounted."""
        try:
            table = text(os.path.join(self.root, "proc/self/mountinfo"))
        except OSError as error:
            return f"/proc/self/mountinfo cannot be read: {error.strerror}"
        if table is None:
            return "there is no /proc/self/mountinfo"
        return None if any(m.controllers for m in mounts(table)) else "no version 1 control group is mounted"

    def read(self) -> Iterable[Reading]:
        """CPU quota and set, memory limit and what it leaves, processes: each the tightest on the way up."""
        yield from self._gauge("cores", "cpu", _quota)
        yield from gauge("cores", self.name, self._cpuset)
        yield from self._gauge("memory_limit", "memory", _memory_limit)
        yield from self._gauge("memory_available", "memory", _memory_left)
        yield from self._gauge("pids_free", "pids", _pids_left)

    def _gauge(
        self, quantity: Quantity, controller: str, take: Callable[[Level], tuple[float, str] | None]
    ) -> Iterator[Reading]:
        def taken() -> Taken:
            walk = levels(self.root, controller)
            if controller == "memory":
                walk = tuple(_binding(walk))
            best = tightest(walk, take)
            return best and (best[0], best[1], f"{self.name} {best[2]}")

        return gauge(quantity, self.name, taken)

    def _cpuset(self) -> Taken:
        for level in levels(self.root, "cpuset"):
            for file in ("cpuset.effective_cpus", "cpuset.cpus"):
                cpus = cpu_list(text(os.path.join(level.path, file)) or "")
                if cpus:
                    return len(cpus), file, f"{self.name} {level.shown}"
        return None


def _binding(walk: Iterable[Level]) -> Iterator[Level]:
    """The own group, and those above it whose limits reach down to it: all, unless `memory.use_hierarchy` is off."""
    for index, level in enumerate(walk):
        if index == 0 or number(os.path.join(level.path, "memory.use_hierarchy")) != 0:
            yield level


def _memory_limit(level: Level) -> tuple[float, str] | None:
    limit = number(os.path.join(level.path, "memory.limit_in_bytes"))
    return None if limit is None or limit >= NO_LIMIT else (limit, "memory.limit_in_bytes")


def _memory_left(level: Level) -> tuple[float, str] | None:
    """What the limit leaves over the working set: usage without the file pages that can be dropped at once."""
    limit = _memory_limit(level)
    if limit is None:
        return None
    used = number(os.path.join(level.path, "memory.usage_in_bytes"))
    if used is None:
        raise UnknownError(f"{level.shown} has a memory limit but no memory.usage_in_bytes")
    stat = pairs(text(os.path.join(level.path, "memory.stat")) or "")
    droppable = stat.get("total_inactive_file", 0)
    return max(0, limit[0] - max(0, used - droppable)), "memory.limit_in_bytes less the working set"


def _quota(level: Level) -> tuple[float, str] | None:
    quota = number(os.path.join(level.path, "cpu.cfs_quota_us"))
    if quota is None or quota <= 0:
        return None
    period = number(os.path.join(level.path, "cpu.cfs_period_us"))
    if not period:
        raise UnknownError(f"{level.shown} has a CPU quota but no cpu.cfs_period_us")
    return quota / period, "cpu.cfs_quota_us"


def _pids_left(level: Level) -> tuple[float, str] | None:
    most = (text(os.path.join(level.path, "pids.max")) or "max").strip()
    if most == "max":
        return None
    current = number(os.path.join(level.path, "pids.current"))
    if current is None:
        raise UnknownError(f"{level.shown} has a limit of processes but no pids.current")
    return max(0, int(most) - current), f"pids.max {most}, {current} in use"


@hookimpl
def fleet_probes() -> Iterable[Probe]:
    """Offer the version 1 control groups of this process."""
    yield Cgroup1()
