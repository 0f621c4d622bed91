"""A worktree goes only when nothing can be lost with it: every doubt there is keeps it, on every way that could remove it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_fleet.queue import finish
from agent_fleet.queue.finish import Proof
from agent_fleet.run import checkout, doubts, removal
from agent_fleet.run.worktree import Tree
from support.garden import Garden
from support.project import enlist, git, repository, take

Harm = Callable[[Path], None]


@pytest.fixture
def garden(tmp_path: Path) -> Garden:
    """A clone with a remote, which is what most projects are."""
    origin = repository(tmp_path / "origin")
    git(tmp_path, "clone", "-q", "--bare", str(origin), "remote.git")
    git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), "clone")
    for name, value in (("user.name", "nobody"), ("user.email", "nobody@example.com")):
        git(tmp_path / "clone", "config", name, value)
    (tmp_path / "clone" / ".git" / "info" / "exclude").write_text(
        "/.agents/\n*.secret\n*.pyc\n/cache/\n/build/\nnode_modules/\n"
    )
    return Garden(tmp_path / "clone")


def planted(garden: Garden, state: str = "done") -> Tree:
    """The worktree of a task that is over."""
    tree = garden.provide(garden.task())
    holder = enlist(garden.queue)
    claimed = take(garden.queue, holder)
    assert claimed is not None and claimed.task == tree.task
    if state != "active":
        record = {"outcome": state, "reason": "", "result": "x", "charged": False}
        finish.finish(garden.queue, tree.task, Proof(identity=holder.identity), state, record)
    return tree


def commit(top: Path, name: str = "work") -> None:
    (top / name).write_text(name)
    git(top, "add", name)
    git(top, "commit", "-qm", name)


# ------------------------------------------------------------------------------------------------------- what keeps it


def dirty(top: Path) -> None:
    (top / "README").write_text("changed")


def staged(top: Path) -> None:
    (top / "README").write_text("changed")
    git(top, "add", "README")


def untracked(top: Path) -> None:
    (top / "deep" / "er").mkdir(parents=True)
    (top / "deep" / "er" / "new").write_text("x")


def ignored(top: Path) -> None:
    (top / "login.secret").write_text("x")


def ignored_directory(top: Path) -> None:
    (top / "build").mkdir()
    (top / "build" / "result.csv").write_text("x")


def false_cache(top: Path) -> None:
    (top / "cache").mkdir()
    (top / "cache" / "CACHEDIR.TAG").write_text("not a tag")


def stashed(top: Path) -> None:
    (top / "README").write_text("changed")
    git(top, "stash")


def stashed_with_words(top: Path) -> None:
    (top / "README").write_text("changed")
    git(top, "stash", "push", "-m", "my: own words")


def stashed_by_hand(top: Path) -> None:
    commit(top)
    git(top, "push", "-q", "origin", "HEAD:refs/heads/elsewhere")
    (top / "README").write_text("changed")
    made = git(top, "stash", "create").strip()
    git(top, "stash", "store", "-m", "no branch is named here", made)
    git(top, "checkout", "README")


def unpushed(top: Path) -> None:
    commit(top)


def pushed_and_then_more(top: Path) -> None:
    commit(top)
    git(top, "push", "-q", "origin", "HEAD")
    commit(top, "more")


def merging(top: Path) -> None:
    git(top, "branch", "side")
    commit(top)
    git(top, "push", "-q", "origin", "HEAD")
    git(top, "checkout", "-q", "side")
    commit(top, "other")
    git(top, "push", "-q", "origin", "HEAD")
    git(top, "checkout", "-q", "-")
    git(top, "merge", "-q", "--no-commit", "--no-ff", "-s", "ours", "side")


def bisecting(top: Path) -> None:
    git(top, "bisect", "start")


def rebasing(top: Path) -> None:
    (_admin(top) / "rebase-merge").mkdir()


def locked(top: Path) -> None:
    git(top, "worktree", "lock", str(top))


def index_lock(top: Path) -> None:
    (_admin(top) / "index.lock").touch()


def assumed_unchanged(top: Path) -> None:
    git(top, "update-index", "--assume-unchanged", "README")
    (top / "README").write_text("changed in hiding")


def skipped(top: Path) -> None:
    git(top, "update-index", "--skip-worktree", "README")
    (top / "README").write_text("changed in hiding")


def on_another_branch(top: Path) -> None:
    git(top, "checkout", "-q", "-b", "elsewhere")


def adrift(top: Path) -> None:
    git(top, "checkout", "-q", "--detach")


def a_clone_inside(top: Path) -> None:
    repository(top / "inner")


def damaged(top: Path) -> None:
    (_admin(top) / "index").write_bytes(b"nonsense")


def _admin(top: Path) -> Path:
    return Path(git(top, "rev-parse", "--absolute-git-dir").strip())


HARMS = [
    *(dirty, staged, untracked, ignored, ignored_directory, false_cache, stashed, stashed_with_words, stashed_by_hand),
    *(unpushed, pushed_and_then_more, merging, bisecting, rebasing, locked, index_lock, assumed_unchanged, skipped),
    *(on_another_branch, adrift, a_clone_inside, damaged),
]


@pytest.mark.parametrize("harm", HARMS)
def test_a_doubt_keeps_a_worktree_and_is_said(garden: Garden, harm: Harm) -> None:
    tree = planted(garden)
    top = Path(tree.path)
    harm(top)
    files = picture(top)
    refs = git(garden.top, "for-each-ref")
    (fate,) = removal.all_of(garden.queue, garden.environ, dry=True)
    assert (fate.gone, bool(fate.why)) == (False, True)
    assert removal.all_of(garden.queue, garden.environ) == [fate]
    assert removal.close(garden.queue, garden.environ, tree.name) == fate

    assert picture(top) == files
    assert git(garden.top, "for-each-ref") == refs
    assert Path(tree.file).exists()


def picture(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


@contextmanager
def inhabitant(directory: str) -> Iterator[None]:
    code = "import os, sys; os.chdir(sys.argv[1]); print(flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, directory], stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield
        child.communicate()


def test_nobody_loses_the_ground_under_the_feet(garden: Garden) -> None:
    tree = planted(garden)
    Path(tree.path, "node_modules").mkdir()
    with inhabitant(os.path.join(tree.path, "node_modules")):
        (fate,) = removal.all_of(garden.queue, garden.environ)
        assert fate.why.startswith("a process is at work in it: ")
    (fate,) = removal.all_of(garden.queue, garden.environ)
    assert fate.gone and not os.path.exists(tree.path)


@pytest.mark.parametrize("state", ["active", "blocked", "inbox"])
def test_a_task_that_will_be_gone_on_with_keeps_its_worktree(garden: Garden, state: str) -> None:
    tree = planted(garden, state)
    (fate,) = removal.all_of(garden.queue, garden.environ)
    assert (fate.gone, fate.why) == (False, f"t1 is in {state}")
    assert os.path.isdir(tree.path)


def test_an_unreadable_repository_keeps_everything(garden: Garden) -> None:
    tree = planted(garden)
    os.rename(garden.top / ".git", garden.top / ".git.away")
    (fate,) = removal.all_of(garden.queue, garden.environ)
    assert not fate.gone and "is gone, and this may be the last of it" in fate.why
    assert (Path(tree.path) / "README").exists()
    os.rename(garden.top / ".git.away", garden.top / ".git")
    assert removal.all_of(garden.queue, garden.environ)[0].gone


# ----------------------------------------------------------------------------------------------------- what lets it go


def nothing_done(_top: Path, _main: Path) -> None:
    pass


def pushed(top: Path, _main: Path) -> None:
    commit(top)
    git(top, "push", "-q", "-u", "origin", "HEAD")


def merged(top: Path, main: Path) -> None:
    commit(top)
    git(main, "merge", "-q", "--no-ff", "-m", "merge", "fleet/t1-g1")


def merged_by_a_detached_checkout(top: Path, main: Path) -> None:
    git(main, "checkout", "-q", "--detach")
    merged(top, main)


def with_caches(top: Path, _main: Path) -> None:
    for name in ("__pycache__", "node_modules/pkg/lib", "cache"):
        (top / name).mkdir(parents=True)
    (top / "__pycache__" / "a.pyc").write_text("x")
    (top / "node_modules" / "pkg" / "lib" / "a").write_text("x")
    (top / "cache" / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    (top / "cache" / "data").write_text("x")


def with_a_stash_of_another(_top: Path, main: Path) -> None:
    (main / "README").write_text("the person's own")
    git(main, "stash")


@pytest.mark.parametrize(
    "work", [nothing_done, pushed, merged, merged_by_a_detached_checkout, with_caches, with_a_stash_of_another]
)
def test_what_is_kept_elsewhere_goes_without_a_trace(garden: Garden, work: Callable[[Path, Path], None]) -> None:
    tree = planted(garden)
    config = (garden.top / ".git" / "config").read_bytes()
    work(Path(tree.path), garden.top)
    commits = git(garden.top, "rev-list", "--all", "--reflog").split()
    (would,) = removal.all_of(garden.queue, garden.environ, dry=True)
    assert would.gone and os.path.isdir(tree.path)
    (fate,) = removal.all_of(garden.queue, garden.environ)

    assert fate.gone, fate.why
    assert garden.traces() == []
    assert (garden.top / ".git" / "config").read_bytes().split() == config.split()
    for each in commits:
        assert git(garden.top, "cat-file", "-t", each) == "commit\n"
    assert removal.all_of(garden.queue, garden.environ) == []


def test_a_directory_that_somebody_removed_leaves_its_branch_until_that_is_kept_elsewhere(garden: Garden) -> None:
    tree = planted(garden)
    commit(Path(tree.path))
    shutil.rmtree(tree.path)
    (fate,) = removal.all_of(garden.queue, garden.environ)
    assert (fate.gone, fate.why) == (False, "its directory is gone, and fleet/t1-g1 is neither merged nor pushed")
    git(garden.top, "merge", "-q", "fleet/t1-g1")
    assert removal.all_of(garden.queue, garden.environ)[0].gone
    assert garden.traces() == []


def test_a_branch_that_a_person_has_checked_out_meanwhile_stays(garden: Garden) -> None:
    tree = planted(garden)
    commit(Path(tree.path))
    git(garden.top, "merge", "-q", "fleet/t1-g1")
    shutil.rmtree(tree.path)
    git(garden.top, "worktree", "prune")
    git(garden.top, "checkout", "-q", "fleet/t1-g1")
    (fate,) = removal.all_of(garden.queue, garden.environ)
    assert not fate.gone and "fleet/t1-g1 is checked out" in fate.why
    assert git(garden.top, "rev-parse", "HEAD") == git(garden.top, "rev-parse", tree.ref)


def test_what_has_no_record_is_named_and_left(garden: Garden) -> None:
    planted(garden)
    (garden.shelf() / "t9-g1-deadbeef").mkdir()
    (garden.shelf() / "t9-g1-deadbeef" / "work").touch()
    (garden.shelf() / "t8-g1-cafecafe.json").write_text('{"path": "/etc"}')
    removal.all_of(garden.queue, garden.environ)
    strays = removal.strays(garden.queue, garden.environ)
    assert [os.path.basename(path) for path in strays] == ["t8-g1-cafecafe.json", "t9-g1-deadbeef"]
    assert (garden.shelf() / "t9-g1-deadbeef" / "work").exists()


@pytest.mark.parametrize("made", [None, "false", 0, []])
def test_a_record_that_says_nothing_sensible_never_makes_a_worktree_a_half_made_one(
    garden: Garden, made: object
) -> None:
    tree = planted(garden)
    commit(Path(tree.path))
    record = tree._asdict() | {"made": made}
    Path(tree.file).write_text(json.dumps({name: value for name, value in record.items() if value is not None}))
    assert checkout.recover(garden.queue, garden.environ) == []
    assert (Path(tree.path) / "work").exists()
    assert tree.path in removal.strays(garden.queue, garden.environ)


@pytest.mark.parametrize("field", ["path", "branch", "common"])
def test_a_record_that_was_tampered_with_leads_nowhere(garden: Garden, field: str, tmp_path: Path) -> None:
    victim = repository(tmp_path / "victim")
    git(victim, "branch", "precious")
    tree = planted(garden)
    forged = {"path": str(victim), "branch": "precious", "common": str(victim / ".git")}[field]
    Path(tree.file).write_text(json.dumps(tree._asdict() | {field: forged}))
    before = (picture(victim), git(garden.top, "for-each-ref"), picture(Path(tree.path)))
    assert not any(fate.gone for fate in removal.all_of(garden.queue, garden.environ))
    assert (picture(victim), git(garden.top, "for-each-ref"), picture(Path(tree.path))) == before


def test_a_question_without_an_answer_is_a_doubt(garden: Garden, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = planted(garden)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "git cannot be run" in doubts.doubt(tree)
    assert not removal.all_of(garden.queue, garden.environ)[0].gone
    assert os.path.isdir(tree.path)
