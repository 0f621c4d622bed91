"""`fleet version`."""

from __future__ import annotations

import platform
import sys

from agent_fleet import __version__
from agent_fleet.commands import Shared, command
from agent_fleet.commands.contract import VERSION


@command("version", help="Show the version of fleet, of Python and of the system.")
def command_line(shared: Shared) -> None:
    python = platform.python_version()
    payload = {
        "version": __version__,
        "cli_version": __version__,
        "contract_version": VERSION,
        "python": python,
        "platform": sys.platform,
        "executable": sys.executable,
    }
    shared.emit(payload, lambda: f"fleet {__version__} (Python {python}, {sys.platform})")
