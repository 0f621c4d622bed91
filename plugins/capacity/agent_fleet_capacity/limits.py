"""What control groups of both versions are asked in the same way: where they are mounted, and what their files leave."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from agent_fleet.api import Quantity, Reading
from agent_fleet_capacity.gauge import Taken, UnknownError, cpu_list, gauge, number, pairs, text
from agent_fleet_capacity.hierarchy import Level, mounts, tightest


def unmounted(host: str, version: int) -> str | None:
    """Why no control groups of this version can be read; None if some are mounted. `host` is the directory that stands for `/`."""
    try:
        table = text(os.path.join(host, "proc/self/mountinfo"))
    except OSError as error:
        return f"/proc/self/mountinfo cannot be read: {error.strerror}"
    if table is None:
        return "there is no /proc/self/mountinfo"
    if any(mount.unified if version == 2 else mount.controllers for mount in mounts(table)):
        return None
    return f"no version {version} control group is mounted"


def tightest_of(
    quantity: Quantity,
    source: str,
    walk: Callable[[], Iterable[Level]],
    take: Callable[[Level], tuple[float, str] | None],
) -> Iterator[Reading]:
    """A reading of the tightest value on the way up, which names its directory."""

    def taken() -> Taken:
        best = tightest(walk(), take)
        return best and (best[0], best[1], f"{source} {best[2]}")

    return gauge(quantity, source, taken)


def cpus_of(source: str, walk: Iterable[Level], files: Iterable[str]) -> Taken:
    """How many CPUs the nearest group that names any may use, by the first of these files that does."""
    names = tuple(files)
    for level in walk:
        for file in names:
            cpus = cpu_list(text(os.path.join(level.path, file)) or "")
            if cpus:
                return len(cpus), file, f"{source} {level.shown}"
    return None


def amount(level: Level, file: str) -> int | None:
    """The number in a file that may say `max`; None if it does, or is not there."""
    path = os.path.join(level.path, file)
    return None if (text(path) or "max").strip() == "max" else number(path)


def in_use(level: Level, file: str, limit: str) -> int:
    """What a group uses, by this file. Raises UnknownError if it has a limit and does not say."""
    used = number(os.path.join(level.path, file))
    if used is None:
        raise UnknownError(f"{level.shown} has {limit} but no {file}")
    return used


def memory_left(level: Level, limit: float, usage: str, droppable: str) -> float:
    """What a limit leaves over the working set: the usage in this file without the file pages that can be dropped at once."""
    used = in_use(level, usage, "a memory limit")
    dropped = pairs(text(os.path.join(level.path, "memory.stat")) or "").get(droppable, 0)
    return max(0, limit - max(0, used - dropped))


def pids_left(level: Level) -> tuple[float, str] | None:
    """How many more processes a group allows, with what is behind it; None if it sets no limit."""
    most = amount(level, "pids.max")
    if most is None:
        return None
    current = in_use(level, "pids.current", "a limit of processes")
    return max(0, most - current), f"pids.max {most}, {current} in use"
