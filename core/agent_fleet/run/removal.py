"""Removing a worktree whose work is provably kept elsewhere. Never by force: git looks again by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from agent_fleet import git
from agent_fleet.errors import FleetError
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import Queue
from agent_fleet.run import doubts, worktree
from agent_fleet.run.worktree import Tree

_LEAVING = 3.0  # seconds in which the keeper of an attempt that has just ended leaves its worktree
_DELETING = 600.0


class Fate(NamedTuple):
    """What became of a worktree: it is gone (or would be), or `why` it was kept."""

    tree: Tree
    gone: bool
    why: str = ""


def close(queue: Queue, environ: Mapping[str, str], name: str) -> Fate | None:
    """Remove the worktree of a task that is done, if that is safe; None if there is none."""
    tree = worktree.read(worktree.shelf(queue, environ), name)
    if tree is None:
        return None
    end = time.monotonic() + _LEAVING
    while doubts.occupants(tree.path) and time.monotonic() < end:
        time.sleep(0.05)
    return remove(queue, tree)


def all_of(queue: Queue, environ: Mapping[str, str], *, dry: bool = False) -> list[Fate]:
    """Remove every worktree of this project that can be removed safely; `dry` only says what would be."""
    found = [tree for tree in worktree.trees(worktree.shelf(queue, environ)) if tree.made]
    return [_judge(queue, tree) if dry else remove(queue, tree) for tree in found]


def strays(queue: Queue, environ: Mapping[str, str]) -> list[str]:
    """What lies among this project's worktrees without a record: nothing is known of it, so it is left alone."""
    directory = worktree.shelf(queue, environ)
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    known = {tree.name for tree in worktree.trees(directory)}
    return [
        os.path.join(directory, name) for name in names if name.removesuffix(".json") not in known and name[:1] != "."
    ]


def remove(queue: Queue, tree: Tree) -> Fate:
    """Remove one worktree, its branch and its record; whatever speaks against it keeps it."""
    try:
        if not os.path.isdir(tree.common):
            return _without_repository(tree)
        with DirLock(tree.common):
            fate = _judge(queue, tree)
            if fate.gone:
                fate = _bury(tree) if not os.path.lexists(tree.path) else _remove(tree)
    except (FleetError, OSError) as error:
        fate = Fate(
            tree, False, f"it could not be removed: {error.message if isinstance(error, FleetError) else error}"
        )
    if fate.gone:
        queue.tell("worktree_removed", task=tree.task, path=tree.path, branch=tree.branch)
    return fate


def _judge(queue: Queue, tree: Tree) -> Fate:
    """Whether a worktree can be removed. One whose directory somebody has removed already is judged by its branch."""
    if not os.path.isdir(tree.common):
        return _without_repository(tree, dry=True)
    waits = _is_waited_for(queue, tree)
    if waits:
        return Fate(tree, False, waits)
    why = doubts.doubt(tree) if os.path.lexists(tree.path) else _gone_doubt(tree)
    return Fate(tree, not why, why)


def _is_waited_for(queue: Queue, tree: Tree) -> str:
    place = queue.find(tree.task)
    body = queue.body(place.path, tree.task) if place else None
    if place is None or body is None or float(body.get("created") or 0.0) != tree.created:
        return ""
    return f"{tree.task} is in {place.state}" if place.state in ("inbox", "active", "blocked") else ""


def _gone_doubt(tree: Tree) -> str:
    if os.path.lexists(os.path.join(tree.admin, "locked")):
        return "its directory is gone, and it is locked"
    try:
        head = doubts.head_of(tree)
        why = doubts.branch_doubt(tree, head) if head else ""
    except FleetError as error:
        why = error.message
    return f"its directory is gone, and {why}" if why else ""


def _remove(tree: Tree) -> Fate:
    head = doubts.head_of(tree)
    _git(tree, "worktree", "remove", tree.path)
    if os.path.lexists(tree.path):
        return Fate(tree, False, "git said that it is removed, and it is still there")
    return _drop(tree, head)


def _bury(tree: Tree) -> Fate:
    """Take away what a repository still keeps of a worktree whose directory is gone."""
    head = doubts.head_of(tree)
    if os.path.isdir(tree.admin):
        _git(tree, "worktree", "remove", tree.path)
    return _drop(tree, head)


def _drop(tree: Tree, head: str) -> Fate:
    """Delete the branch, if it still is where it was looked at, and the record. The worktree is gone already."""
    why = doubts.branch_doubt(tree, head) if head else ""
    if head and not why:
        _git(tree, "update-ref", "-m", "fleet: merged or pushed", "-d", tree.ref, head)
        section = f"branch.{tree.branch}"
        if git.ask(tree.common, f"--git-dir={tree.common}", "config", "--local", "--get-regexp", _starting(section)).ok:
            _git(tree, "config", "--local", "--remove-section", section)
    worktree.forget(tree)
    return Fate(tree, True, why)


def _starting(section: str) -> str:
    return "^" + section.replace(".", r"\.") + r"\."


def _without_repository(tree: Tree, *, dry: bool = False) -> Fate:
    """The repository was deleted or moved: what is in the directory is the last of it, so only an empty place is forgotten."""
    if os.path.lexists(tree.path):
        return Fate(tree, False, f"its repository {tree.common} is gone, and this may be the last of it")
    if not dry:
        worktree.forget(tree)
    return Fate(tree, True)


def _git(tree: Tree, *arguments: str) -> str:
    return git.tell(tree.common, f"--git-dir={tree.common}", *arguments, timeout=_DELETING)
