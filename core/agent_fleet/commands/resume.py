"""`fleet resume`: this process becomes the provider's and goes on with a task's conversation, on its own account."""

from __future__ import annotations

from typing import Any

import click

from agent_fleet.accounts.departure import Order
from agent_fleet.commands import Shared, command
from agent_fleet.commands.exec import departure, launching


@command("resume", help="Go on with a task's conversation, on the account that it began with. ARGV has no prompt.")
@launching
@click.option("--session", metavar="ID", help="The conversation; it may only confirm the one on record.")
def command_line(shared: Shared, **asked: Any) -> None:
    departure(shared).resume(Order(**asked))
