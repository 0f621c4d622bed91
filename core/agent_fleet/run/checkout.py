"""Making a task's worktree, whole or not at all.

Everything happens under a lock on the repository's common directory, which the git that we start holds with us: whoever
gets the lock and finds a record of an unfinished worktree knows that nobody is making it, and takes it away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import NamedTuple

from agent_fleet import git, project
from agent_fleet.errors import FleetError
from agent_fleet.model import Task
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import Queue
from agent_fleet.run import worktree
from agent_fleet.run.worktree import BRANCHES, Tree
from agent_fleet.text import size as size_text

ADDING = 900.0  # seconds that git may take to check a large repository out
PATIENCE = 60.0  # seconds to wait for others that make worktrees in the same repository


class Ground(NamedTuple):
    """The repository that a project lies in: its checkout, its common directory, the project's place in it, its HEAD."""

    top: str
    common: str
    prefix: str
    base: str
    onto: str


def survey(root: str) -> Ground:
    """The repository of a project, if worktrees can be made of it. Raises FleetError (`refused`) with what stands against it."""
    inside = git.ask(root, "rev-parse", "--is-inside-work-tree")
    if not inside.ok or inside.out.strip() != "true":
        if "dubious ownership" in inside.err:
            raise _refused(f"git does not trust the repository of {root}", inside.complaint)
        raise _refused(
            f"{root} is in no git work tree", "go to a checkout of it, or `git init` and commit what there is"
        )
    top = _path(root, "--show-toplevel")
    base = git.ask(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if not base.ok:
        raise _refused("the repository has no commit yet", "commit what there is first")
    if git.ask(top, "cat-file", "-e", "HEAD:.gitmodules").ok:
        raise _refused(
            "the repository has submodules, which would be empty in a worktree", "work in its submodules one by one"
        )
    if git.ask(top, "show-ref", "--verify", "--quiet", f"refs/heads/{BRANCHES}").ok:
        raise _refused(f"a branch is called {BRANCHES}, so none can be called {BRANCHES}/…", "rename that branch")
    return Ground(
        top=top,
        common=_path(root, "--git-common-dir"),
        prefix=git.tell(root, "rev-parse", "--show-prefix").removesuffix("/"),
        base=base.out.strip(),
        onto=git.ask(root, "symbolic-ref", "--quiet", "--short", "HEAD").out.strip(),
    )


def left_behind(root: str) -> int:
    """How many changes of the checkout are not committed, and so in no worktree."""
    return len(git.tell(root, "status", "--porcelain", "--untracked-files=no", "-z").split("\0")) - 1


def provide(queue: Queue, task: Task, generation: int, environ: Mapping[str, str], *, reserve: int) -> Tree:
    """The worktree to work a task in: its own, if that is still what it was, else a fresh one.

    Raises FleetError: `refused` or `unavailable` if none can be made here or now, `disk_full` if it would leave less than
    `reserve` bytes free, `busy` if others are making worktrees all the time.
    """
    directory = worktree.shelf(queue, environ)
    for tree in reversed(worktree.of_task(directory, task)):
        why = worktree.mismatch(tree)
        if not why:
            return tree
        queue.tell("worktree_left", task=task.id, path=tree.path, branch=tree.branch, why=why)
    return make(queue, task, generation, directory, reserve=reserve)


def make(queue: Queue, task: Task, generation: int, directory: str, *, reserve: int) -> Tree:
    """Make a fresh worktree on a branch of its own. Raises as `provide`; nothing is left then."""
    ground = survey(os.path.dirname(queue.dir))
    os.makedirs(directory, mode=0o700, exist_ok=True)
    _hide(ground, directory)
    size = _size(ground, directory)
    _leave_room(directory, size, reserve)
    name = worktree.new_name(task.id, generation)
    with DirLock(ground.common, patience=PATIENCE) as lock:
        tree = Tree(
            name=name,
            path=os.path.join(directory, name),
            branch=_branch(ground, task.id, generation, name),
            base=ground.base,
            onto=ground.onto,
            common=ground.common,
            root=ground.top,
            prefix=ground.prefix,
            task=task.id,
            created=task.created,
            generation=generation,
            size=size,
            stashes=worktree.stashes(ground.top),
        )
        worktree.write(tree)
        try:
            _add(ground, tree, lock)
        except BaseException:
            unmake(tree)
            raise
        tree = tree._replace(made=True)
        worktree.write(tree)
    return tree


def recover(queue: Queue, environ: Mapping[str, str]) -> list[str]:
    """Take away what a maker that died has left half made; returns the paths. What cannot be is a notice."""
    gone = []
    directory = worktree.shelf(queue, environ)
    for tree in worktree.trees(directory):
        if tree.made:
            continue
        try:
            if _take_away(directory, tree):
                gone.append(tree.path)
        except (FleetError, OSError) as error:
            queue.notices.append(f"the worktree {tree.path} was never finished and cannot be removed: {error}")
    return gone


def unmake(tree: Tree) -> None:
    """Remove a worktree that nobody has worked in. The caller holds the lock. Raises OSError, FleetError."""
    if os.path.lexists(tree.path):
        shutil.rmtree(tree.path)
    if os.path.isdir(tree.admin):
        shutil.rmtree(tree.admin)
    at = git.ask(tree.common, f"--git-dir={tree.common}", "rev-parse", "--verify", "--quiet", tree.ref)
    if at.out.strip() == tree.base:
        git.tell(tree.common, f"--git-dir={tree.common}", "update-ref", "-d", tree.ref, tree.base)
    worktree.forget(tree)


def _take_away(directory: str, tree: Tree) -> bool:
    if not os.path.isdir(tree.common):
        if os.path.lexists(tree.path):
            shutil.rmtree(tree.path)
        worktree.forget(tree)
        return True
    with DirLock(tree.common, patience=PATIENCE):
        now = worktree.read(directory, tree.name)
        if now is None or now.made:
            return False
        unmake(now)
        return True


def _add(ground: Ground, tree: Tree, lock: DirLock) -> None:
    git.tell(
        ground.top,
        *("worktree", "add", "--no-track", "-b", tree.branch, tree.path, tree.base),
        timeout=ADDING,
        keep=(lock.descriptor,),
    )
    # a place that git does not track (a project of nothing but its queue) is not checked out
    if os.path.realpath(tree.cwd) == os.path.normpath(tree.cwd):
        os.makedirs(tree.cwd, exist_ok=True)
    why = worktree.mismatch(tree)
    if why:
        raise FleetError("unavailable", f"git made a worktree, but {why}", hint="look at the repository's settings")


def _branch(ground: Ground, task: str, generation: int, name: str) -> str:
    """A branch that is not there yet: another queue of the repository, or one that is gone, may have had the short name."""
    short = f"{BRANCHES}/{task}-g{generation}"
    taken = git.ask(ground.top, "show-ref", "--verify", "--quiet", f"refs/heads/{short}").ok
    return f"{BRANCHES}/{name}" if taken else short


def _hide(ground: Ground, directory: str) -> None:
    """Where the state directory lies inside the repository (a home that is one), keep it out of `git status`."""
    inside = os.path.relpath(os.path.dirname(directory), os.path.realpath(ground.top))
    if not inside.startswith(os.pardir):
        project.hide(ground.top, [f"{inside}/"])


def _size(ground: Ground, directory: str) -> int:
    """What a checkout takes on the disk, in bytes: as an earlier one of the same commit, else by the files of this one."""
    known = [tree.size for tree in worktree.trees(directory) if tree.base == ground.base and tree.size]
    if known:
        return known[0]
    total = 0
    for name in git.tell(ground.top, "ls-files", "-z").split("\0"):
        try:
            total += os.lstat(os.path.join(ground.top, name)).st_blocks * 512 if name else 0
        except OSError:
            continue
    return total


def _leave_room(directory: str, size: int, reserve: int) -> None:
    found = os.statvfs(directory)
    free = found.f_bavail * found.f_frsize
    if free - size < reserve:
        raise FleetError(
            "disk_full",
            f"a worktree takes {size_text(size)}, and of {size_text(free)} free {size_text(reserve)} are kept",
            hint="`fleet clean` removes worktrees that are done with; capacity.reserve_disk sets what is kept",
        )


def _path(root: str, question: str) -> str:
    return os.path.realpath(git.tell(root, "rev-parse", "--path-format=absolute", question))


def _refused(what: str, hint: str) -> FleetError:
    return FleetError("refused", f"worktrees cannot be used: {what}", hint=f"{hint}; or run without --worktree")
