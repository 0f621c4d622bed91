"""`fleet block`: the holder of a task parks it for a person."""

from __future__ import annotations

from agent_fleet.commands import Shared
from agent_fleet.commands.reporting import LEASE, proof
from agent_fleet.commands.spec import Option, Spec
from agent_fleet.errors import FleetError
from agent_fleet.queue import finish
from agent_fleet.text import line


def block(shared: Shared, task: str, reason: str, generation: int | None, agent: str, force: bool) -> None:
    text = shared.text(reason, "the reason").strip()
    if not text:
        raise FleetError("bad_input", "say what a person must do", hint="--reason 'needs answer: which account?'")
    mine = proof(shared, task, generation=generation, agent=agent, force=force)
    wall = finish.park(shared.queue, task, mine, text)
    shared.emit({"id": task, "state": "blocked", "reason": wall}, lambda: f"{task} is blocked: {line(wall)}")


command_line = Spec(
    "block",
    "Park task ID until a person unblocks it. No attempt is charged.",
    "task",
    "ID",
    (
        Option(
            "--reason",
            "What a person must do, such as `login required: example.com`; `-` reads standard input.",
            required=True,
        ),
        *LEASE,
    ),
    block,
)
