"""`fleet mcp`: the queue as tools of the agent session that started this, over its standard streams (Model Context Protocol)."""

from __future__ import annotations

import sys

import click

from agent_fleet.commands import Shared, command, tell
from agent_fleet.errors import FleetError


@command(
    "mcp", help="Serve the queue to the agent session that starts this, as MCP tools on standard input and output."
)
@click.option("--lane", help="Give out only tasks that this lane (or this need) runs.")
@click.option("--provider", help="What kind of agent the session is: tasks that wish for another are left alone.")
def command_line(shared: Shared, lane: str | None, provider: str | None) -> None:
    try:
        import mcp  # noqa: F401 -- asked first, so that a fault of ours is not taken for its absence
    except ImportError:
        raise FleetError(
            "unusable",
            "`fleet mcp` needs the MCP library, which is not installed",
            hint="pipx install 'agent-fleet[mcp]', or pip install 'agent-fleet[mcp]' where fleet is installed",
        ) from None
    from agent_fleet.commands.toolset import Toolset

    if sys.stdin is not None and sys.stdin.isatty():
        tell("this speaks with an agent's program, not with a person: `claude mcp add fleet -- fleet mcp`", error=True)
    Toolset(shared.options, lane, provider).serve()
