"""The contract of a capacity probe."""

from __future__ import annotations

import time
from typing import get_args

from agent_fleet.model import Quantity, Reading
from agent_fleet.protocols import Probe
from agent_fleet.testing.contract import asked, check_name, check_usable, is_number, is_said, must

QUANTITIES = frozenset(get_args(Quantity))
PERCENT = frozenset({"cpu_idle", "cpu_pressure", "memory_pressure_some", "memory_pressure_full"})

_CLOCK = 5.0  # seconds: a clock may be set between the reading and the look at it


def check_probe(probe: Probe) -> list[Reading]:
    """Check what a probe says of this machine, twice; returns the second answer.

    `read()` is called even where `usable()` gives a reason: configuration may name a probe outright.
    """
    name = check_name(probe)
    check_usable(name, probe.usable)
    first = _read(name, probe)
    second = _read(name, probe)
    before, after = ({reading.quantity for reading in each} for each in (first, second))
    must(before == after, f"{name} read {sorted(before ^ after)} only one time of two; unknown is a value, not a gap")
    return second


def _read(name: str, probe: Probe) -> list[Reading]:
    begun = time.time()
    readings = asked(f"{name}.read()", lambda: list(probe.read()))
    for reading in readings:
        must(isinstance(reading, Reading), f"{name}.read() gave {reading!r}, wanted a Reading")
        _check_reading(name, reading, begun)
    return readings


def _check_reading(name: str, reading: Reading, begun: float) -> None:
    what = f"{name}'s {reading.quantity}"
    must(reading.quantity in QUANTITIES, f"{name} reads {reading.quantity!r}, which is no known quantity")
    if reading.value is None:
        must(is_said(reading.note), f"{what} is unknown, and no note says why")
    else:
        must(is_number(reading.value), f"{what} is {reading.value!r}, wanted a finite number or None")
        must(reading.value >= 0, f"{what} is {reading.value}, below zero")
        must(reading.quantity not in PERCENT or reading.value <= 100, f"{what} is {reading.value}, above 100 percent")
    must(is_said(reading.source), f"{what} does not say where it was read")
    must(isinstance(reading.note, str), f"{what} has a note that is no text")
    must(is_number(reading.at), f"{what} does not say when it was read")
    must(begun - _CLOCK <= reading.at <= time.time() + _CLOCK, f"{what} was not read when it was asked for")
