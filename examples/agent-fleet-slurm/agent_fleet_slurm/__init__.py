"""What a Slurm job may use on this node, where no control group holds it to that.

Slurm tells a job its share in variables (sbatch(1), "Output environment variables"): SLURM_MEM_PER_NODE or SLURM_MEM_PER_CPU
in MiB, where 0 is all of the node, and SLURM_CPUS_ON_NODE. What is used is the resident memory of every process that carries
the job's SLURM_JOB_ID, as far as this user may read it.
"""

import os
import time
from collections.abc import Iterable, Mapping

from agent_fleet.api import Config, Probe, Quantity, Reading, hookimpl

MIB = 1 << 20


class Slurm:
    """Reads the variables of a job from `environ`, and its processes below `proc`."""

    name = "slurm"

    def __init__(self, environ: Mapping[str, str], proc: str = "/proc") -> None:
        self._environ = environ
        self._proc = proc

    def usable(self) -> str | None:
        return None if self._environ.get("SLURM_JOB_ID") else "this is no job of Slurm: SLURM_JOB_ID is not set"

    def read(self) -> Iterable[Reading]:
        cpus = self._number("SLURM_CPUS_ON_NODE")
        if cpus != 0:
            yield self._reading("cores", cpus, "SLURM_CPUS_ON_NODE is no number")
        limit = self._limit(cpus)
        if limit == 0:
            return
        yield self._reading("memory_limit", limit, "the job's memory is no number")
        used = self._used()
        left = None if limit is None or used is None else max(0.0, limit - used)
        yield self._reading("memory_available", left, "what the job uses of its memory cannot be read")

    def _reading(self, quantity: Quantity, value: float | None, why: str) -> Reading:
        source = f"slurm job {self._environ.get('SLURM_JOB_ID', '')}"
        return Reading(quantity=quantity, value=value, source=source, at=time.time(), note=why if value is None else "")

    def _limit(self, cpus: float | None) -> float | None:
        """Bytes; 0 if the job has no limit of its own, None if that cannot be told."""
        if "SLURM_MEM_PER_CPU" in self._environ:
            share = self._number("SLURM_MEM_PER_CPU")
            return None if share is None or not cpus else share * cpus * MIB
        node = self._number("SLURM_MEM_PER_NODE")
        return None if node is None else node * MIB

    def _number(self, name: str) -> float | None:
        """The variable's whole number; 0 if it is not set, None if it is no number."""
        text = self._environ.get(name, "0")
        return float(text) if text.isdecimal() else None

    def _used(self) -> float | None:
        """Bytes; None if no process of the job can be read, for this one belongs to it."""
        mark = f"SLURM_JOB_ID={self._environ.get('SLURM_JOB_ID', '')}".encode()
        found = [self._resident(pid) for pid in self._pids() if mark in self._bytes(pid, "environ").split(b"\0")]
        return float(sum(found)) if found else None

    def _pids(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._proc) if name.isdecimal()]
        except OSError:
            return []

    def _resident(self, pid: str) -> int:
        fields = self._bytes(pid, "statm").split()  # proc(5): pages, the second number is the resident set
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0

    def _bytes(self, pid: str, name: str) -> bytes:
        try:
            with open(os.path.join(self._proc, pid, name), "rb") as file:
                return file.read()
        except OSError:
            return b""  # it has ended, or belongs to somebody else


@hookimpl
def fleet_probes(config: Config) -> Iterable[Probe]:
    yield Slurm(os.environ, str(config.table("slurm").get("proc", "/proc")))
