"""`fleet choose --dry-run`: which account a task would get."""

from __future__ import annotations

import click

from agent_fleet.accounts.selection import Request
from agent_fleet.commands import Shared, command
from agent_fleet.commands.desk import Desk
from agent_fleet.commands.lease import among, for_task, tell
from agent_fleet.errors import FleetError


@command("choose", help="Say which account `fleet lease choose` would lease to a task; nothing is leased.")
@for_task
@among
@click.option(
    "--dry-run", is_flag=True, help="Must be given: without it this would lease, which `fleet lease choose` does."
)
def command_line(
    shared: Shared,
    task: str,
    workspace: str,
    pool: str,
    provider: str | None,
    profile: str | None,
    model: str,
    dry_run: bool,
) -> None:
    if not dry_run:
        raise FleetError(
            "usage", "fleet choose only tells; it needs --dry-run", hint="`fleet lease choose` chooses and leases"
        )
    request = Request(task=task, pool=pool, provider=provider, profile=profile, workspace=workspace, model=model)
    tell(shared, Desk(shared).router.would_choose(request), dry_run=True)
