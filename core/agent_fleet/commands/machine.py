"""`fleet machine`: what this machine can spare, every number with its source and age."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import click

from agent_fleet.capacity import size_text
from agent_fleet.commands import Shared, command, named
from agent_fleet.machine import Machine, measure
from agent_fleet.model import Ceiling, Reading

BYTES: Final = ("memory_", "swap_", "commit_", "disk_")
PERCENT: Final = frozenset({"cpu_idle", "cpu_pressure", "memory_pressure_some", "memory_pressure_full"})


@command("machine", help="Measure this machine: how many workers it carries, and what that follows from.")
@click.option("--probe", metavar="NAME", help="Ask only this probe.")
@click.option("--lane", metavar="NAME", help="The lane that the workers run in.")
@click.option("--provider", metavar="NAME", help="The provider of the workers.")
@click.option("--running", type=click.IntRange(min=0), default=0, help="Workers that run already.")
def command_line(shared: Shared, probe: str | None, lane: str | None, provider: str | None, running: int) -> None:
    """Every reading with its source and age; what cannot be told is shown as unknown and counted with caution."""
    named.refuse_unknown(shared, lanes=[lane or ""], providers=[provider or ""])
    seen = measure(
        shared.plugins,
        shared.config,
        provider=provider or shared.config.get("providers.default"),
        lane=lane or shared.config.get("lanes.agent"),
        running=running,
        probes=(probe,) if probe else (),
    )
    now = time.time()
    shared.emit(payload(seen, now), lambda: human(seen, now))


def payload(seen: Machine, now: float) -> dict[str, Any]:
    """The measurement for programs; sizes in bytes, ages in seconds, an unknown value is null."""
    capacity = seen.capacity
    return {
        "workers": capacity.workers,
        "binding": _ceiling(capacity.binding, now),
        "wait": capacity.wait,
        "degraded": capacity.degraded,
        "notes": list(capacity.notes),
        "cost": {**asdict(seen.cost), "age": _age(seen.cost.at, now)},
        "ceilings": [_ceiling(each, now) for each in capacity.ceilings],
        "readings": [
            {**asdict(each), "age": _age(each.at, now), "counted": seen.folded[each.quantity].source == each.source}
            for each in seen.readings
        ],
        "probes": list(seen.probes),
        "skipped": dict(seen.skipped),
        "warnings": list(seen.warnings),
    }


def human(seen: Machine, now: float) -> str:
    """The measurement for people: the answer first, then what it follows from."""
    capacity, cost = seen.capacity, seen.cost
    words = "worker" if capacity.workers == 1 else "workers"
    lines = [f"{capacity.workers} {words} in all, bound by {capacity.binding.name}: {capacity.binding.why}"]
    lines += [line for line in (capacity.wait, capacity.degraded, *capacity.notes) if line]
    lines += [f"warning: {warning}" for warning in seen.warnings]
    basis = (
        f"{cost.basis}, {cost.samples} samples, the last {_age_text(cost.at, now)} ago" if cost.samples else cost.basis
    )
    lines += ["", f"cost of a {cost.provider} worker in lane {cost.lane}: "]
    lines[-1] += f"{size_text(cost.memory)}, {cost.cores:.3g} {'core' if cost.cores == 1 else 'cores'} ({basis})"
    lines += ["", "ceilings", *_table(_ceiling_row(each, now) for each in capacity.ceilings)]
    lines += ["", "readings", *_table(_reading_row(each, now) for each in seen.readings)]
    if seen.skipped:
        lines += ["", "probes left out", *_table(sorted(seen.skipped.items()))]
    return "\n".join(lines)


def value_text(reading: Reading) -> str:
    """A reading's value in units for people; `unknown` where it is unknown."""
    if reading.value is None:
        return "unknown"
    if reading.quantity in PERCENT:
        return f"{reading.value:.1f} %"
    if reading.quantity.startswith(BYTES):
        return size_text(reading.value)
    return f"{reading.value:,.0f}" if reading.value == int(reading.value) else f"{reading.value:,.2f}"


def _ceiling(ceiling: Ceiling, now: float) -> dict[str, Any]:
    return {**asdict(ceiling), "age": _age(ceiling.at, now)}


def _ceiling_row(ceiling: Ceiling, now: float) -> tuple[str, ...]:
    workers = "unknown" if ceiling.workers is None else f"{ceiling.workers:,}"
    return ceiling.name, workers, ceiling.source, _age_text(ceiling.at, now), ceiling.why


def _reading_row(reading: Reading, now: float) -> tuple[str, ...]:
    return reading.quantity, value_text(reading), reading.source, _age_text(reading.at, now), reading.note


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else round(max(0.0, now - at), 3)


def _age_text(at: float | None, now: float) -> str:
    age = _age(at, now)
    if age is None:
        return "–"
    for unit, seconds in (("d", 86400), ("h", 3600), ("min", 60)):
        if age >= seconds:
            return f"{age / seconds:.0f} {unit}"
    return f"{age:.1f} s"


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    listed = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*listed, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed
    ]
