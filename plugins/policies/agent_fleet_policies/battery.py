"""Fewer workers while a laptop runs on battery.

Linux: `type`, `scope`, `status`, `capacity` and `online` in `/sys/class/power_supply/*` (Linux kernel,
Documentation/ABI/testing/sysfs-class-power).
macOS: the lines of `pmset -g batt`. A machine without a battery of its own has nothing to say.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from agent_fleet.api import Board, Ceiling, Config, Hold, Policy, Task, hookimpl

SUPPLIES = "/sys/class/power_supply"


class Power(NamedTuple):
    """What a machine's batteries say: None where they do not. `charge` is the mean of them all in percent."""

    discharging: bool | None
    charge: float | None


class Battery:
    """At most `workers` workers while discharging below `below` percent; `read` gives None without a battery."""

    name = "battery"

    def __init__(self, read: Callable[[], Power | None], *, workers: int, below: float) -> None:
        self._read = read
        self._workers = workers
        self._below = below

    def ceiling(self, board: Board) -> Ceiling | None:
        """The cap, an unknown one if the battery cannot be read, or None on mains or without a battery."""
        del board
        power = self._read()
        if power is None or power.discharging is False:
            return None
        if power.discharging is None:
            return self._ceiling(None, "whether this machine runs on battery cannot be read")
        if power.charge is None:
            if self._below >= 100:
                return self._ceiling(self._workers, "on battery")
            return self._ceiling(None, "on battery, and its charge cannot be read")
        if power.charge >= self._below:
            return None
        return self._ceiling(self._workers, f"on battery at {power.charge:.0f}%, below {self._below:g}%")

    def hold(self, task: Task, board: Board) -> Hold | None:
        """None: power makes no single task wait."""
        del task, board
        return None

    def _ceiling(self, workers: int | None, why: str) -> Ceiling:
        return Ceiling(name="battery", workers=workers, source=self.name, why=why, at=time.time())


def read_supplies(root: str = SUPPLIES) -> Power | None:
    """The state of the machine's own batteries, not of a mouse's; None if it has none or none can be listed."""
    try:
        supplies = [os.path.join(root, name) for name in sorted(os.listdir(root))]
    except OSError:
        return None  # a container that hides the directory is no laptop
    batteries = [each for each in supplies if _attribute(each, "type") == "Battery"]
    batteries = [each for each in batteries if _attribute(each, "scope") != "Device"]
    if not batteries:
        return None
    states = [_attribute(each, "status") for each in batteries]
    charges = [_percent(_attribute(each, "capacity")) for each in batteries]
    known = [charge for charge in charges if charge is not None]
    mains = [_attribute(each, "online") for each in supplies if _attribute(each, "type") in ("Mains", "USB")]
    return Power(_discharging(states, mains), sum(known) / len(known) if known and len(known) == len(charges) else None)


def read_pmset(text: str) -> Power | None:
    """The same from the output of `pmset -g batt`: a source line, then one line for each battery."""
    batteries = [line for line in text.splitlines() if "InternalBattery" in line]
    if not batteries:
        return None
    charges = [
        _percent(word.rstrip("%;")) for line in batteries for word in line.split() if word.rstrip(";").endswith("%")
    ]
    known = [charge for charge in charges if charge is not None]
    source = text.partition("\n")[0]
    discharging = True if "'Battery Power'" in source else False if "'AC Power'" in source else None
    return Power(discharging, sum(known) / len(known) if len(known) == len(batteries) else None)


def _pmset() -> Power | None:
    try:
        done = subprocess.run(["/usr/bin/pmset", "-g", "batt"], capture_output=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return Power(None, None)
    return read_pmset(done.stdout.decode(errors="replace"))


def _discharging(states: list[str | None], mains: list[str | None]) -> bool | None:
    """A battery's own word first; where it says nothing of use, whether a supply from outside is there."""
    if "Discharging" in states:
        return True
    if all(state in ("Charging", "Full", "Not charging") for state in states) or "1" in mains:
        return False
    return True if mains and all(online == "0" for online in mains) else None


def _attribute(supply: str, name: str) -> str | None:
    try:
        with open(os.path.join(supply, name), "rb") as file:
            return file.read(64).decode("ascii", "replace").strip()
    except OSError:
        return None


def _percent(text: str | None) -> float | None:
    return float(text) if text and text.isdecimal() and int(text) <= 100 else None


@hookimpl
def fleet_policies(config: Config) -> Iterable[Policy]:
    read = _pmset if sys.platform == "darwin" else read_supplies
    yield Battery(read, workers=config.get("policy.battery.workers"), below=config.get("policy.battery.below"))
