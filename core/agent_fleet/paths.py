"""Where a project and its queue lie. Used on the hot path: the standard library's light modules only."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from agent_fleet.errors import FleetError

DEFAULT_DIR = ".agents"


def queue_name(environ: Mapping[str, str]) -> str:
    """The name of the queue directory: `$AGENT_DIR`, else `.agents`. Raises FleetError for a path or a reserved name."""
    name = environ.get("AGENT_DIR") or DEFAULT_DIR
    if os.sep in name or name in (".", "..", ".git") or "\0" in name:
        raise FleetError(
            "bad_config",
            f"AGENT_DIR must be a plain directory name, not {name!r}",
            hint="set it to a name such as .agents",
        )
    return name


def is_queue(directory: str) -> bool:
    """Whether this directory is a queue of ours. Other tools use `.agents` too, so its name alone says nothing."""
    return os.path.isfile(os.path.join(directory, "queue.json")) or os.path.isdir(os.path.join(directory, "inbox"))


def is_work_tree(directory: str) -> bool:
    """Whether this is the top of a git work tree; an empty `.git`, as sandboxes leave behind, is none."""
    git = os.path.join(directory, ".git")
    return os.path.isfile(git) or os.path.lexists(os.path.join(git, "HEAD"))


def work_tree(start: str) -> str:
    """The top of the work tree that a directory lies in, as far as it looks like one; empty if there is none."""
    directory = os.path.abspath(start)
    while not is_work_tree(directory):
        above = os.path.dirname(directory)
        if above == directory:
            return ""
        directory = above
    return directory


def find_root(environ: Mapping[str, str], start: str, explicit: str | None = None) -> str:
    """The project root: `explicit`, else `$AGENT_ROOT`, else the nearest ancestor with a queue, else the git root, else `start`.

    Raises FleetError if a named root is no directory.
    """
    named = explicit or environ.get("AGENT_ROOT")
    if named:
        root = os.path.abspath(os.path.join(start, os.path.expanduser(named)))
        if not os.path.isdir(root):
            source = "--project" if explicit else "AGENT_ROOT"
            raise FleetError("not_found", f"{source} names no directory: {root}", hint="create it, or name another one")
        return root
    name = queue_name(environ)
    git = ""
    directory = os.path.abspath(start)
    while True:
        if is_queue(os.path.join(directory, name)):
            return directory
        if not git and is_work_tree(directory):
            git = directory
        parent = os.path.dirname(directory)
        if parent == directory:
            return git or os.path.abspath(start)
        directory = parent


def state_dir(environ: Mapping[str, str]) -> str:
    """Where this machine's memory (worker costs) lies: `$AGENT_FLEET_STATE_DIR`, else the XDG state directory."""
    named = environ.get("AGENT_FLEET_STATE_DIR")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    base = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "agent-fleet")


def private_dir(temporary: str) -> str:
    """This user's own directory below a directory that all users share, made if it is missing.

    Raises FleetError (`refused`) if somebody else has taken its name, OSError if it cannot be made.
    """
    path = os.path.join(temporary, f"agent-fleet-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise FleetError(
            "refused", f"{path} belongs to somebody else", hint="remove it, or set TMPDIR to a directory of your own"
        )
    return path
