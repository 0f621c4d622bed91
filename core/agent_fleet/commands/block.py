"""`fleet block`: the holder of a task parks it for a person."""

from __future__ import annotations

import click

from agent_fleet.commands import Shared, command, read_text
from agent_fleet.commands.reporting import lease_options, proof
from agent_fleet.errors import FleetError
from agent_fleet.queue import finish
from agent_fleet.text import line


@command("block", help="Park task ID until a person unblocks it. No attempt is charged.")
@click.argument("task", metavar="ID")
@click.option(
    "--reason",
    required=True,
    help="What a person must do, such as `login required: example.com`; `-` reads standard input.",
)
@lease_options
def command_line(shared: Shared, task: str, reason: str, generation: int | None, agent: str, force: bool) -> None:
    text = read_text(reason, "the reason").strip()
    if not text:
        raise FleetError("bad_input", "say what a person must do", hint="--reason 'needs answer: which account?'")
    mine = proof(shared, task, generation=generation, agent=agent, force=force)
    finish.finish(
        shared.queue, task, mine, "blocked", {"outcome": "blocked", "reason": text, "charged": False, "by": "agent"}
    )
    shared.emit({"id": task, "state": "blocked", "reason": text}, lambda: f"{task} is blocked: {line(text)}")
