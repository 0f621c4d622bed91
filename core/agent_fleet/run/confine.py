"""Ceilings of one worker's process tree: a control group where one may be made, a watchdog everywhere.

The watchdog ends a worker that outgrows its ceiling, with the numbers; the group is the backstop behind it, a little wider, for
a tree that grows faster than anyone can look. Files and units: cgroup-v1/memory, cgroup-v1/pids and cgroup-v2 of the kernel's
documentation. A keeper's module: light imports.
"""

from __future__ import annotations

import os
from typing import NamedTuple

MARGIN = 1.25  # the kernel's limit over ours: the watchdog should come first, and say why


class Ceilings(NamedTuple):
    """The most that one worker's tree may use: `memory` in bytes, `processes` in threads and processes; 0 for no limit."""

    memory: int
    processes: int


class Group(NamedTuple):
    """One control group that we made: where it is, what it holds back, and the counter that tells when it did."""

    directory: str
    kind: str
    events: str
    counter: str


class Confinement:
    """The groups of one worker. Made before its start, entered by the agent before its program, removed at its end."""

    __slots__ = ("ceilings", "groups")

    def __init__(self, name: str, ceilings: Ceilings, root: str = "/") -> None:
        self.ceilings = ceilings
        self.groups: list[Group] = []
        if ceilings.memory or ceilings.processes:
            self.groups = _unified(name, ceilings, root) or _legacy(name, ceilings, root)

    @property
    def doors(self) -> tuple[str, ...]:
        """The files that a process writes itself into, to be held by the groups."""
        return tuple(os.path.join(group.directory, "cgroup.procs") for group in self.groups)

    def breach(self, memory: int | None, processes: int) -> tuple[str, str] | None:
        """Which ceiling a tree has passed, as (cause, sentence); the figures are the watchdog's, None is unknown."""
        limit = self.ceilings.memory
        if limit and memory is not None and memory > limit:
            return "memory", f"its processes use {memory} bytes, the ceiling is {limit}"
        refused = self._refused()
        if refused:
            return refused
        limit = self.ceilings.processes
        if limit and processes > limit:
            return "processes", f"it has {processes} processes, the ceiling is {limit}"
        return None

    def _refused(self) -> tuple[str, str] | None:
        """What the kernel has refused or ended in the groups, as far as their event counters tell."""
        for group in self.groups:
            count = _counter(os.path.join(group.directory, group.events), group.counter)
            if count and group.kind == "processes":
                return "processes", f"it was refused {count} more processes, the ceiling is {self.ceilings.processes}"
            if count:
                return (
                    "memory",
                    f"the kernel ended {count} of its processes, the ceiling is {self.ceilings.memory} bytes",
                )
        return None

    @property
    def needs_watching(self) -> bool:
        """Whether only looking at the tree tells: memory always, processes where no group counts them."""
        counted = any(group.kind == "processes" for group in self.groups)
        return bool(self.ceilings.memory or (self.ceilings.processes and not counted))

    def close(self) -> None:
        """Remove the groups; the kernel keeps one that is not empty, which then holds nothing of ours back."""
        for group in self.groups:
            try:
                os.rmdir(group.directory)
            except OSError:
                continue


def _unified(name: str, ceilings: Ceilings, root: str) -> list[Group]:
    """A group below our own in the v2 tree, if it was delegated to us with the controllers that are needed."""
    own = _own_directory(root, "")
    if own is None or not os.access(own, os.W_OK):
        return []
    offered = _read(os.path.join(own, "cgroup.subtree_control")).split()
    if (ceilings.memory and "memory" not in offered) or (ceilings.processes and "pids" not in offered):
        return []
    limits = {}
    if ceilings.memory:
        limits["memory.max"] = int(ceilings.memory * MARGIN)
    if ceilings.processes:
        limits["pids.max"] = int(ceilings.processes * MARGIN)
    directory = _make(os.path.join(own, name), limits)
    if directory is None:
        return []
    kinds = [("memory", "memory.events", "oom_kill")] if ceilings.memory else []
    kinds += [("processes", "pids.events", "max")] if ceilings.processes else []
    return [Group(directory, *kind) for kind in kinds]


def _legacy(name: str, ceilings: Ceilings, root: str) -> list[Group]:
    """A group in each v1 hierarchy that is needed and writable."""
    found = []
    for controller, limit, file, kind in (
        ("memory", ceilings.memory, "memory.limit_in_bytes", ("memory", "memory.oom_control", "oom_kill")),
        ("pids", ceilings.processes, "pids.max", ("processes", "pids.events", "max")),
    ):
        own = _own_directory(root, controller) if limit else None
        directory = _make(os.path.join(own, name), {file: int(limit * MARGIN)}) if own else None
        if directory is not None:
            found.append(Group(directory, *kind))
    return found


def _own_directory(root: str, controller: str) -> str | None:
    """Where our own group of a v1 controller (empty: of the v2 tree) lies, or None."""
    path = None
    for line in _read(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, place = [*line.split(":", 2), "", ""][:3]
        if controller in controllers.split(","):
            path = place
    if path is None:
        return None
    for line in _read(os.path.join(root, "proc/self/mountinfo")).splitlines():
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        wanted = kind[0] == "cgroup2" if not controller else kind[0] == "cgroup" and controller in kind[2].split(",")
        if wanted and (path == fields[3] or fields[3] == "/" or path.startswith(fields[3] + "/")):
            below = path.removeprefix(fields[3]).strip("/") if fields[3] != "/" else path.strip("/")
            directory = os.path.join(root, fields[4].strip("/"), below)
            if os.path.isdir(directory):
                return directory
    return None


def _make(directory: str, limits: dict[str, int]) -> str | None:
    """Make a group with its limits; None, and nothing left behind, if that is not allowed."""
    try:
        os.mkdir(directory)
    except OSError:
        return None
    try:
        for file, value in limits.items():
            with open(os.path.join(directory, file), "w", encoding="ascii") as handle:
                handle.write(str(value))
    except OSError:
        os.rmdir(directory)
        return None
    return directory


def _counter(path: str, word: str) -> int:
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == word and value.strip().isdigit():
            return int(value)
    return 0


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
