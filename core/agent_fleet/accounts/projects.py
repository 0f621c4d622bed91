"""Where accounts may be used: in registered git projects and the work trees linked to them. Git itself is not run.

A project is known by the directory that all its work trees share, so a linked work tree needs no registration of its own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, read_bytes


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The top of a git work tree. `common` is the directory it shares; `is_linked` says that another tree owns that."""

    root: str
    common: str
    is_linked: bool
    is_own: bool


def work_tree(path: str) -> WorkTree:
    """What work tree has its top at `path`. Raises FleetError (`project_refused`) for anything that is not plainly one."""
    _check_directory(path)
    entry = os.path.join(path, ".git")
    try:
        mode = os.lstat(entry).st_mode
    except OSError:
        raise _refused(path, "it is not the top of a git work tree") from None
    if stat.S_ISDIR(mode):
        _check_repository(path, entry)
        return WorkTree(path, os.path.realpath(entry), is_linked=False, is_own=True)
    if not stat.S_ISREG(mode):
        raise _refused(path, "its .git is neither a directory nor a file")
    git = os.path.realpath(os.path.join(path, _pointer(path, entry, "gitdir: ")))
    if not os.path.lexists(os.path.join(git, "commondir")):
        _check_repository(path, git)
        return WorkTree(path, git, is_linked=False, is_own=False)
    common = os.path.realpath(os.path.join(git, _pointer(path, os.path.join(git, "commondir"), "")))
    _check_repository(path, common)
    back = os.path.realpath(os.path.join(git, _pointer(path, os.path.join(git, "gitdir"), "")))
    if back != entry or os.path.dirname(os.path.dirname(git)) != common:
        raise _refused(
            path, "the repository does not know this work tree", "`git worktree repair` there, if it was moved"
        )
    return WorkTree(path, common, is_linked=True, is_own=True)


def registrable(path: str) -> WorkTree:
    """The work tree at `path` if it may be registered. Raises FleetError (`project_refused`)."""
    if path in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise _refused(path, "it is far too broad")
    return work_tree(path)


def refusal(registered: Iterable[str], workspace: str) -> str:
    """Why accounts may not be used in a work tree, or the empty text."""
    try:
        tree = work_tree(workspace)
    except FleetError as error:
        return error.message
    for path in registered:
        if path == tree.root:
            return ""
        # a .git file without a way back could name any repository: such a tree must be registered itself
        if tree.is_own and is_same_project(path, tree.common):
            return ""
    return f"{workspace} belongs to no registered project"


def is_same_project(path: str, common: str) -> bool:
    """Whether the work tree at `path` shares the directory `common`; False if there is no work tree any more."""
    try:
        return work_tree(path).common == common
    except FleetError:
        return False


def _check_directory(path: str) -> None:
    try:
        found = os.lstat(path)
    except OSError:
        raise _refused(path, "there is no such directory") from None
    if not stat.S_ISDIR(found.st_mode) or os.path.realpath(path) != path:
        raise _refused(path, "it is reached through a link", f"name {os.path.realpath(path)} itself")
    _check_owner(path, path, found)


def _check_owner(path: str, where: str, found: os.stat_result) -> None:
    if found.st_uid != os.getuid():
        raise _refused(path, f"{where} belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o002:
        raise _refused(
            path,
            f"everybody may write in {where}",
            f"keep the project where only you may write, or `chmod o-w {where}` if it is yours",
        )


def _check_repository(path: str, common: str) -> None:
    try:
        found = os.stat(common)
    except OSError:
        raise _refused(path, f"its repository {common} is not there") from None
    if not stat.S_ISDIR(found.st_mode) or not os.path.isfile(os.path.join(common, "HEAD")):
        raise _refused(path, f"{common} is no git repository")
    _check_owner(path, common, found)


def _pointer(path: str, file: str, prefix: str) -> str:
    """The path that one of git's small files holds."""
    try:
        text = read_bytes(file, 65536).decode("utf-8", "surrogateescape")
    except (BadFileError, FileNotFoundError):
        text = ""
    target = text.removeprefix(prefix).rstrip("\n")
    if not text.startswith(prefix) or not target or "\n" in target or "\0" in target:
        raise _refused(path, f"{file} names no repository")
    return target


def _refused(path: str, why: str, hint: str = "") -> FleetError:
    return FleetError(
        "project_refused",
        f"{path} is no project in which accounts may be used: {why}",
        hint=hint or "name the top of a git work tree of your own, and register it with `fleet project register`",
    )
