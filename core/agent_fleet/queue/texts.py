"""Texts of tasks that are too long to be shown: as files for the agents that claimed them.

An agent's program cuts what a command or a tool prints, and shows no character that a terminal would obey; a file has every byte.
"""

from __future__ import annotations

import os

from agent_fleet.queue import names
from agent_fleet.queue.files import write_whole
from agent_fleet.queue.store import Queue
from agent_fleet.text import printable

# Codex shows about 10,000 bytes of what a tool says, Claude Code 30,000 characters; the rest of an answer needs room too
MOST = 6000


def fits(text: str) -> bool:
    """Whether a text can be shown whole, and shown as it is."""
    return len(text) <= MOST and len(text.encode("utf-8", "surrogatepass")) <= MOST and printable(text) == text


def write(queue: Queue, task: str, generation: int, text: str) -> str:
    """Put the text of a lease into a file and return its path; those of leases that are over are removed."""
    _forget(queue)
    path = queue.path("texts", f"{task}.g{generation}.txt")
    write_whole(path, text.encode("utf-8", "surrogatepass"), durable=False)
    return path


def _forget(queue: Queue) -> None:
    """Remove the texts of leases that are over. They are listed before the leases: a lease that begins now loses nothing."""
    found = queue.listing("texts")
    held = {f"{task}.g{generation}.txt" for task, generation, _, _, _ in queue.active()}
    for name in found:
        if name not in held and names.parse_entry(name.removesuffix(".txt") + ".json"):
            try:
                os.unlink(queue.path("texts", name))
            except OSError:
                continue  # somebody else was faster, or it is no file: neither keeps anybody from working
