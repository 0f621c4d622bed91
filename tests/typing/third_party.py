"""One module that serves several families, written against `agent_fleet.api` alone.

It subclasses nothing, takes `config` in one hook and leaves it out in another, and returns a list in one and yields in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_fleet import api
from agent_fleet.api import Board, Ceiling, Config, FleetError, Reading, Task, hookimpl


class Licences:
    """A probe and a policy at once: licences are counted like process ids, and some are kept for people."""

    name = "licences"

    def __init__(self, table: Mapping[str, object]) -> None:
        kept = table.get("kept", 1)
        if not isinstance(kept, int):
            raise FleetError("bad_config", "plugin.licences.kept is no whole number", hint="write kept = 1")
        self.kept: int = kept

    def usable(self) -> str | None:
        return None

    def read(self) -> Iterable[Reading]:
        return [Reading(quantity="pids_free", value=None, source=self.name, at=0.0, note="the server does not answer")]

    def ceiling(self, board: Board) -> Ceiling | None:
        workers = max(0, 3 - self.kept - len(board.active))
        return Ceiling(
            name=self.name, workers=workers, source=self.name, why=f"{self.kept} licences are kept", at=board.now
        )

    def hold(self, task: Task, board: Board) -> api.Hold | None:
        return api.Hold(source=self.name, why="no licence") if task.need == "browser" and board.active else None


@hookimpl
def fleet_probes(config: Config) -> Iterable[api.Probe]:
    return [Licences(config.table("licences"))]


@hookimpl
def fleet_policies() -> Iterable[api.Policy]:
    yield Licences({})
