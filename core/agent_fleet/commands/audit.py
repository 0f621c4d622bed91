"""`fleet audit`: what was changed about accounts, and when."""

from __future__ import annotations

from typing import Any

import click

from agent_fleet.accounts import audit
from agent_fleet.commands import Shared, command
from agent_fleet.commands.desk import Desk


@command("audit", help="Show what was changed about accounts, oldest first. Tasks appear by digest alone.")
@click.option("--limit", type=click.IntRange(1, 10000), default=100, show_default=True, help="The newest so many.")
def command_line(shared: Shared, limit: int) -> None:
    found = audit.newest(Desk(shared).vault, limit)
    shared.emit({"schema": 1, "events": found}, lambda: "\n".join(map(_line, found)) or "nothing was changed yet")


def _line(event: dict[str, Any]) -> str:
    at = str(event.get("at", "?"))[:19].replace("T", " ")
    more = {key: value for key, value in event.items() if key not in ("schema", "at", "event", "task_key")}
    told = " ".join(f"{key}={value}" for key, value in more.items())
    task = f" task {str(event['task_key'])[:12]}" if "task_key" in event else ""
    return f"{at} UTC  {event['event']}{task} {told}".rstrip()
