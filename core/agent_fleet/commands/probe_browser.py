"""`fleet probe-browser`: is there a browser that a task could use?"""

from __future__ import annotations

from typing import Any

import click

from agent_fleet import browser
from agent_fleet.browser import Tried
from agent_fleet.capacity import size_text
from agent_fleet.commands import Shared, command
from agent_fleet.commands.finite import Finite
from agent_fleet.errors import FleetError
from agent_fleet.text import duration, line


@command("probe-browser", help="Start a browser without a window on a page of fleet's own, and say what it took.")
@click.option("--timeout", type=Finite(min=1), default=30.0, metavar="S", help="Seconds that each browser gets.")
def command_line(shared: Shared, timeout: float) -> None:
    tried = []
    for found in browser.candidates(shared.environ):
        tried.append(browser.attempt(found, shared.environ, timeout))
        if not tried[-1].why:
            break
    if not tried:
        raise FleetError(
            "unhealthy",
            "no browser is on the path",
            hint="install Chromium, Chrome or Firefox, or name one in FLEET_BROWSER",
        )
    used = tried[-1]
    if used.why:
        raise FleetError(
            "unhealthy",
            f"{used.command[0]} cannot be used: {line(used.why, 200)}",
            hint="run it by hand, or name another in FLEET_BROWSER",
            details=tuple(f"{each.command[0]}: {line(each.why, 200)}" for each in tried),
        )
    shared.emit(_payload(tried), lambda: _text(used))


def _payload(tried: list[Tried]) -> dict[str, Any]:
    used = tried[-1]
    return {
        "browser": list(used.command),
        "version": used.version,
        "seconds": round(used.seconds, 3),
        "memory": used.memory,
        "basis": used.basis,
        "processes": used.processes,
        "unusable": [{"browser": list(each.command), "why": each.why} for each in tried[:-1]],
    }


def _text(used: Tried) -> str:
    memory = "unknown" if used.memory is None else f"{size_text(used.memory)} ({used.basis.upper()})"
    return (
        f"{used.command[0]}: {used.version}\n"
        f"  showed a page in {duration(used.seconds)}; memory {memory} in {used.processes} processes at its most"
    )
