"""Worktrees of tasks: what is on record about each, and whether one still is what its record says.

They lie below the state directory, not in the project: what walks the project must not meet a second copy of it, and what
looks upwards from a worktree must not meet the project.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent_fleet import git, paths
from agent_fleet.model import Task
from agent_fleet.queue.files import BadFileError, read_json, write_whole
from agent_fleet.queue.store import Queue

BRANCHES = "fleet"  # the directory of our branches


class Tree(NamedTuple):
    """One task's worktree. `made` is False until git has finished it: nobody has worked in it then.

    `name` is its own on this machine, and its name in `common/worktrees`. `root` is the checkout it was made from, at commit
    `base` and on branch `onto` (empty: none). `created` tells the task from another of the same id. `size` is what a checkout
    takes, in bytes; `stashes` were there before it.
    """

    name: str
    path: str
    branch: str
    base: str
    onto: str
    common: str
    root: str
    prefix: str
    task: str
    created: float
    generation: int
    made: bool = False
    size: int = 0
    stashes: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    @property
    def admin(self) -> str:
        """Where the repository keeps what belongs to this worktree alone."""
        return os.path.join(self.common, "worktrees", self.name)

    @property
    def cwd(self) -> str:
        """Where the task is worked on: the place that the project has in its repository."""
        return os.path.join(self.path, self.prefix) if self.prefix else self.path

    @property
    def file(self) -> str:
        """Its record."""
        return self.path + ".json"

    def is_of(self, task: Task) -> bool:
        return self.task == task.id and self.created == task.created


def shelf(queue: Queue, environ: Mapping[str, str]) -> str:
    """Where the worktrees of this project lie; a copy of the project has another place."""
    project = os.path.realpath(queue.dir)
    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:10]
    title = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in _title(project))
    return os.path.join(os.path.realpath(paths.state_dir(environ)), "worktrees", f"{title[:40]}-{digest}")


def _title(queue_dir: str) -> str:
    return os.path.basename(os.path.dirname(queue_dir))


def new_name(task: str, generation: int) -> str:
    return f"{task}-g{generation}-{secrets.token_hex(4)}"


def write(tree: Tree) -> None:
    """Put a worktree on record, durably. Raises OSError."""
    write_whole(tree.file, json.dumps(tree._asdict()).encode() + b"\n")


def forget(tree: Tree) -> None:
    try:
        os.unlink(tree.file)
    except FileNotFoundError:
        pass


def read(directory: str, name: str) -> Tree | None:
    """The record of one worktree; None if there is none that can be used. What it says lies elsewhere is not ours."""
    path = os.path.join(directory, name)
    try:
        found: dict[str, Any] = read_json(path + ".json")
        tree = Tree(**{**found, "stashes": tuple(found.get("stashes") or ())})
    except (FileNotFoundError, BadFileError, TypeError):
        return None
    texts = (tree.branch, tree.base, tree.onto, tree.common, tree.root, tree.prefix, tree.task)
    if tree.name != name or tree.path != path or not all(isinstance(text, str) for text in texts):
        return None
    if not isinstance(found.get("made"), bool):  # a missing word must not make a worktree one that nobody worked in
        return None
    return tree if tree.branch.startswith(BRANCHES + "/") and os.path.isabs(tree.common) else None


def trees(directory: str) -> list[Tree]:
    """Every worktree on record, those of the first tasks first and of one task the oldest first."""
    try:
        names = [name.removesuffix(".json") for name in os.listdir(directory) if name.endswith(".json")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [tree for name in names if not name.startswith(".") and (tree := read(directory, name))]
    return sorted(found, key=lambda tree: (len(tree.task), tree.task, tree.generation, tree.name))


def of_task(directory: str, task: Task) -> list[Tree]:
    """The finished worktrees of a task, oldest first."""
    try:
        names = [name for name in os.listdir(directory) if name.startswith(task.id + "-g") and name.endswith(".json")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [tree for name in names if (tree := read(directory, name.removesuffix(".json")))]
    return sorted((tree for tree in found if tree.made and tree.is_of(task)), key=lambda tree: tree.generation)


def mismatch(tree: Tree) -> str:
    """What is not as the record says: path, repository or branch; empty if all is. Raises FleetError if git does not answer."""
    if os.path.islink(tree.path) or not os.path.isdir(tree.path):
        return "its directory is gone"
    if not os.path.isfile(os.path.join(tree.path, ".git")):
        return "it is no worktree any more"
    facts = (("--show-toplevel", tree.path), ("--git-common-dir", tree.common), ("--absolute-git-dir", tree.admin))
    for question, expected in facts:
        answer = git.ask(tree.path, "rev-parse", "--path-format=absolute", question)
        if not answer.ok:
            return f"git does not know it: {answer.complaint}"
        if os.path.realpath(answer.out.removesuffix("\n")) != os.path.realpath(expected):
            return "it belongs to another repository"
    on = git.ask(tree.path, "symbolic-ref", "--quiet", "HEAD")
    if on.out.strip() != tree.ref:
        return f"it is not on its branch {tree.branch}, but on {_short(on.out.strip())}"
    if os.path.realpath(tree.cwd) != os.path.normpath(tree.cwd) or not os.path.isdir(tree.cwd):
        return f"the project's place in it, {tree.prefix or '.'}, is gone"
    return ""


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/") or "none"


def stashes(directory: str) -> tuple[str, ...]:
    """The commits of all stash entries of a repository, which its worktrees share. Raises FleetError if git does not answer."""
    answer = git.ask(directory, "log", "--walk-reflogs", "--format=%H", "refs/stash", "--")
    return tuple(answer.out.split()) if answer.ok else ()
