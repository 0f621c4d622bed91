"""What lanes leave in a project while a run needs it, taken away at its end."""

from __future__ import annotations

from collections.abc import Iterable

from agent_fleet.errors import FleetError
from agent_fleet.model import Finding
from agent_fleet.plugins import LANES, Plugins
from agent_fleet.protocols import Cleaner, Lane


def take_away(plugins: Plugins, lanes: Iterable[str], root: str) -> list[str]:
    """Ask the lanes that were used to clean up in the project; returns what they could not do, for the person."""
    found: list[str] = []
    for name in sorted(lanes):
        try:
            done = plugins.ask(plugins.offer(LANES, name), lambda lane: _clean(lane, root))
        except FleetError as error:
            found.append(f"the lane {name} could not clean up: {error.message}")
            continue
        found += [f"{each.text}; {each.hint}" if each.hint else each.text for each in done if each.level != "ok"]
    return found


def _clean(lane: Lane, root: str) -> list[Finding]:
    return list(lane.clean(root)) if isinstance(lane, Cleaner) else []
