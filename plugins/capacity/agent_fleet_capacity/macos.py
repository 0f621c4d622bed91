"""What macOS says of itself through sysctl(8), vm_stat(1), memory_pressure(1) and ps(1).

Free pages alone make a healthy machine look full, because macOS keeps little memory free; what can be had back at once
is counted as available, and the system's own verdict decides about pressure.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from agent_fleet.api import Config, Probe, Quantity, Reading, hookimpl
from agent_fleet_capacity.gauge import Taken, UnknownError, disk_free, gauge

Run = Callable[[tuple[str, ...]], str]

TIMEOUT: Final = 5.0

RECLAIMABLE: Final = ("Pages free", "Pages inactive", "Pages speculative", "Pages purgeable")

# kern.memorystatus_vm_pressure_level (XNU, kern_memorystatus): 1 normal, 2 warning, 4 critical. It is a verdict, not a
# share of time. On the scale of Linux's pressure, critical means that all stands still, and a warning that something does.
PRESSURE: Final[Mapping[int, tuple[str, float, float]]] = {
    1: ("normal", 0.0, 0.0),
    2: ("warning", 50.0, 0.0),
    4: ("critical", 100.0, 100.0),
}

LEVEL: Final = "kern.memorystatus_vm_pressure_level"


def command_output(argv: tuple[str, ...]) -> str:
    """What a system command prints. Raises OSError if it cannot run or takes too long, UnknownError if it fails."""
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnknownError(f"{argv[0]} gave no answer in {TIMEOUT:g} seconds") from None
    if done.returncode != 0:
        raise UnknownError(f"{' '.join(argv)} ended with status {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


class Macos:
    """Asks macOS by `run`, which gives the output of a command; `platform` is the name of this system."""

    name = "macos"

    def __init__(
        self,
        run: Run = command_output,
        state_dir: str = ".",
        *,
        platform: str = sys.platform,
        disk: Callable[[str], int] = disk_free,
    ) -> None:
        self.run = run
        self.state_dir = state_dir
        self.platform = platform
        self.disk = disk

    def usable(self) -> str | None:
        """None on macOS."""
        return None if self.platform == "darwin" else "this is not macOS"

    def read(self) -> Iterable[Reading]:
        """All that the system tells; it has no inotify, and no control groups."""
        yield from self._sysctl("cores", "hw.ncpu", lambda out: (int(out), ""))
        yield from self._sysctl("load1", "vm.loadavg", lambda out: (_numbers(out)[0], "one-minute mean"))
        yield from self._sysctl("memory_total", "hw.memsize", lambda out: (int(out), ""))
        yield from gauge("memory_available", f"{self.name} vm_stat", self._reclaimable)
        yield from gauge("memory_available", f"{self.name} memory_pressure", self._share)
        yield from self._sysctl("memory_pressure_some", LEVEL, lambda out: _pressure(out)[0])
        yield from self._sysctl("memory_pressure_full", LEVEL, lambda out: _pressure(out)[1])
        yield from self._sysctl("swap_total", "vm.swapusage", lambda out: _swap(out, "total"))
        yield from self._sysctl("swap_free", "vm.swapusage", lambda out: _swap(out, "free"))
        yield from gauge("cpu_idle", f"{self.name} ps", self._idle)
        yield from gauge("pids_free", f"{self.name} kern.maxproc", self._pids)
        yield from gauge("ptys_free", f"{self.name} kern.tty.ptmx_max", self._ptys)
        yield from gauge("fds_free", f"{self.name} kern.maxfiles", self._files)
        yield from gauge("disk_free", f"{self.name} statvfs", lambda: (self.disk(self.state_dir), self.state_dir))

    def _sysctl(self, quantity: Quantity, name: str, take: Callable[[str], Taken]) -> Iterator[Reading]:
        return gauge(quantity, f"{self.name} {name}", lambda: take(self._value(name)))

    def _value(self, name: str) -> str:
        return self.run(("sysctl", "-n", name)).strip()

    def _reclaimable(self) -> Taken:
        output = self.run(("vm_stat",))
        page = re.search(r"page size of (\d+) bytes", output)
        if page is None:
            raise UnknownError("vm_stat names no page size")
        pages = {key: int(count) for key, count in re.findall(r'^"?([^":\n]+)"?:\s+(\d+)\.', output, re.MULTILINE)}
        if "Pages free" not in pages:
            raise UnknownError("vm_stat names no free pages")
        return sum(pages.get(key, 0) for key in RECLAIMABLE) * int(page[1]), "free and what can be had back at once"

    def _share(self) -> Taken:
        output = self.run(("memory_pressure", "-Q"))
        share = re.search(r"free percentage:\s*(\d+)\s*%", output)
        if share is None:
            raise UnknownError("memory_pressure names no free percentage")
        return int(self._value("hw.memsize")) * int(share[1]) / 100, f"{share[1]} % of memory by the system's own count"

    def _processes(self) -> list[list[str]]:
        """Owner, CPU use in percent of one core and terminal of each process."""
        return [line.split() for line in self.run(("ps", "-A", "-o", "uid=,%cpu=,tty=")).splitlines() if line.strip()]

    def _idle(self) -> Taken:
        """ps gives a mean over up to a minute of each process."""
        busy = sum(_numbers(row[1])[0] for row in self._processes())
        return max(0.0, 100.0 - busy / int(self._value("hw.ncpu"))), "100 % less the sum of all processes"

    def _pids(self) -> Taken:
        rows, uid = self._processes(), self.run(("id", "-u")).strip()
        mine = sum(row[0] == uid for row in rows)
        system, own = int(self._value("kern.maxproc")), int(self._value("kern.maxprocperuid"))
        room, note = min(
            (system - len(rows), f"kern.maxproc {system}, {len(rows)} in use"),
            (own - mine, f"kern.maxprocperuid {own}, {mine} in use by this user"),
        )
        return max(0, room), note

    def _ptys(self) -> Taken:
        most = int(self._value("kern.tty.ptmx_max"))
        used = len({row[2] for row in self._processes() if row[2].startswith("ttys")})
        return max(0, most - used), f"{most} at most, {used} seen in use"

    def _files(self) -> Taken:
        most, used = int(self._value("kern.maxfiles")), int(self._value("kern.num_files"))
        return max(0, most - used), f"{most} at most, {used} in use"


def _numbers(text: str) -> list[float]:
    """The numbers in a text, with a point or, as some locales print them, a comma."""
    found = [float(number.replace(",", ".")) for number in re.findall(r"\d+(?:[.,]\d+)?", text)]
    if not found:
        raise UnknownError(f"{text!r} holds no number")
    return found


def _pressure(output: str) -> tuple[Taken, Taken]:
    try:
        word, some, full = PRESSURE[int(output)]
    except KeyError:
        raise UnknownError(f"pressure level {output} has no known meaning") from None
    return (some, f"the system says: {word}"), (full, f"the system says: {word}")


def _swap(output: str, key: str) -> Taken:
    found = re.search(rf"{key} = (\d+(?:[.,]\d+)?)([KMGT])", output)
    if found is None:
        raise UnknownError(f"vm.swapusage names no {key}")
    return _numbers(found[1])[0] * 1024 ** ("KMGT".index(found[2]) + 1), "macOS makes more as it needs it"


@hookimpl
def fleet_probes(config: Config) -> Iterable[Probe]:
    """Offer macOS, with the disk of the queue."""
    yield Macos(state_dir=config.queue_dir or config.root)
