"""`fleet where`: which project and which files are used."""

from __future__ import annotations

from agent_fleet import paths
from agent_fleet.commands import Shared, command


@command("where", help="Show which project and which files are used.")
def command_line(shared: Shared) -> None:
    found = {
        "root": shared.root,
        "queue": shared.queue_dir,
        "exists": paths.is_queue(shared.queue_dir),
        "state": paths.state_dir(shared.environ),
    }
    shared.emit(
        found,
        lambda: (
            f"project: {found['root']}\nqueue:   {found['queue']}{'' if found['exists'] else ' (not there yet)'}\n"
            f"machine: {found['state']}"
        ),
    )
