"""MCP servers of one attempt as Codex takes them: one `-c` option over the table of its configuration.

Codex adds such a table to what is configured, so whatever is there already is switched off by name.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from agent_fleet.api import Job

VARIABLE = re.compile(r"\$\{(\w+)\}")
MOST = 1 << 20  # bytes of a configuration that are read


def servers(job: Job) -> list[str]:
    """The words of the option; none where nothing is said of servers. A variable is named, its value is in no argument."""
    if job.servers is None:
        return []
    there = {name for file in _files(job) for name in _configured(file)}
    table: dict[str, Any] = {name: {"enabled": False} for name in sorted(there)}
    for name, told in job.servers.items():
        # a table of the same name would be mixed with the one that is there
        table[f"{name}-fleet" if name in there else name] = _server(told)
    return ["-c", f"mcp_servers={_table(table)}"] if table else []


def _files(job: Job) -> Iterator[str]:
    """Where Codex may have servers from: its home, and the project's directories from here upwards."""
    home = job.env.get("CODEX_HOME") or (os.path.join(job.env["HOME"], ".codex") if job.env.get("HOME") else "")
    if home:
        yield os.path.join(home, "config.toml")
    place = os.path.abspath(job.cwd)
    while True:
        yield os.path.join(place, ".codex", "config.toml")
        above = os.path.dirname(place)
        if above == place:
            return
        place = above


def _configured(file: str) -> list[str]:
    try:
        with open(file, "rb") as found:
            told = tomllib.loads(found.read(MOST).decode()).get("mcp_servers")
    except (OSError, ValueError, RecursionError):
        return []  # Codex itself says what is wrong with it
    return list(told) if isinstance(told, dict) else []


def _server(told: Mapping[str, Any]) -> dict[str, Any]:
    if "url" in told:
        headers = {name: str(value) for name, value in (told.get("headers") or {}).items()}
        found: dict[str, Any] = {"url": told["url"]}
        named = {name: match[1] for name, value in headers.items() if (match := VARIABLE.fullmatch(value))}
        plain = {name: value for name, value in headers.items() if name not in named}
        found |= {"env_http_headers": named} if named else {}
        return found | ({"http_headers": plain} if plain else {})
    env = {name: str(value) for name, value in (told.get("env") or {}).items()}
    passed = [name for name, value in env.items() if VARIABLE.fullmatch(value)]
    plain = {name: value for name, value in env.items() if name not in passed}
    found = {"command": told["command"], "args": list(told.get("args", ()))}
    found |= {"env_vars": passed} if passed else {}
    return found | ({"env": plain} if plain else {})


def _table(value: Mapping[str, Any]) -> str:
    """An inline table of TOML."""
    return "{" + ", ".join(f"{_text(name)} = {_value(each)}" for name, each in value.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return _table(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(str(value))


def _text(value: str) -> str:
    """A basic string of TOML, which has the escapes of JSON but no pairs of surrogates."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
