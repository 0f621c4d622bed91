"""`fleet exec`: this process becomes the provider's, under an account that is leased to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent_fleet.accounts.departure import Departure, Order
from agent_fleet.commands import Shared, command
from agent_fleet.commands.desk import Desk


def launching(function: Callable[..., Any]) -> Callable[..., Any]:
    """What both ways to launch take. Nothing is required here: what is missing is refused in one order, as one error."""
    for option in (
        click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="-- ARGV..."),
        click.option("--profile", metavar="ID", help="Only this account."),
        click.option("--pool", metavar="NAME", help="Only accounts of this pool."),
        click.option("--turn-end", metavar="FILE", help="Touched when a turn has ended; its name ends in .turn-ended."),
        click.option("--workspace", metavar="DIR", help="The top of the task's git work tree, in full."),
        click.option("--task", help="The caller's own name for the task."),
    ):
        function = option(function)
    return function


@command(
    "exec", help="Lease an account and become its provider's program, with ARGV as that provider's grammar has it."
)
@launching
@click.option("--provider", metavar="NAME", help="Only this provider's accounts.")
def command_line(shared: Shared, **asked: Any) -> None:
    departure(shared).start(Order(**asked))


def departure(shared: Shared) -> Departure:
    desk = Desk(shared)
    return Departure(desk.router, desk.port, desk.registry)
