"""Which processes belong to a worker: by descent and by mark, never by name.

A worker's tree is its first process, everything that descends from it, and every process whose environment carries
the worker's mark, with what descends from those.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agent_fleet.identity import LINUX, is_alive, name_of, read_stat, start_of

MARKS = ("FLEET_WORKER", "FLEET_RUN")


class Proc(NamedTuple):
    """A running process; `start` is as in its identity."""

    pid: int
    start: str
    ppid: int


class Tree:
    """One worker's tree. It remembers whom it has seen, so that none is lost when a parent ends between two scans."""

    __slots__ = ("_known", "identity", "mark", "root")

    def __init__(self, identity: str, mark: str) -> None:
        self.identity = identity
        self.mark = mark
        pid, start = identity.split(":")[:2] if is_alive(identity) else ("0", "")
        self.root = (int(pid), start)
        self._known: dict[int, str] = {int(pid): start}

    def scan(self) -> list[Proc]:
        """The processes of the tree that run now, the first one first; never this process, nor one it descends from."""
        table = _table()
        roots = {pid for pid, start in self._known.items() if pid in table and table[pid].start == start}
        below = _below(table, roots)
        strangers = (pid for pid in table if pid not in below)
        below |= _below(table, set(_carriers(strangers, self.mark)))
        below -= _line_of(table, os.getpid())
        found = [table[pid] for pid in below]
        self._known = {pid: table[pid].start for pid in roots} | {proc.pid: proc.start for proc in found}
        return sorted(found, key=lambda proc: (not self.is_root(proc), proc.pid))

    def is_root(self, proc: Proc) -> bool:
        return (proc.pid, proc.start) == self.root

    def root_is_over(self) -> bool:
        """Whether the first process was seen to be gone, or is the caller itself."""
        return self.root[0] == os.getpid() or not self.identity or is_alive(self.identity) is False


def tree(identity: str, mark: str) -> list[Proc]:
    """What runs of a worker now: by descent from its first process and by mark."""
    return Tree(identity, mark).scan()


def descendants(pid: int) -> list[Proc]:
    """The children of a process, their children, and so on; without itself."""
    table = _table()
    return [table[found] for found in sorted(_below(table, {pid} & table.keys()) - {pid})]


def families(pids: Iterable[int]) -> dict[int, set[int]]:
    """Each of these processes that runs, with itself and all that descends from it, from one look."""
    table = _table()
    return {pid: _below(table, {pid}) for pid in pids if pid in table}


def marked(mark: str) -> list[Proc]:
    """The processes whose environment says `FLEET_WORKER=<mark>` or `FLEET_RUN=<mark>`, as far as it may be read."""
    table = _table()
    return [table[pid] for pid in sorted(_carriers(table, mark))]


def names_of(procs: Iterable[Proc]) -> list[str]:
    """The programs that these processes run, each once, in order; for people, never for a decision."""
    return sorted({name_of(proc.pid) for proc in procs} - {""})


def _table() -> dict[int, Proc]:
    """All processes that run; one that has ended and was not reaped is not among them."""
    if not LINUX:
        return _psutil_table()
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = read_stat(int(name))
            if stat is not None and not stat.gone:
                table[stat.pid] = Proc(stat.pid, str(stat.start), stat.ppid)
    return table


def _psutil_table() -> dict[int, Proc]:
    import psutil

    table = {}
    for process in psutil.process_iter(["ppid", "status"]):
        start = start_of(process.pid)
        if start is not None and process.info["status"] != psutil.STATUS_ZOMBIE:
            table[process.pid] = Proc(process.pid, start, process.info["ppid"] or 0)
    return table


def _below(table: dict[int, Proc], roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for proc in table.values():
        children.setdefault(proc.ppid, []).append(proc.pid)
    found = set(roots)
    queue = list(roots)
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return found


def _line_of(table: dict[int, Proc], pid: int) -> set[int]:
    line: set[int] = set()
    while pid in table and pid not in line:
        line.add(pid)
        pid = table[pid].ppid
    return line


def _carriers(pids: Iterable[int], mark: str) -> Iterator[int]:
    if not mark:
        return  # an empty mark would match every process that has none
    wanted = {f"{name}={mark}".encode() for name in MARKS}
    for pid in pids:
        if not wanted.isdisjoint(_environment(pid)):
            yield pid


def _environment(pid: int) -> list[bytes]:
    if LINUX:
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                return file.read().split(b"\0")
        except OSError:
            return []
    import psutil

    try:
        return [f"{name}={value}".encode() for name, value in psutil.Process(pid).environ().items()]
    except (psutil.Error, OSError, ValueError):
        return []
