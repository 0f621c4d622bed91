"""Limits of version 1 control groups, each controller with a hierarchy of its own.

Files: Documentation/admin-guide/cgroup-v1 of the kernel (memory, cpusets, pids) and scheduler/sched-bwc.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from agent_fleet.api import Probe, Quantity, Reading, hookimpl
from agent_fleet_capacity.gauge import Taken, UnknownError, gauge, number
from agent_fleet_capacity.hierarchy import Level, levels
from agent_fleet_capacity.limits import cpus_of, memory_left, pids_left, tightest_of, unmounted

# "No limit" is the largest signed 64-bit number rounded down to a page of any size; no machine has a quarter of it.
NO_LIMIT: Final = 1 << 61


class Cgroup1:
    """Reads the groups of this process; `root` is the directory that stands for `/`."""

    name = "cgroup1"

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def usable(self) -> str | None:
        """None if a v1 controller is mounted."""
        return unmounted(self.root, 1)

    def read(self) -> Iterable[Reading]:
        """CPU quota and set, memory limit and what it leaves, processes: each the tightest on the way up."""
        yield from self._gauge("cores", "cpu", _quota)
        yield from gauge("cores", self.name, self._cpuset)
        yield from self._gauge("memory_limit", "memory", _memory_limit)
        yield from self._gauge("memory_available", "memory", _memory_left)
        yield from self._gauge("pids_free", "pids", pids_left)

    def _gauge(
        self, quantity: Quantity, controller: str, take: Callable[[Level], tuple[float, str] | None]
    ) -> Iterator[Reading]:
        def walk() -> Iterable[Level]:
            found = levels(self.root, controller)
            return _binding(found) if controller == "memory" else found

        return tightest_of(quantity, self.name, walk, take)

    def _cpuset(self) -> Taken:
        return cpus_of(self.name, levels(self.root, "cpuset"), ("cpuset.effective_cpus", "cpuset.cpus"))


def _binding(walk: Iterable[Level]) -> Iterator[Level]:
    """The own group, and those above it whose limits reach down to it: all, unless `memory.use_hierarchy` is off."""
    for index, level in enumerate(walk):
        if index == 0 or number(os.path.join(level.path, "memory.use_hierarchy")) != 0:
            yield level


def _memory_limit(level: Level) -> tuple[float, str] | None:
    limit = number(os.path.join(level.path, "memory.limit_in_bytes"))
    return None if limit is None or limit >= NO_LIMIT else (limit, "memory.limit_in_bytes")


def _memory_left(level: Level) -> tuple[float, str] | None:
    limit = _memory_limit(level)
    if limit is None:
        return None
    left = memory_left(level, limit[0], "memory.usage_in_bytes", "total_inactive_file")
    return left, f"{limit[1]} less the working set"


def _quota(level: Level) -> tuple[float, str] | None:
    quota = number(os.path.join(level.path, "cpu.cfs_quota_us"))
    if quota is None or quota <= 0:
        return None
    period = number(os.path.join(level.path, "cpu.cfs_period_us"))
    if not period:
        raise UnknownError(f"{level.shown} has a CPU quota but no cpu.cfs_period_us")
    return quota / period, "cpu.cfs_quota_us"


@hookimpl
def fleet_probes() -> Iterable[Probe]:
    """Offer the version 1 control groups of this process."""
    yield Cgroup1()
