"""What the commands of a task's holder share: how it proves the lease, and how it reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent_fleet.commands import Shared, own_identity
from agent_fleet.queue.finish import Proof, proof_from


def lease_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which a caller shows that the task is its own."""
    for option in (
        click.option("--force", is_flag=True, help="Report for somebody else's lease; this is recorded."),
        click.option("--agent", default="", help="The agent's name; $FLEET_AGENT if not given."),
        click.option("--generation", type=int, help="The lease that is held; $FLEET_GENERATION if not given."),
    ):
        function = option(function)
    return function


def proof(shared: Shared, task: str, *, generation: int | None, agent: str, force: bool) -> Proof:
    return proof_from(shared.environ, task, generation=generation, agent=agent, identity=own_identity(), force=force)
