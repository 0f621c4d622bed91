"""Where this process's own control groups lie, and the directories from there up to what the mount shows.

Formats: proc_pid_cgroup(5), proc_pid_mountinfo(5), cgroup_namespaces(7).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agent_fleet_capacity.gauge import UnknownError, text

UNIFIED: Final = ""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted hierarchy: the group that is its root, where it is mounted, and its v1 controllers (empty for v2)."""

    root: str
    point: str
    controllers: frozenset[str]
    unified: bool


@dataclass(frozen=True, slots=True)
class Level:
    """One directory of the walk: `path` is where to read, `shown` how it is called on the machine itself."""

    path: str
    shown: str


def mounts(content: str) -> tuple[Mount, ...]:
    """The cgroup mounts in a mountinfo file. Of several at one mount point the last counts: it hides the others."""
    found: dict[str, Mount] = {}
    for line in content.splitlines():
        front, dash, back = line.partition(" - ")
        fields, kind = front.split(), back.split()
        if not dash or len(fields) < 5 or len(kind) < 3:
            continue
        point = _unescaped(fields[4])
        if kind[0] not in ("cgroup", "cgroup2"):
            found.pop(point, None)
            continue
        unified = kind[0] == "cgroup2"
        options = frozenset() if unified else frozenset(kind[-1].split(","))
        found[point] = Mount(_unescaped(fields[3]), point, options, unified)
    return tuple(found.values())


def memberships(content: str) -> Mapping[str, str]:
    """The own group a v1 controller, and under `UNIFIED` the own group in the v2 tree, from `/proc/self/cgroup`."""
    groups: dict[str, str] = {}
    for line in content.splitlines():
        number, first, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if not first or not second:
            continue
        if number == "0" and not controllers:
            groups[UNIFIED] = path
        for controller in filter(None, controllers.split(",")):
            groups[controller] = path
    return groups


def levels(host: str, controller: str) -> tuple[Level, ...]:
    """The directories from the own group up to the root of its mount, nearest first; empty if none is mounted.

    `host` is the directory that stands for `/`. Where a bind mount or a namespace hides the own group, only the mount's
    root is there to be read. Raises OSError if the kernel's tables cannot be read, UnknownError if there are none.
    """
    here = os.path.join(host, "proc", "self")
    table, groups = text(os.path.join(here, "mountinfo")), text(os.path.join(here, "cgroup"))
    if table is None or groups is None:
        raise UnknownError("/proc/self/mountinfo and /proc/self/cgroup are not there")
    own = memberships(groups).get(controller)
    fitting = [m for m in mounts(table) if (m.unified if controller == UNIFIED else controller in m.controllers)]
    if own is None or not fitting:
        return ()
    below = {mount: _below(own, mount.root) for mount in fitting}
    # The mount that shows most of the way up has the shortest root.
    mount = min(fitting, key=lambda each: (below[each] is None, len(each.root), each.point))
    return tuple(_walk(host, mount, below[mount] or ""))


def _below(own: str, root: str) -> str | None:
    """The own group relative to the mount's root; None if it does not lie below it."""
    if root.startswith("/..") or own.startswith("/.."):
        return None
    if root == "/":
        return own.strip("/")
    return own[len(root) :].strip("/") if own == root or own.startswith(root + "/") else None


def _walk(host: str, mount: Mount, below: str) -> Iterator[Level]:
    parts = below.split("/") if below else []
    for count in range(len(parts), -1, -1):
        shown = os.path.join(mount.point, *parts[:count])
        path = os.path.join(host, shown.lstrip("/"))
        if os.path.isdir(path):
            yield Level(path, shown)


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def tightest(walk: Iterable[Level], take: Callable[[Level], tuple[float, str] | None]) -> tuple[float, str, str] | None:
    """The smallest value of all levels with its note and the directory it came from; None if no level sets any."""
    best: tuple[float, str, str] | None = None
    for level in walk:
        taken = take(level)
        if taken is not None and (best is None or taken[0] < best[0]):
            best = (taken[0], taken[1], level.shown)
    return best
