"""`fleet session`: which conversation a task has with which account."""

from __future__ import annotations

import click

from agent_fleet.accounts import audit, sessions
from agent_fleet.accounts.registrar import STATE_LOCK
from agent_fleet.accounts.sessions import Sessions
from agent_fleet.accounts.stored import check_task
from agent_fleet.commands import Shared, command, group
from agent_fleet.commands.desk import Desk

command_line = group(
    "session",
    help="Look at the conversations of tasks.",
    members={
        "status": ("session", "status", "Show the conversation of a task."),
        "remove": ("session", "remove", "Forget the conversation of a task."),
    },
)


@command("status", help="Show the conversation of a task, as its provider's start hook recorded it.")
@click.option("--task", required=True)
def status(shared: Shared, task: str) -> None:
    found = Sessions(Desk(shared).vault).must(check_task(task))
    shared.emit(
        sessions.record(found),
        lambda: (
            f"{task}: session {found.session_id} on {found.profile}, in {found.workspace}, {_begun(found.sequence)}"
        ),
    )


def _begun(times: int) -> str:
    return "begun once" if times == 1 else f"begun or gone on with {times} times"


@command("remove", help="Forget the conversation of a task: it then begins anew. The provider's own files stay.")
@click.option("--task", required=True)
def remove(shared: Shared, task: str) -> None:
    desk = Desk(shared)
    with desk.vault.lock(STATE_LOCK, "a session's removal"):
        found = Sessions(desk.vault).remove(check_task(task))
        profile, provider = (found.profile, found.provider) if found else (None, None)
        audit.note(desk.vault, "session-removed", task=task, profile=profile, provider=provider)
    shared.emit(
        {"task": task, "profile": profile, "provider": provider, "removed": True},
        lambda: f"the conversation of {task} is forgotten",
    )
