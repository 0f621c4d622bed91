"""When each profile was last given new work. Lost or unreadable, it is as if none ever was."""

from __future__ import annotations

import os

from agent_fleet.accounts.stored import iso, seconds
from agent_fleet.accounts.vault import Vault
from agent_fleet.queue.files import BadFileError

_FILE = "selection.json"


def read(vault: Vault) -> dict[str, float]:
    """Seconds since the epoch by profile; whatever cannot be read is left out."""
    try:
        found = vault.read(_FILE) or {}
    except BadFileError:
        return {}
    stamps = {}
    for profile, text in found.items():
        try:
            stamps[profile] = seconds(text, profile)
        except BadFileError:
            continue
    return stamps


def write(vault: Vault, stamps: dict[str, float]) -> None:
    """Keep them; the state lock is held.

    The old file goes first: some file systems write out whatever is renamed over another, and that takes longer than a choice.
    """
    try:
        os.unlink(vault.path(_FILE))
    except OSError:
        pass
    vault.write((_FILE,), {profile: iso(at) for profile, at in stamps.items()}, durable=False)
