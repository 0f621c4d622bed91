"""From readings and the cost of a worker to how many workers this machine can carry. Pure: nothing here measures.

Every ceiling is a number of workers in *total*, those that run now included. Memory is in bytes, CPU in cores, pressure
and idle share in percent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agent_fleet.model import Ceiling, Cost, Quantity, Reading

MiB: Final = 1 << 20
GiB: Final = 1 << 30

WORST_IS_LARGEST: Final[frozenset[Quantity]] = frozenset(
    {"load1", "cpu_pressure", "memory_pressure_some", "memory_pressure_full"}
)

# A load above the limit counts only if the CPUs are seen to be busy: tasks that wait for a disk raise it as well.
CPU_PRESSURE_CONFIRMS: Final = 10.0
CPU_IDLE_CONFIRMS: Final = 20.0

# Below this much available memory, or a twentieth of a small machine, the kernel is about to kill something.
MEMORY_FLOOR: Final = 256 * MiB
MEMORY_FLOOR_SHARE: Final = 0.05

LEAST_CORES: Final = 0.05
LEAST_MEMORY: Final = 1 * MiB


@dataclass(frozen=True, slots=True)
class Share:
    """How much of one secondary quantity a worker takes, and why that much."""

    name: str
    amount: float
    reason: str


SHARES: Final[Mapping[Quantity, Share]] = {
    "pids_free": Share("pids", 64, "threads of an agent, its tool servers and one parallel build"),
    "fds_free": Share("fds", 16, "log, prompt, pipes, process handle and terminal, held by whoever starts the worker"),
    "ptys_free": Share("ptys", 1, "the terminal that the worker is shown in"),
    "inotify_free": Share("inotify", 2, "the agent watches its settings, a development server watches the sources"),
    "disk_free": Share("disk", 512 * MiB, "log, scratch files and a working copy"),
}

ESSENTIAL: Final = ("cores", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySettings:
    """The person's wishes. A reserve of 0 means: derive it from the size of the machine."""

    max_load_per_core: float = 2.0
    reserve_cores: float = 0.0
    reserve_memory: float = 0.0
    unknown_workers: int = 4
    pressure_full: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many workers in total, and which ceiling says so.

    `wait` is not empty when the machine is under real pressure: then `workers` is 0 and nothing may start. `degraded`
    is not empty when fewer than one worker fits, or an essential quantity is unknown, and one is allowed all the same.
    `notes` tell what was read but not counted.
    """

    workers: int
    binding: Ceiling
    ceilings: tuple[Ceiling, ...]
    wait: str = ""
    degraded: str = ""
    notes: tuple[str, ...] = ()

    def ceiling(self) -> Ceiling:
        """All of it as the one ceiling that a plan compares with others."""
        why = self.wait or self.degraded or f"{self.binding.name}: {self.binding.why}"
        return Ceiling(name="machine", workers=self.workers, source=self.binding.source, why=why, at=self.binding.at)


# ------------------------------------------------------------------------------------------------- readings


def fold(readings: Iterable[Reading]) -> Mapping[Quantity, Reading]:
    """The tightest reading of each quantity: the largest of load and pressure, the smallest of all else.

    A reading that is unknown (None, or no finite number) gives way to any known one, and is kept only if there is none.
    """
    folded: dict[Quantity, Reading] = {}
    for raw in readings:
        reading = _sound(raw)
        known = folded.get(reading.quantity)
        if known is None or _tighter(reading, known):
            folded[reading.quantity] = reading
    return folded


def _sound(reading: Reading) -> Reading:
    if reading.value is None:
        return reading
    if not math.isfinite(reading.value):
        return replace(reading, value=None, note=f"{reading.source} reported {reading.value}, which is no amount")
    return replace(reading, value=0.0, note=reading.note or "below zero") if reading.value < 0 else reading


def _tighter(new: Reading, old: Reading) -> bool:
    if new.value is None:
        return False
    if old.value is None:
        return True
    return new.value > old.value if new.quantity in WORST_IS_LARGEST else new.value < old.value


def _value(folded: Mapping[Quantity, Reading], quantity: Quantity) -> float | None:
    reading = folded.get(quantity)
    return None if reading is None else reading.value


# ------------------------------------------------------------------------------------------------- reserves


def reserve_cores(cores: float, settings: CapacitySettings) -> float:
    """Cores left to the person: an eighth of them, one at least, unless set."""
    return settings.reserve_cores or max(1.0, cores / 8)


def reserve_memory(folded: Mapping[Quantity, Reading], settings: CapacitySettings) -> float:
    """Memory left to the person: a tenth of what there is (or of the own limit), 1 GiB at least, unless set."""
    return settings.reserve_memory or max(float(GiB), (_whole(folded) or 0.0) / 10)


def _whole(folded: Mapping[Quantity, Reading]) -> float | None:
    sizes = (_value(folded, "memory_total"), _value(folded, "memory_limit"))
    return min((size for size in sizes if size is not None), default=None)


# ------------------------------------------------------------------------------------------------- ceilings


def ceilings(
    folded: Mapping[Quantity, Reading],
    cost: Cost,
    settings: CapacitySettings,
    *,
    running: int,
    owed_memory: float = 0.0,
    needs_pty: bool = False,
) -> Capacity:
    """How many workers of this cost the machine carries, `running` of which it carries already.

    `owed_memory` is what young workers are still expected to take beyond what they hold now; it is spent in advance, so
    that starts in quick succession do not all count the same free memory.
    """
    limits = (
        *_cpu(folded, cost, settings, running),
        *_memory(folded, cost, settings, running, owed_memory),
        *_secondary(folded, running, needs_pty),
    )
    notes = _uncounted_load(folded, cost, settings)
    pressure = _pressure(folded, settings)
    if pressure is not None:
        return Capacity(
            workers=0, binding=pressure, ceilings=(pressure, *limits), wait=f"waiting: {pressure.why}", notes=notes
        )
    binding = min(limits, key=lambda limit: counted(limit, settings))
    workers = counted(binding, settings)
    return Capacity(
        workers=max(1, workers),
        binding=binding,
        ceilings=limits,
        degraded=_degraded(binding, workers),
        notes=notes,
    )


def counted(ceiling: Ceiling, settings: CapacitySettings) -> int:
    """The workers that a ceiling allows; an unknown one allows one (cores, memory) or a few (all else)."""
    if ceiling.workers is not None:
        return ceiling.workers
    return 1 if ceiling.name in ESSENTIAL else max(1, settings.unknown_workers)


def _degraded(binding: Ceiling, workers: int) -> str:
    if binding.workers is None and binding.name in ESSENTIAL:
        return f"one worker only, because {binding.name} is unknown: {binding.why}"
    if workers < 1:
        return f"one worker only, although none fits; {binding.name}: {binding.why}"
    return ""


def _limit(name: str, reading: Reading, workers: int | None, why: str) -> Ceiling:
    return Ceiling(
        name=name,
        workers=None if workers is None else max(0, workers),
        source=reading.source,
        why=why,
        at=reading.at,
    )


def _unread(name: str, reading: Reading | None) -> Ceiling:
    if reading is None:
        return Ceiling(name=name, workers=None, source="no probe", why="no probe reads it on this machine")
    return _limit(name, reading, None, reading.note or "the probe could not tell")


def _room(free: float, need: float) -> int:
    return math.floor(free / need)


def _cpu(folded: Mapping[Quantity, Reading], cost: Cost, settings: CapacitySettings, running: int) -> Iterator[Ceiling]:
    reading = folded.get("cores")
    if reading is None or reading.value is None:
        yield _unread("cores", reading)
        return
    cores, need = reading.value, max(cost.cores, LEAST_CORES)
    spare = reserve_cores(cores, settings)
    why = f"{cores:g} cores less {spare:g} kept free, at {need:.3g} a worker ({cost.basis})"
    yield _limit("cores", reading, _room(cores - spare, need), why)

    load = folded.get("load1")
    if load is not None and load.value is not None and _confirmation(folded):
        room = _room(cores * settings.max_load_per_core - load.value, need)
        why = (
            f"{load.value:.2f} of {cores * settings.max_load_per_core:g} allowed, {_confirmation(folded)}; "
            f"room for {max(0, room)} beside {running} running"
        )
        yield _limit("load", load, running + room, why)


def _confirmation(folded: Mapping[Quantity, Reading]) -> str:
    pressure, idle = _value(folded, "cpu_pressure"), _value(folded, "cpu_idle")
    if pressure is not None and pressure >= CPU_PRESSURE_CONFIRMS:
        return f"confirmed by CPU pressure {pressure:.0f} %"
    if idle is not None and idle <= CPU_IDLE_CONFIRMS:
        return f"confirmed by CPUs idle only {idle:.0f} % of the time"
    return ""


def _uncounted_load(folded: Mapping[Quantity, Reading], cost: Cost, settings: CapacitySettings) -> tuple[str, ...]:
    load, cores = _value(folded, "load1"), _value(folded, "cores")
    if load is None or cores is None or _confirmation(folded):
        return ()
    if cores * settings.max_load_per_core - load >= max(cost.cores, LEAST_CORES) * cores:
        return ()
    pressure, idle = _value(folded, "cpu_pressure"), _value(folded, "cpu_idle")
    seen = [f"CPU pressure is {pressure:.0f} %"] if pressure is not None else []
    seen += [f"CPUs are idle {idle:.0f} % of the time"] if idle is not None else []
    return (f"load {load:.2f} not counted: {' and '.join(seen) or 'nothing here can tell whether the CPUs are busy'}",)


def _memory(
    folded: Mapping[Quantity, Reading], cost: Cost, settings: CapacitySettings, running: int, owed: float
) -> Iterator[Ceiling]:
    need, spare = max(cost.memory, LEAST_MEMORY), reserve_memory(folded, settings)
    promised = f" and {size_text(owed)} promised to young workers" if owed else ""
    for name, reading in (("memory", folded.get("memory_available")), ("commit", folded.get("commit_free"))):
        if reading is None and name == "commit":
            continue
        if reading is None or reading.value is None:
            yield _unread(name, reading)
            continue
        room = _room(reading.value - spare - owed, need)
        why = (
            f"{size_text(reading.value)} available less {size_text(spare)} kept free{promised}, "
            f"at {size_text(need)} a worker ({cost.basis}); room for {max(0, room)} beside {running} running"
        )
        yield _limit(name, reading, running + room, why)


def _secondary(folded: Mapping[Quantity, Reading], running: int, needs_pty: bool) -> Iterator[Ceiling]:
    for quantity, share in SHARES.items():
        reading = folded.get(quantity)
        if reading is None or (quantity == "ptys_free" and not needs_pty):
            continue
        if reading.value is None:
            yield _unread(share.name, reading)
            continue
        show = size_text if quantity == "disk_free" else _count_text
        why = f"{show(reading.value)} free, {show(share.amount)} a worker: {share.reason}"
        yield _limit(share.name, reading, running + _room(reading.value, share.amount), why)


def _pressure(folded: Mapping[Quantity, Reading], settings: CapacitySettings) -> Ceiling | None:
    full = folded.get("memory_pressure_full")
    if full is not None and full.value is not None and full.value >= settings.pressure_full:
        why = (
            f"everything stood still for memory {full.value:.0f} % of the time; workers start again below "
            f"{settings.pressure_full:g} %"
        )
        return _limit("memory pressure", full, 0, why)
    available = folded.get("memory_available")
    floor = min(float(MEMORY_FLOOR), MEMORY_FLOOR_SHARE * (_whole(folded) or math.inf))
    if available is not None and available.value is not None and available.value < floor:
        why = f"only {size_text(available.value)} of memory is available; workers start again above {size_text(floor)}"
        return _limit("memory pressure", available, 0, why)
    return None


# ---------------------------------------------------------------------------------------------------- words


def _count_text(count: float) -> str:
    return f"{count:,.0f}"


def size_text(size: float) -> str:
    """A number of bytes for people, in binary units: `1.5 GiB`."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", GiB), ("MiB", MiB), ("KiB", 1 << 10)):
        if abs(size) >= scale:
            amount = f"{size / scale:.1f}"
            return f"{amount.removesuffix('.0')} {unit}"
    return f"{size:.0f} B"
