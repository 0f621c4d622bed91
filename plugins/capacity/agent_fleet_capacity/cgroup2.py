"""Limits and pressure of the version 2 control group of this process.

Files: Documentation/admin-guide/cgroup-v2.rst of the kernel. A v2 tree without a controller has none of its files, so
on a hybrid host it says nothing about what version 1 controls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from agent_fleet.api import Probe, Quantity, Reading, hookimpl
from agent_fleet_capacity.gauge import Taken, gauge, stall, text
from agent_fleet_capacity.hierarchy import UNIFIED, Level, levels
from agent_fleet_capacity.limits import amount, cpus_of, memory_left, pids_left, tightest_of, unmounted

# Above memory.high the kernel does not kill, it slows everything down until nothing gets done: for us the same limit.
MEMORY_LIMITS: Final = ("memory.max", "memory.high")

PRESSURES: Final[tuple[tuple[Quantity, str, str], ...]] = (
    ("cpu_pressure", "cpu.pressure", "some"),
    ("memory_pressure_some", "memory.pressure", "some"),
    ("memory_pressure_full", "memory.pressure", "full"),
)


class Cgroup2:
    """Reads the group of this process; `root` is the directory that stands for `/`."""

    name = "cgroup2"

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def usable(self) -> str | None:
        """None if a v2 tree is mounted."""
        return unmounted(self.root, 2)

    def read(self) -> Iterable[Reading]:
        """CPU quota and set, memory, processes: each the tightest on the way up; and the pressure on the own group."""
        yield from self._gauge("cores", _quota)
        yield from gauge("cores", self.name, self._cpuset)
        yield from self._gauge("memory_limit", _memory_limit)
        yield from self._gauge("memory_available", _memory_left)
        yield from self._gauge("pids_free", pids_left)
        for quantity, file, kind in PRESSURES:
            yield from gauge(quantity, self.name, partial(self._pressure, file, kind))

    def _gauge(self, quantity: Quantity, take: Callable[[Level], tuple[float, str] | None]) -> Iterator[Reading]:
        return tightest_of(quantity, self.name, lambda: levels(self.root, UNIFIED), take)

    def _cpuset(self) -> Taken:
        return cpus_of(self.name, levels(self.root, UNIFIED), ("cpuset.cpus.effective",))

    def _pressure(self, file: str, kind: str) -> Taken:
        walk = levels(self.root, UNIFIED)
        content = text(os.path.join(walk[0].path, file)) if walk else None
        share = None if content is None else stall(content, kind)
        return None if share is None else (share, f"{file} {kind} avg10", f"{self.name} {walk[0].shown}")


def _memory_limit(level: Level) -> tuple[float, str] | None:
    limits = [(limit, file) for file in MEMORY_LIMITS if (limit := amount(level, file)) is not None]
    return min(limits, default=None)


def _memory_left(level: Level) -> tuple[float, str] | None:
    limit = _memory_limit(level)
    if limit is None:
        return None
    left = memory_left(level, limit[0], "memory.current", "inactive_file")
    return left, f"{limit[1]} less the working set"


def _quota(level: Level) -> tuple[float, str] | None:
    words = (text(os.path.join(level.path, "cpu.max")) or "max").split()
    if not words or words[0] == "max":
        return None
    period = int(words[1]) if len(words) > 1 else 100_000
    return int(words[0]) / max(1, period), "cpu.max"


@hookimpl
def fleet_probes() -> Iterable[Probe]:
    """Offer the version 2 control group of this process."""
    yield Cgroup2()
