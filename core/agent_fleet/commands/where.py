"""`fleet where`: which project and which files are used."""

from __future__ import annotations

import os

from agent_fleet import paths
from agent_fleet.commands import Shared, command


@command("where", help="Show which project and which files are used.")
def command_line(shared: Shared) -> None:
    settings = [path for path in _settings(shared) if os.path.exists(path)]
    found = {
        "root": shared.root,
        "queue": shared.queue_dir,
        "exists": paths.is_queue(shared.queue_dir),
        "state": paths.state_dir(shared.environ),
        "settings": settings,
    }
    shared.emit(
        found,
        lambda: (
            f"project: {found['root']}\nqueue:   {found['queue']}{'' if found['exists'] else ' (not there yet)'}\n"
            f"machine: {found['state']}\nsettings: {', '.join(settings) or 'none; the defaults hold'}"
        ),
    )


def _settings(shared: Shared) -> list[str]:
    """The files that settings are read from, the later over the earlier."""
    from agent_fleet.config import user_file

    return [path for path in (user_file(shared.environ), os.path.join(shared.queue_dir, "config.toml")) if path]
