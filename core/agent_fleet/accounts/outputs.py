"""Where the log of each account's last run lies: what a program said of its limits there is one source of what is left."""

from __future__ import annotations

import os
import time

from agent_fleet.accounts.stored import check_schema, iso, texts
from agent_fleet.accounts.vault import Vault
from agent_fleet.queue.files import BadFileError

DIRECTORY = "outputs"


def last(vault: Vault, profile: str) -> str:
    """The log of the profile's last run; empty if none is on record, or if it is gone."""
    place = (DIRECTORY, f"{profile}.json")
    try:
        found = vault.read(*place)
        if found is None:
            return ""
        check_schema(found, 1)
        path = texts(found, "path")["path"]
    except BadFileError as error:
        vault.note(place, str(error))
        return ""
    return path if os.path.isabs(path) and os.path.isfile(path) else ""


def forget(vault: Vault, profile: str) -> None:
    """What the last run was told is not about the account that the profile holds from now on."""
    vault.remove(DIRECTORY, f"{profile}.json")


def remember(vault: Vault, profile: str, path: str) -> None:
    """Put on record that this is the log of the profile's last run."""
    record = {"schema": 1, "profile": profile, "path": os.path.abspath(path), "at": iso(time.time())}
    vault.write((DIRECTORY, f"{profile}.json"), record, durable=False)
