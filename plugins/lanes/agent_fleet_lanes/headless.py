"""Workers in the background, as many as the machine takes."""

from __future__ import annotations

from collections.abc import Iterable

from agent_fleet.api import Lane, hookimpl
from agent_fleet_lanes._detached import Detached


@hookimpl
def fleet_lanes() -> Iterable[Lane]:
    yield Detached("headless")
