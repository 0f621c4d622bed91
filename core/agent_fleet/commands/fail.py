"""`fleet fail`: the holder of a task reports that its attempt failed."""

from __future__ import annotations

from agent_fleet.commands import Shared
from agent_fleet.commands.reporting import LEASE, proof
from agent_fleet.commands.spec import Option, Spec
from agent_fleet.errors import FleetError
from agent_fleet.queue import finish, records
from agent_fleet.text import line


def fail(shared: Shared, task: str, reason: str, final: bool, generation: int | None, agent: str, force: bool) -> None:
    text = shared.text(reason, "the reason").strip()
    if not text:
        raise FleetError("bad_input", "say what went wrong", hint="--reason 'the build breaks on …'")
    queue = shared.queue
    mine = proof(shared, task, generation=generation, agent=agent, force=force)
    finish.holding(queue, task, mine)
    attempt = records.charged(queue, task) + 1
    allowed = shared.config.get("queue.max_attempts")
    state = "failed" if final or attempt >= allowed else "inbox"
    finish.finish(queue, task, mine, state, {"outcome": "failed", "reason": text, "charged": True, "by": "agent"})
    again = "is back in the inbox" if state == "inbox" else "is failed"
    shared.emit(
        {"id": task, "state": state, "attempt": attempt, "max_attempts": allowed},
        lambda: f"{task} {again}: attempt {attempt} of {allowed} failed: {line(text)}",
    )


command_line = Spec(
    "fail",
    "Report that the attempt at task ID failed. It is tried again until its attempts are used up.",
    "task",
    "ID",
    (
        Option("--reason", "What went wrong; `-` reads standard input.", required=True),
        Option("--final", "Do not try again.", "flag", default=False),
        *LEASE,
    ),
    fail,
)
