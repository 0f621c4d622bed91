"""`fleet heartbeat`: the holder of a task shows that it lives."""

from __future__ import annotations

from agent_fleet.commands import Shared
from agent_fleet.commands.reporting import LEASE, proof
from agent_fleet.commands.spec import Spec
from agent_fleet.queue import finish


def heartbeat(shared: Shared, task: str, generation: int | None, agent: str, force: bool) -> None:
    place = finish.heartbeat(shared.queue, task, proof(shared, task, generation=generation, agent=agent, force=force))
    shared.emit({"id": task, "generation": place.generation}, lambda: f"{task}: lease {place.generation} is alive")


command_line = Spec("heartbeat", "Show that the holder of task ID lives.", "task", "ID", LEASE, heartbeat)
