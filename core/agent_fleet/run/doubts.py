"""Why a worktree must not be removed. Each question has to be answered well; what cannot be answered is a doubt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from agent_fleet import git
from agent_fleet.errors import FleetError
from agent_fleet.identity import LINUX
from agent_fleet.run import worktree
from agent_fleet.run.worktree import Tree
from agent_fleet.text import count, line

# gitrepository-layout(5) and builtin/worktree.c: what is there while something is going on in a worktree
_AT_WORK = (
    ("rebase-merge", "a rebase is in progress"),
    ("rebase-apply", "a rebase or an `am` is in progress"),
    ("MERGE_HEAD", "a merge is in progress"),
    ("CHERRY_PICK_HEAD", "a cherry-pick is in progress"),
    ("REVERT_HEAD", "a revert is in progress"),
    ("BISECT_LOG", "a bisection is in progress"),
    ("sequencer", "a series of picks is in progress"),
    ("index.lock", "something holds its index.lock"),
    ("HEAD.lock", "something holds its HEAD.lock"),
    ("locked", "it is locked"),
)
_CACHES = ("__pycache__", "node_modules")
_CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"  # bford.info/cachedir
_STASH = re.compile(r"(?:WIP on|On) (.+?): ")


def doubt(tree: Tree) -> str:
    """The first thing that speaks against removing a worktree and its branch, in words; empty if nothing does."""
    try:
        return next((why for question in _QUESTIONS for why in question(tree) if why), "")
    except (FleetError, OSError) as error:
        return f"it could not be looked through: {error.message if isinstance(error, FleetError) else error}"


def branch_doubt(tree: Tree, head: str) -> str:
    """What speaks against deleting the branch at this commit, once its worktree is gone; empty if nothing does."""
    if not _kept_elsewhere(tree, head):
        return f"{tree.branch} is neither merged nor pushed"
    for entry in _in_repository(tree, "worktree", "list", "--porcelain").split("\n\n"):
        facts = entry.splitlines()
        if f"branch {tree.ref}" in facts and facts[0] != f"worktree {tree.path}":
            return f"{tree.branch} is checked out: {line(facts[0])}"
    return ""


def head_of(tree: Tree) -> str:
    """The commit that the branch is at; empty if it is gone."""
    return git.ask(tree.common, f"--git-dir={tree.common}", "rev-parse", "--verify", "--quiet", tree.ref).out.strip()


# ------------------------------------------------------------------------------------------------------------ questions


def _is_ours(tree: Tree) -> Iterator[str]:
    if not tree.made:
        yield "it was never finished"
    yield worktree.mismatch(tree)


def _is_at_rest(tree: Tree) -> Iterator[str]:
    for name, why in _AT_WORK:
        if os.path.lexists(os.path.join(tree.admin, name)):
            yield why


def _is_clean(tree: Tree) -> Iterator[str]:
    changed, untracked, ignored = status(tree)
    if changed:
        yield f"{count(len(changed), 'change')} in it not committed: {_some(changed)}"
    if untracked:
        yield f"{count(len(untracked), 'file')} in it not in git: {_some(untracked)}"
    precious = [name for name in ignored if not _is_in_a_cache(tree.path, name)]
    if precious:
        yield f"git ignores {_some(precious)} in it, which is no cache"
    hidden = [name for flag, name in _flags(tree) if flag.islower() or (flag == "S" and _is_there(tree, name))]
    if hidden:
        yield f"changes to {_some(hidden)} would be hidden by a flag of its index"


def _is_kept(tree: Tree) -> Iterator[str]:
    head = git.tell(tree.path, "rev-parse", "--verify", "HEAD^{commit}")
    if not _kept_elsewhere(tree, head):
        number = int(git.tell(tree.path, "rev-list", "--count", head, f"^{tree.base}"))
        if number:
            yield f"{count(number, 'commit')} of {tree.branch} neither merged nor pushed"
        else:
            yield f"no other branch has the commit {head[:10]} that it was made from any more"


def _has_no_stash(tree: Tree) -> Iterator[str]:
    told = git.ask(tree.path, "log", "--walk-reflogs", "--format=%H%x00%P%x00%gs", "refs/stash", "--")
    if not told.ok:
        if git.ask(tree.path, "show-ref", "--verify", "--quiet", "refs/stash").ok:
            yield "the stash cannot be read"
        return
    own = {git.tell(tree.path, "rev-parse", "HEAD"), *git.tell(tree.path, "rev-list", "HEAD", f"^{tree.base}").split()}
    for entry in told.out.splitlines():
        commit, parents, message = [*entry.split("\0"), "", ""][:3]
        named = _STASH.match(message)
        if named[1] == tree.branch if named else parents.split(" ")[0] in own:
            yield f"the stash entry {commit[:10]} was made on it"


def _is_empty_of_people(tree: Tree) -> Iterator[str]:
    pids = occupants(tree.path)
    if pids:
        yield f"a process is at work in it: {', '.join(map(str, pids[:5]))}"


_QUESTIONS = (_is_ours, _is_at_rest, _is_clean, _is_kept, _has_no_stash, _is_empty_of_people)


# -------------------------------------------------------------------------------------------------------------- answers


def status(tree: Tree) -> tuple[list[str], list[str], list[str]]:
    """The paths that git says are changed, untracked and ignored. Raises FleetError."""
    told = git.tell(
        tree.path,
        *("status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames"),
        "--ignore-submodules=none",
    )
    found: dict[str, list[str]] = {"??": [], "!!": [], "": []}
    for entry in told.split("\0"):
        if entry:
            found.get(entry[:2], found[""]).append(entry[3:])
    return found[""], found["??"], found["!!"]


def occupants(directory: str) -> list[int]:
    """The processes whose working directory lies there, as far as this user may see them."""
    inside = os.path.realpath(directory)
    return sorted(pid for pid, cwd in _working_directories() if cwd == inside or cwd.startswith(inside + os.sep))


def _working_directories() -> Iterator[tuple[int, str]]:
    if LINUX:
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    yield int(name), os.readlink(f"/proc/{name}/cwd")
                except OSError:
                    continue  # it has ended, or is another user's
        return
    import psutil

    for process in psutil.process_iter():
        try:
            yield process.pid, process.cwd()
        except (psutil.Error, OSError):
            continue


def _kept_elsewhere(tree: Tree, head: str) -> bool:
    """Whether a commit is contained in a remote branch, the branch that the tree was made from, or its checkout's HEAD."""
    wanted = ["refs/remotes/", *([f"refs/heads/{tree.onto}"] if tree.onto else [])]
    if _in_repository(tree, "for-each-ref", "--count=1", "--format=%(refname)", f"--contains={head}", *wanted).strip():
        return True
    if not os.path.isdir(tree.root):
        return False
    common = git.ask(tree.root, "rev-parse", "--path-format=absolute", "--git-common-dir")
    if os.path.realpath(common.out.removesuffix("\n")) != os.path.realpath(tree.common):
        return False
    own = git.ask(tree.root, "symbolic-ref", "--quiet", "HEAD").out.strip()
    return own != tree.ref and git.ask(tree.root, "merge-base", "--is-ancestor", head, "HEAD").ok


