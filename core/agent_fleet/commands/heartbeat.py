"""`fleet heartbeat`: the holder of a task shows that it lives."""

from __future__ import annotations

import click

from agent_fleet.commands import Shared, command
from agent_fleet.commands.reporting import lease_options, proof
from agent_fleet.queue import finish


@command("heartbeat", help="Show that the holder of task ID lives.")
@click.argument("task", metavar="ID")
@lease_options
def command_line(shared: Shared, task: str, generation: int | None, agent: str, force: bool) -> None:
    place = finish.heartbeat(shared.queue, task, proof(shared, task, generation=generation, agent=agent, force=force))
    shared.emit({"id": task, "generation": place.generation}, lambda: f"{task}: lease {place.generation} is alive")
