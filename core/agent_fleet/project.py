"""Making a project's queue, and hiding it from git without a trace in the project.

The queue is named in `.git/info/exclude` of the clone, never in the project's own `.gitignore`.
"""

from __future__ import annotations

import os

from agent_fleet import git, paths
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, read_bytes, write_whole
from agent_fleet.queue.store import DIRS, FILES, Queue

_MARK = "# agent-fleet: the task queue of this clone"
_OURS = tuple(sorted((*DIRS, *FILES, "config.toml", "lanes")))


def create(root: str, name: str) -> list[str]:
    """Make the queue `name` in `root` and hide it; returns what a person should know about that."""
    foreign = _foreign_entries(os.path.join(root, name))
    Queue(os.path.join(root, name)).create()
    return hide(root, [f"{name}/{entry}" for entry in _OURS] if foreign else [f"{name}/"])


def _foreign_entries(directory: str) -> set[str]:
    """What in the directory is not ours: other tools keep their files in `.agents` too, and those are not ours to hide."""
    try:
        return set(os.listdir(directory)) - set(_OURS)
    except FileNotFoundError:
        return set()


def hide(root: str, entries: list[str]) -> list[str]:
    """Add paths below `root` to the clone's exclude file, if `root` lies in a git work tree; returns what went wrong."""
    found = _exclude(root)
    if found is None:
        return [f"git does not answer, so the queue is not hidden from it in {root}"] if paths.work_tree(root) else []
    prefix, exclude = found
    try:
        return _add_lines(exclude, ["/" + _escape(prefix + entry) for entry in entries])
    except (OSError, BadFileError) as error:
        return [f"the queue is not hidden from git: {exclude} cannot be changed: {error}"]


def reveal(root: str, entries: list[str]) -> list[str]:
    """Take the lines of `hide` for these paths out of the exclude file again; returns what went wrong."""
    found = _exclude(root)
    if found is None:
        return []
    prefix, exclude = found
    try:
        _remove_lines(exclude, {"/" + _escape(prefix + entry) for entry in entries})
    except FileNotFoundError:
        pass
    except (OSError, BadFileError) as error:
        return [f"lines of ours are left in {exclude}: {error}"]
    return []


def _exclude(root: str) -> tuple[str, str] | None:
    """The path of `root` in its repository, and the clone's exclude file; None where git does not answer."""
    answer = _git(root, "rev-parse", "--show-prefix", "--git-path", "info/exclude")
    if answer is None:
        return None
    prefix, path = answer.split("\n")[:2] if "\n" in answer else ("", answer)
    return prefix, os.path.realpath(os.path.join(root, path))


def _remove_lines(exclude: str, lines: set[str]) -> None:
    """Every other byte stays; our heading goes with the last line below it."""
    present = read_bytes(exclude)
    ours = {line.encode("utf-8", "surrogateescape") for line in lines}
    left = [line for line in present.splitlines(keepends=True) if line.rstrip(b"\r\n") not in ours]
    if left and left[-1].rstrip(b"\r\n") == _MARK.encode():
        left.pop()
    if b"".join(left) != present:
        write_whole(exclude, b"".join(left))


def _add_lines(exclude: str, lines: list[str]) -> list[str]:
    try:
        present = read_bytes(exclude)
    except FileNotFoundError:
        present = b""
    known = set(present.decode("utf-8", "surrogateescape").splitlines())
    missing = [line for line in lines if line not in known]
    if missing:
        os.makedirs(os.path.dirname(exclude), exist_ok=True)
        text = "\n".join(([] if _MARK in known else [_MARK]) + missing) + "\n"
        separator = b"" if not present or present.endswith(b"\n") else b"\n"
        write_whole(exclude, present + separator + text.encode("utf-8", "surrogateescape"))
    return []


def committed(root: str, name: str) -> list[str]:
    """Tasks and settings of the queue that git tracks: they came with the repository, and nobody here wrote them."""
    answer = _git(root, "ls-files", "-z", "--", f"{name}/inbox", f"{name}/active", f"{name}/config.toml")
    return [path for path in (answer or "").split("\0") if path]


def _escape(path: str) -> str:
    """A path as a git pattern that matches only itself (gitignore(5))."""
    for character in "\\*?[":
        path = path.replace(character, "\\" + character)
    return path.replace(" ", "\\ ") if path.endswith(" ") else path


def _git(root: str, *arguments: str) -> str | None:
    """What git answers, or None where there is no git, no repository or no work tree."""
    try:
        answer = git.ask(root, *arguments)
    except FleetError:
        return None
    return answer.out.removesuffix("\n") if answer.ok else None
