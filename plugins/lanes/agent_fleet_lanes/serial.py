"""Workers that run one at a time, for a person who follows each in the session that started it.

The process is detached here too, so that it outlives the session; it is the limit and the output that differ.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent_fleet.api import Lane, hookimpl
from agent_fleet_lanes._detached import Detached


@hookimpl
def fleet_lanes() -> Iterable[Lane]:
    yield Detached("serial", limit=1, foreground=True)
