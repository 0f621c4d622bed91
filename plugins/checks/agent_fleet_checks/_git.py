"""Asking git about a project, without what a hook that started us may have put into the environment."""

from __future__ import annotations

import os
import subprocess

from agent_fleet.api import Finding

SECONDS = 20.0
KEPT = ("config.toml", ".gitignore")  # what a project may well share


def ask(root: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """What git answers about the repository at `root`. Raises OSError and subprocess.SubprocessError."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"LC_ALL": "C"}
    command = ["git", "-C", root, *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=environ, timeout=SECONDS, check=False
    )


def outside(root: str) -> Finding | None:
    """Why there is nothing to ask about at `root`; None if it lies in a work tree.

    git fails alike outside a repository and in one that it does not trust; only its words tell the two apart.
    """
    inside = ask(root, "rev-parse", "--is-inside-work-tree")
    if inside.returncode == 0:
        return None
    complaint = inside.stderr.decode(errors="replace")
    if "not a git repository" in complaint:
        return Finding(level="ok", text="the project is in no git work tree")
    text = f"git does not answer for this project: {' '.join(complaint.split())[:200]}"
    return Finding(level="unknown", text=text, hint="mend what git says, then ask again")


def silent(error: Exception) -> Finding:
    return Finding(level="unknown", text=f"git cannot be asked: {error}", hint="install git, or look at .gitignore")


def names(listed: bytes) -> list[str]:
    """The paths of a list that ends each with NUL, each once, without what a project may well share."""
    found = dict.fromkeys(os.fsdecode(each).lstrip("\n") for each in listed.split(b"\0"))
    return [each for each in found if each and os.path.basename(each) not in KEPT]
