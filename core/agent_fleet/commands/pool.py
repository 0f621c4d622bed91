"""`fleet pool status`: which accounts of a pool could take work now, and why the others cannot."""

from __future__ import annotations

from typing import Any

import click

from agent_fleet.accounts import standing
from agent_fleet.accounts.registry import check_label
from agent_fleet.accounts.selection import Request
from agent_fleet.commands import Shared, command, group
from agent_fleet.commands.desk import Desk, percent

command_line = group(
    "pool",
    help="Look at pools of accounts.",
    members={"status": ("pool", "status", "Show which accounts of a pool could take work, and why others cannot.")},
)


@command("status", help="Show which accounts of a pool could take work now, and why the others cannot.")
@click.option("--pool", required=True, metavar="NAME")
@click.option("--provider", metavar="NAME", help="Only this provider's accounts.")
def status(shared: Shared, pool: str, provider: str | None) -> None:
    desk = Desk(shared)
    check_label(pool, "pool id")
    situation = desk.router.looked(Request(task="", pool=pool, provider=provider, workspace=""))
    found = standing.pool(pool, provider, situation)
    shared.emit(found, lambda: _text(found))


def _text(found: dict[str, Any]) -> str:
    lines = []
    for provider in found["providers"]:
        lines.append(f"{provider['provider']}: {sum(row['eligible'] for row in provider['profiles'])} can take work")
        for row in provider["profiles"]:
            mark = "can be used" if row["eligible"] else row["routeability_reason"]
            taken = f"{row['active_leases']} of {row['max_concurrent']} leases"
            lines.append(
                f"  {row['profile']}: {mark}: {row['words']} ({taken}, {percent(row['headroom_percent'])} left)"
            )
    return "\n".join(lines) or f"no profile is in pool {found['pool']}"
