"""`fleet hook`: what a provider's session calls when it begins and when a turn has ended.

Whatever happens, it says nothing on stdout and ends with 0: a session takes a hook's words for its own, and some statuses for
an order to go on.
"""

from __future__ import annotations

import os
import select
import sys
import time

import click

from agent_fleet.accounts import badge
from agent_fleet.accounts.hearing import hear
from agent_fleet.commands import Shared, command, tell
from agent_fleet.commands.desk import Desk
from agent_fleet.errors import FleetError
from agent_fleet.text import printable

_MOST = (4 << 20) + 1
_PATIENCE = 5.0  # seconds for what stands on standard input
_BRIEF = 0.2  # seconds, where the arguments say it all


@command(
    "hook",
    help="Take in what a provider's session says of itself. Called by the hooks in an account's home.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="session-start|turn-end [ARGUMENTS]...")
def command_line(shared: Shared, words: tuple[str, ...]) -> int:
    event, arguments = (words[0], words[1:]) if words else ("", ())
    payload = _standard_input(_BRIEF if any(each[:1] == "{" for each in arguments) else _PATIENCE)
    worn = badge.worn(shared.environ)
    if worn is None:
        return 0
    try:
        desk = Desk(shared)
        hear(desk.router, desk.port, worn, event, arguments, payload)
    except (FleetError, OSError) as error:
        message = error.message if isinstance(error, FleetError) else str(error)
        tell(printable(f"fleet hook {event}: {message}"), error=True)
    return 0


def _standard_input(patience: float) -> bytes:
    """All that is there within `patience` seconds, none of a terminal. It is read whole, so that its writer is not cut off."""
    if sys.stdin is None or os.isatty(0):
        return b""
    until = time.monotonic() + patience
    found = b""
    try:
        while len(found) < _MOST and select.select([0], [], [], max(0.0, until - time.monotonic()))[0]:
            part = os.read(0, 1 << 16)
            if not part:
                break
            found += part
    except OSError:
        pass
    return found
