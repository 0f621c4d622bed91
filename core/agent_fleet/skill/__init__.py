"""The worker protocol: what an agent that claims for itself is told, as text."""

from __future__ import annotations

import os


def skill() -> str:
    """The whole `SKILL.md`, with the header that tells an agent's program when to offer it."""
    with open(os.path.join(os.path.dirname(__file__), "SKILL.md"), encoding="utf-8") as file:
        return file.read()


def protocol() -> str:
    """The protocol alone, for the brief of a session that is started to work the queue."""
    return skill().removeprefix("---\n").partition("\n---\n")[2].strip() + "\n"