def _in_repository(tree: Tree, *arguments: str) -> str:
    return git.tell(tree.common, f"--git-dir={tree.common}", *arguments)


def _flags(tree: Tree) -> Iterator[tuple[str, str]]:
    """Each file's flag in the index: lower case is "assume unchanged", `S` is "skip"."""
    for entry in git.tell(tree.path, "ls-files", "-v", "-z").split("\0"):
        if entry:
            yield entry[0], entry[2:]


def _is_there(tree: Tree, name: str) -> bool:
    return os.path.lexists(os.path.join(tree.path, name))


def _is_in_a_cache(top: str, name: str) -> bool:
    """Whether a path is a directory, or lies in one, that a program can make again."""
    path = top
    for part in name.rstrip(os.sep).split(os.sep):
        path = os.path.join(path, part)
        if _is_cache(path):
            return True
    return False


def _is_cache(path: str) -> bool:
    """Whether a directory says of itself that it can be made again: by the tag that caches carry, or by its name."""
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    if os.path.basename(path) in _CACHES:
        return True
    try:
        with open(os.path.join(path, "CACHEDIR.TAG"), "rb") as file:
            return file.read(len(_CACHE_TAG)) == _CACHE_TAG
    except OSError:
        return False


def _some(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - 2} more" if len(found) > 2 else ""
    return line(", ".join(found[:2]), 120) + more
