"""Builds the small files of a Linux machine below a directory, and measures them with the real probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_fleet.api import Probe, Quantity, Reading
from agent_fleet.capacity import GiB, MiB, fold
from agent_fleet_capacity.cgroup1 import Cgroup1
from agent_fleet_capacity.cgroup2 import Cgroup2
from agent_fleet_capacity.procfs import Procfs

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"


def v1(controllers: str, root: str = "/", folder: str = "") -> str:
    """A mountinfo line of a version 1 hierarchy."""
    return f"31 23 0:27 {root} /sys/fs/cgroup/{folder or controllers} rw,nosuid - cgroup cgroup rw,{controllers}"


def psi(some: float, full: float) -> str:
    """A pressure file."""
    return f"some avg10={some:.2f} avg60=0.00 avg300=0.00 total=1000\nfull avg10={full:.2f} avg60=0.00 avg300=0.00 total=9\n"


@dataclass(frozen=True)
class Host:
    """A machine of 8 cores and 32 GiB, three quarters of it available, with nothing going on; fields change that.

    `files` lie below `/`, and win over what the other fields make; None in place of a text leaves a file out, "<dir>" puts a
    directory there, which nobody can read as a file, not even root.
    """

    cpus: int = 8
    allowed: str = ""
    total: float = 32 * GiB
    available: float = 24 * GiB
    load: float = 0.5
    idle: float = 95.0
    threads: int = 400
    disk: int = 100 * GiB
    pressure: Mapping[str, tuple[float, float]] | None = field(
        default_factory=lambda: {"cpu": (0.0, 0.0), "memory": (0.0, 0.0)}
    )
    groups: str = ""
    mounts: Sequence[str] = ()
    files: Mapping[str, str | None] = field(default_factory=dict)

    def build(self, root: Path) -> None:
        """Write it all below `root`."""
        self.tick(root, 0)
        for name, content in {**self._proc(), **self.files}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content == "<dir>":
                path.mkdir()
            elif content is not None:
                path.write_text(content)

    def tick(self, root: Path, seconds: int) -> None:
        """Write CPU times as they are that long after the start of a machine that was busy until then."""
        idle = round(self.idle * seconds)
        waits = idle // 2  # half of the idle time is spent on waiting for a disk
        times = f"{9000 + 100 * seconds - idle} 0 0 {1000 + idle - waits} {waits} 0 0 0 0 0"
        lines = [f"cpu{n} {times}" for n in range(self.cpus)]
        path = root / "proc/stat"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["cpu  1 0 0 1 0 0 0 0 0 0", *lines, "intr 5 0"]) + "\n")

    def probes(self, root: Path) -> tuple[Probe, ...]:
        """The real probes, pointed at that directory."""
        proc = Procfs(str(root / "proc"), "/state", pause=lambda: self.tick(root, 1), disk=lambda _: self.disk)
        return (Cgroup1(str(root)), Cgroup2(str(root)), proc)

    def measure(self, root: Path) -> Mapping[Quantity, Reading]:
        """What the usable ones say, folded."""
        self.build(root)
        return fold(reading for p in self.probes(root) if p.usable() is None for reading in p.read())

    def _proc(self) -> dict[str, str]:
        proc = {
            "proc/meminfo": (
                f"MemTotal: {int(self.total) // 1024} kB\nMemFree: 204800 kB\n"
                f"MemAvailable: {int(self.available) // 1024} kB\nSwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n"
                f"CommitLimit: {int(self.total) // 1024} kB\nCommitted_AS: 4194304 kB\n"
            ),
            "proc/loadavg": f"{self.load:.2f} 0.40 0.30 2/{self.threads} 4242\n",
            "proc/self/status": (
                f"Name:\tx\nUid:\t1000\t1000\t1000\t1000\nThreads:\t1\n"
                f"Cpus_allowed_list:\t{self.allowed or f'0-{self.cpus - 1}'}\n"
            ),
            "proc/self/limits": (
                "Limit                     Soft Limit           Hard Limit           Units\n"
                "Max processes             125000               125000               processes\n"
                "Max open files            4096                 524288               files\n"
            ),
            "proc/self/mountinfo": "\n".join(["22 1 0:21 / /proc rw - proc proc rw", *self.mounts]) + "\n",
            "proc/self/cgroup": self.groups,
            "proc/sys/kernel/pid_max": "4194304\n",
            "proc/sys/kernel/threads-max": "250000\n",
            "proc/sys/kernel/osrelease": "6.8.0-generic\n",
            "proc/sys/kernel/pty/max": "4096\n",
            "proc/sys/kernel/pty/nr": "6\n",
            "proc/sys/fs/file-nr": "5000\t0\t9223372036854775807\n",
            "proc/sys/fs/inotify/max_user_instances": "128\n",
            "proc/sys/vm/overcommit_memory": "0\n",
        }
        for name, (some, full) in (self.pressure or {}).items():
            proc[f"proc/pressure/{name}"] = psi(some, full)
        return proc


__all__ = ["V2", "GiB", "Host", "MiB", "psi", "v1"]
