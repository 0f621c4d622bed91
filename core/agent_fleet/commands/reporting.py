"""What the commands of a task's holder share: how it proves the lease."""

from __future__ import annotations

from typing import Final

from agent_fleet.commands import Shared
from agent_fleet.commands.spec import Option
from agent_fleet.queue.finish import Proof, proof_from

LEASE: Final = (
    Option("--generation", "The lease that is held; $FLEET_GENERATION if not given.", "int"),
    Option("--agent", "The agent's name; $FLEET_AGENT if not given.", default=""),
    Option("--force", "Report for somebody else's lease; this is recorded.", "flag", default=False),
)


def proof(shared: Shared, task: str, *, generation: int | None, agent: str, force: bool) -> Proof:
    """The proof that a command's options and its environment give."""
    return proof_from(shared.environ, task, generation=generation, agent=agent, identity=shared.identity, force=force)
