"""Where the accounts of this machine lie, and how a path in their registry is written."""

from __future__ import annotations

import os
from collections.abc import Mapping

from agent_fleet import paths
from agent_fleet.errors import FleetError


def registry_path(environ: Mapping[str, str], explicit: str | None = None) -> str:
    """The registry: `explicit`, else `$AGENT_FLEET_CONFIG`, else `~/.config/agent-fleet/accounts.toml`."""
    named = explicit or environ.get("AGENT_FLEET_CONFIG")
    if not named:
        return os.path.join(os.path.expanduser("~"), ".config", "agent-fleet", "accounts.toml")
    return os.path.realpath(lexical(named, "--config" if explicit else "AGENT_FLEET_CONFIG"))


def state_dir(environ: Mapping[str, str]) -> str:
    """Where leases, sessions and readings lie unless the registry says otherwise."""
    named = environ.get("AGENT_FLEET_STATE_DIR")
    return os.path.realpath(lexical(named, "AGENT_FLEET_STATE_DIR") if named else paths.state_dir(environ))


def share_dir(environ: Mapping[str, str]) -> str:
    """Below which directory new homes are made unless the registry says otherwise."""
    named = environ.get("AGENT_FLEET_SHARE_DIR")
    if named:
        return os.path.realpath(lexical(named, "AGENT_FLEET_SHARE_DIR"))
    return os.path.realpath(os.path.join(os.path.expanduser("~"), ".local", "share", "agent-fleet"))


def lexical(text: str, what: str) -> str:
    """An absolute path as it is written, links and all; `~/` is the person's home.

    Raises FleetError (`bad_input`) for a relative path, another person's `~name`, a `$` or a NUL: nothing here is expanded
    by a shell, so such a path names something else than it seems to.
    """
    if not text or "\0" in text or "$" in text:
        raise FleetError("bad_input", f"{what} is no plain path: {text!r}", hint="write it in full, without variables")
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser("~") + text[1:]
    if not os.path.isabs(text):
        raise FleetError(
            "bad_input", f"{what} must be an absolute path or begin with ~/, not {text!r}", hint="write it in full"
        )
    return os.path.normpath(text).replace("//", "/", 1) if text.startswith("//") else os.path.normpath(text)


def overlap(one: str, other: str) -> bool:
    """Whether two paths are equal or one lies in the other."""
    return is_within(one, other) or is_within(other, one)


def is_within(path: str, directory: str) -> bool:
    """Whether a path is the directory or lies in it; by name, not by looking."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)
