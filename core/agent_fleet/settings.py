"""Changing one value in a TOML file that people write too: every other byte stays."""

from __future__ import annotations

import tomllib

from agent_fleet.errors import FleetError
from agent_fleet.queue.store import read_bytes, write_whole


def change(path: str, key: tuple[str, str], value: int) -> None:
    """Set `[table] name = value`. Raises FleetError (`bad_config`) if the file is not TOML."""
    table, name = key
    try:
        text = read_bytes(path).decode()
        tomllib.loads(text)
    except FileNotFoundError:
        text = ""
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FleetError("bad_config", f"{path} is not TOML: {error}", hint="mend the file first") from None
    write_whole(path, with_value(text, table, name, str(value)).encode())


def with_value(text: str, table: str, name: str, value: str) -> str:
    """The text with one value set in `[table]`; the table is appended if it is not there."""
    lines = text.splitlines(keepends=True)
    inside = False
    for position, line in enumerate(lines):
        bare = line.strip()
        if bare.startswith("["):
            if inside:
                break
            inside = bare.split("#")[0].strip() == f"[{table}]"
        elif inside and bare.split("=")[0].strip() == name:
            lines[position] = f"{name} = {value}\n"
            return "".join(lines)
    for position, line in enumerate(lines):
        if line.split("#")[0].strip() == f"[{table}]":
            lines.insert(position + 1, f"{name} = {value}\n")
            return "".join(lines)
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}[{table}]\n{name} = {value}\n"
