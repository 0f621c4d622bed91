"""The program that a setting names: a name on the path, an absolute path, or a path from the project's root."""

from __future__ import annotations

import os
import shutil

from agent_fleet.api import Config, Crew, Job


def wanted(config: Config, key: str) -> str:
    """What the setting names, with a path made absolute."""
    name: str = os.path.expanduser(config.get(key))
    return os.path.join(os.path.abspath(config.root), name) if os.sep in name else name


def found(config: Config, key: str, job: Job | Crew) -> str:
    """The program as the worker's own path has it; a name that is on no path stays a name, for the error to show."""
    name = wanted(config, key)
    return shutil.which(name, path=job.env.get("PATH")) or name


def missing(config: Config, key: str, title: str) -> str | None:
    """None, or in words that the program is not there."""
    name = wanted(config, key)
    if shutil.which(name):
        return None
    return f"{title} was not found: {key} is {name}, " + (
        "which is no program that can be run" if os.path.isabs(name) else "which is not on the path"
    )
