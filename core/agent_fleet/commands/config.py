"""`fleet config`: every setting, its value, where it comes from and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agent_fleet import text
from agent_fleet.commands import Shared, command
from agent_fleet.config import KEYS, Key

if TYPE_CHECKING:
    from agent_fleet.config import Config


@command("config", help="Show the settings that are not at their default, with where each comes from.")
@click.option("--all", "everything", is_flag=True, help="Show every setting and what it means.")
def command_line(shared: Shared, everything: bool) -> None:
    config = shared.config
    payload = {
        "settings": [_setting(config, key) for key in KEYS],
        "hosts": dict(config.hosts),
        "agents": sorted(config.agents),
        "warnings": list(config.warnings),
    }
    shared.emit(payload, lambda: _human(config, everything))


def _setting(config: Config, key: Key) -> dict[str, Any]:
    return {
        "key": key.name,
        "value": config.get(key.name),
        "default": key.default,
        "source": config.source(key.name),
        "variable": key.variable,
        "meaning": key.meaning,
    }


def _human(config: Config, everything: bool) -> str:
    chosen = [key for key in KEYS if everything or config.source(key.name) != "default"]
    lines = []
    for key in chosen:
        lines.append(f"{key.name} = {shown(key, config.get(key.name))}    {text.printable(config.source(key.name))}")
        if everything:
            lines.append(f"    {key.meaning}")
    lines += [f'hosts."{text.printable(host)}".max = {limit}' for host, limit in sorted(config.hosts.items())]
    if not lines:
        return "every setting is at its default; `fleet config --all` shows them"
    return "\n".join(lines)


def shown(key: Key, value: Any) -> str:
    """A value as it could be written in a configuration file."""
    if key.kind == "bytes":
        return f'"{text.size(value).replace(".0 ", " ")}"' if value else "0"
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{text.printable(each)}"' for each in value) + "]"
    return f'"{text.printable(value)}"' if isinstance(value, str) else str(value)
