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
from agent_fleet_capacity.gauge import Taken, UnknownError, cpu_list, gauge, number, pairs, stall, text
from agent_fleet_capacity.hierarchy import UNIFIED, Level, levels, mounts, tightest

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
        try:
            table = text(os.path.join(self.root, "proc/self/mountinfo"))
        except OSError as error:
            return f"/proc/self/mountinfo cannot be read: {error.strerror}"
        if table is None:
            return "there is no /proc/self/mountinfo"
        return None if any(m.unified for m in mounts(table)) else "no version 2 control group is mounted"

    def read(self) -> Iterable[Reading]:
        """CPU quota and set, memory, processes: each the tightest on the way up; and the pressure on the own group."""
        yield from self._gauge("cores", _quota)
        yield from gauge("cores", self.name, self._cpuset)
        yield from self._gauge("memory_limit", _memory_limit)
        yield from self._gauge("memory_available", _memory_left)
        yield from self._gauge("pids_free", _pids_left)
        for quantity, file, kind in PRESSURES:
            yield from gauge(quantity, self.name, partial(self._pressure, file, kind))

    def _gauge(self, quantity: Quantity, take: Callable[[Level], tuple[float, str] | None]) -> Iterator[Reading]:
        def taken() -> Taken:
            best = tightest(levels(self.root, UNIFIED), take)
            return best and (best[0], best[1], f"{self.name} {best[2]}")

        return gauge(quantity, self.name, taken)

    def _cpuset(self) -> Taken:
        for level in levels(self.root, UNIFIED):
            cpus = cpu_list(text(os.path.join(level.path, "cpuset.cpus.effective")) or "")
            if cpus:
                return len(cpus), "cpuset.cpus.effective", f"{self.name} {level.shown}"
        return None

    def _pressure(self, file: str, kind: str) -> Taken:
        walk = levels(self.root, UNIFIED)
        content = text(os.path.join(walk[0].path, file)) if walk else None
        share = None if content is None else stall(content, kind)
        return None if share is None else (share, f"{file} {kind} avg10", f"{self.name} {walk[0].shown}")


def _memory_limit(level: Level) -> tuple[float, str] | None:
    limits = [(limit, file) for file in MEMORY_LIMITS if (limit := _amount(level, file)) is not None]
    return min(limits, default=None)


def _amount(level: Level, file: str) -> int | None:
    path = os.path.join(level.path, file)
    return None if (text(path) or "max").strip() == "max" else number(path)


def _memory_left(level: Level) -> tuple[float, str] | None:
    """What the limit leaves over the working set: usage without the file pages that can be dropped at once."""
    limit = _memory_limit(level)
    if limit is None:
        return None
    used = number(os.path.join(level.path, "memory.current"))
    if used is None:
        raise UnknownError(f"{level.shown} has a memory limit but no memory.current")
    droppable = pairs(text(os.path.join(level.path, "memory.stat")) or "").get("inactive_file", 0)
    return max(0, limit[0] - max(0, used - droppable)), f"{limit[1]} less the working set"


def _quota(level: Level) -> tuple[float, str] | None:
    words = (text(os.path.join(level.path, "cpu.max")) or "max").split()
    if not words or words[0] == "max":
        return None
    period = int(words[1]) if len(words) > 1 else 100_000
    return int(words[0]) / max(1, period), "cpu.max"


def _pids_left(level: Level) -> tuple[float, str] | None:
    most = _amount(level, "pids.max")
    if most is None:
        return None
    current = number(os.path.join(level.path, "pids.current"))
    if current is None:
        raise UnknownError(f"{level.shown} has a limit of processes but no pids.current")
    return max(0, most - current), f"pids.max {most}, {current} in use"


@hookimpl
def fleet_probes() -> Iterable[Probe]:
    """Offer the version 2 control group of this process."""
    yield Cgroup2()
