"""Measures this machine: asks the chosen probes, folds what they say, and derives how many workers it carries.

`fleet machine`, the plan and the run all use this one path, so they can never disagree about a number.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent_fleet.capacity import Capacity, CapacitySettings, ceilings, fold
from agent_fleet.config import Config
from agent_fleet.cost import CostBook
from agent_fleet.errors import FleetError
from agent_fleet.model import Cost, Quantity, Reading
from agent_fleet.paths import state_dir
from agent_fleet.plugins import CAPACITY, Offer, Plugins
from agent_fleet.protocols import Probe

COSTS: Final = "costs.json"

# The lanes whose workers each take a terminal of their own.
PTY_LANES: Final = frozenset({"terminal"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One measurement: every reading, the tightest of each, the cost of a worker and what follows from them.

    `probes` were asked; `skipped` could not be used here, each with its reason. `warnings` are for people.
    """

    readings: tuple[Reading, ...]
    folded: Mapping[Quantity, Reading]
    cost: Cost
    capacity: Capacity
    probes: tuple[str, ...]
    skipped: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def measure(
    plugins: Plugins,
    config: Config,
    *,
    provider: str,
    lane: str,
    running: int,
    owed_memory: float = 0.0,
    probes: tuple[str, ...] = (),
    book: CostBook | None = None,
) -> Machine:
    """Measure now, for workers of this provider in this lane; `running` of them, or of any others, are there already.

    `probes` overrides the configured choice. A probe that raises costs only its own readings. Raises `unknown_plugin`
    or `unusable` for a probe that was named and is not to be had here.
    """
    book = book or cost_book(os.environ)
    asked, skipped, warnings = _chosen(plugins, probes or config.get("capacity.probes"))
    readings: list[Reading] = []
    for offer in asked:
        try:
            readings += plugins.ask(offer, _read)
        except FleetError as error:
            warnings.append(f"the probe {offer.name} told nothing: {error.message}")
    folded = fold(readings)
    cost = book.cost(
        provider,
        lane,
        default_memory=float(config.get("capacity.worker_memory")),
        default_cores=float(config.get("capacity.worker_cores")),
    )
    capacity = ceilings(
        folded, cost, settings(config), running=running, owed_memory=owed_memory, needs_pty=lane in PTY_LANES
    )
    return Machine(
        readings=tuple(readings),
        folded=folded,
        cost=cost,
        capacity=capacity,
        probes=tuple(offer.name for offer in asked),
        skipped=skipped,
        warnings=(*warnings, *_hidden(readings, folded), *book.warnings),
    )


def settings(config: Config) -> CapacitySettings:
    """The capacity settings of a configuration."""
    return CapacitySettings(
        max_load_per_core=float(config.get("capacity.max_load_per_core")),
        reserve_cores=float(config.get("capacity.reserve_cores")),
        reserve_memory=float(config.get("capacity.reserve_memory")),
        unknown_workers=int(config.get("capacity.unknown_workers")),
        pressure_full=float(config.get("capacity.pressure_full")),
    )


def cost_book(environ: Mapping[str, str]) -> CostBook:
    """What this machine remembers of the cost of workers."""
    return CostBook(os.path.join(state_dir(environ), COSTS))


def _hidden(readings: list[Reading], folded: Mapping[Quantity, Reading]) -> list[str]:
    """What one probe should have known and did not, where another one's answer stands in for it."""
    return [
        f"{each.source} could not tell {each.quantity} ({each.note}); counted is {folded[each.quantity].source}"
        for each in readings
        if each.value is None and folded[each.quantity].value is not None
    ]


def _read(probe: Probe) -> list[Reading]:
    """All readings of a probe; anything else among them is a fault of the probe and raises TypeError."""
    readings = list(probe.read())
    for reading in readings:
        if not isinstance(reading, Reading):
            raise TypeError(f"it gave a {type(reading).__name__} for a reading")
        if reading.value is not None and not isinstance(reading.value, (int, float)):
            raise TypeError(f"{reading.quantity} is a {type(reading.value).__name__}, not a number")
    return readings


def _usable(probe: Probe) -> str | None:
    return probe.usable()


def _chosen(plugins: Plugins, wanted: str | tuple[str, ...]) -> tuple[list[Offer[Probe]], dict[str, str], list[str]]:
    """The probes to ask; those that cannot be used here, with the reason; and what went wrong while choosing."""
    named = not isinstance(wanted, str)
    offers = [plugins.offer(CAPACITY, name) for name in dict.fromkeys(wanted)] if named else plugins.all(CAPACITY)
    chosen: list[Offer[Probe]] = []
    skipped: dict[str, str] = {}
    warnings: list[str] = []
    for offer in offers:
        try:
            reason = plugins.ask(offer, _usable)
        except FleetError as error:
            warnings.append(f"the probe {offer.name} could not be asked: {error.message}")
            continue
        if reason is None:
            chosen.append(offer)
        elif named:
            raise FleetError(
                "unusable",
                f"the probe {offer.name} cannot be used here: {reason}",
                hint='name another one, or set capacity.probes = "auto"',
            )
        else:
            skipped[offer.name] = reason
    return chosen, skipped, warnings
