"""What an attempt has left in its worktree: commits, changed files, and what was not committed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent_fleet import git
from agent_fleet.errors import FleetError
from agent_fleet.run import doubts, worktree
from agent_fleet.run.worktree import Tree
from agent_fleet.text import count, line

_SHORT = re.compile(r"(\d+) (file|insertion|deletion)")


class Work(NamedTuple):
    """The result of work in a worktree, since the commit that it was made from; None is unknown, and `note` says why.

    `uncommitted` counts the paths that are changed or not in git. `lost_stashes` are entries of the stash that all
    worktrees share which were there when the worktree was made and are not any more.
    """

    branch: str
    path: str
    base: str
    head: str = ""
    commits: int | None = None
    files: int | None = None
    insertions: int | None = None
    deletions: int | None = None
    uncommitted: int | None = None
    note: str = ""
    lost_stashes: tuple[str, ...] = ()


def work_in(tree: Tree) -> Work:
    """Look at a worktree now. It never raises: what cannot be told is unknown."""
    work = Work(tree.branch, tree.path, tree.base)
    try:
        wrong = worktree.mismatch(tree)
        head = doubts.head_of(tree)
        work = work._replace(note=wrong, head=head)
        if head:
            work = _committed(tree, head, work)
        if os.path.isdir(tree.path) and not os.path.islink(tree.path):
            changed, untracked, _ = doubts.status(tree)
            work = work._replace(uncommitted=len(changed) + len(untracked))
        now = set(worktree.stashes(tree.common))
        return work._replace(lost_stashes=tuple(commit for commit in tree.stashes if commit not in now))
    except (FleetError, OSError, ValueError) as error:
        return work._replace(note=work.note or (error.message if isinstance(error, FleetError) else str(error)))


def _committed(tree: Tree, head: str, work: Work) -> Work:
    common = f"--git-dir={tree.common}"
    commits = git.tell(tree.common, common, "rev-list", "--count", head, f"^{tree.base}")
    told = git.tell(tree.common, common, "diff", "--no-ext-diff", "--no-textconv", "--shortstat", tree.base, head)
    found = {noun: int(number) for number, noun in _SHORT.findall(told)}
    return work._replace(
        commits=int(commits),
        files=found.get("file", 0),
        insertions=found.get("insertion", 0),
        deletions=found.get("deletion", 0),
    )


def sentence(work: Mapping[str, Any]) -> str:
    """A result on record in one line for people."""
    commits = _count(work.get("commits"), "commit")
    parts = [f"{line(str(work.get('branch') or '?'))}: {commits}"]
    if work.get("commits"):
        parts.append(f"{_count(work.get('files'), 'file')} (+{_n(work, 'insertions')} -{_n(work, 'deletions')})")
    if work.get("uncommitted") != 0:
        parts.append(f"{_count(work.get('uncommitted'), 'change')} not committed")
    if work.get("note"):
        parts.append(line(str(work["note"]), 160))
    if work.get("lost_stashes"):
        commits = ", ".join(str(commit)[:12] for commit in work["lost_stashes"])
        parts.append(f"stash entries gone: {commits} (`git stash apply COMMIT` brings one back)")
    return ", ".join(parts)


def _count(number: object, noun: str) -> str:
    return count(number, noun) if isinstance(number, int) else f"unknown {noun}s"


def _n(work: Mapping[str, Any], name: str) -> str:
    found = work.get(name)
    return str(found) if isinstance(found, int) else "?"
