"""Making worktrees: whole or not at all, one at a time in a repository, from every kind of repository or with a clear refusal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fleet import git as real_git
from agent_fleet.errors import FleetError
from agent_fleet.model import Task
from agent_fleet.run import checkout, worktree
from agent_fleet.run.worktree import Tree
from support.garden import Garden
from support.procs import running, wait_until
from support.project import git, repository
from support.racers import racers


def test_a_worktree_has_a_branch_of_its_own_at_head_and_tracks_nothing(tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository(tmp_path / "origin")), "clone")
    garden = Garden(tmp_path / "clone")
    before = (garden.top / ".git" / "config").read_bytes()
    tree = garden.provide(garden.task())

    assert tree.branch == "fleet/t1-g1"
    assert git(Path(tree.path), "symbolic-ref", "HEAD").strip() == "refs/heads/fleet/t1-g1"
    assert git(Path(tree.path), "rev-parse", "HEAD") == git(garden.top, "rev-parse", "HEAD")
    assert (garden.top / ".git" / "config").read_bytes() == before
    assert git(garden.top, "status", "--porcelain", "--ignored").split() in ([], ["??", ".agents/"])
    assert worktree.mismatch(tree) == ""


def test_the_project_has_the_same_place_in_the_worktree_as_in_its_repository(tmp_path: Path) -> None:
    top = repository(tmp_path / "repo")
    garden = Garden(top, top / "packages" / "my web [x]\nnew line")
    tree = garden.provide(garden.task())
    assert tree.cwd == os.path.join(tree.path, "packages", "my web [x]\nnew line")
    assert os.path.isdir(tree.cwd)
    assert git(Path(tree.path), "status", "--porcelain") == ""


def test_no_hook_and_no_variable_of_the_caller_has_a_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    garden = Garden(repository(tmp_path / "repo"))
    other = repository(tmp_path / "other")
    hook = garden.top / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/hooked'\n")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    tree = garden.provide(garden.task())

    assert worktree.mismatch(tree) == ""
    assert not (tmp_path / "hooked").exists()
    assert git(other, "branch", "--list", "fleet/*") == ""


def bare(tmp: Path) -> Path:
    git(tmp, "clone", "-q", "--bare", str(repository(tmp / "origin")), "repo.git")
    return tmp / "repo.git"


def empty(tmp: Path) -> Path:
    (tmp / "repo").mkdir()
    git(tmp / "repo", "init", "-q", ".")
    return tmp / "repo"


def none(tmp: Path) -> Path:
    (tmp / "repo").mkdir()
    return tmp / "repo"


def with_submodules(tmp: Path) -> Path:
    outer = repository(tmp / "outer")
    git(outer, "submodule", "--quiet", "add", str(repository(tmp / "inner")), "sub")
    git(outer, "commit", "-qm", "sub")
    return outer


def with_a_branch_in_the_way(tmp: Path) -> Path:
    made = repository(tmp / "repo")
    git(made, "branch", "fleet")
    return made


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (bare, "is in no git work tree"),
        (none, "is in no git work tree"),
        (empty, "no commit yet"),
        (with_submodules, "has submodules"),
        (with_a_branch_in_the_way, "a branch is called fleet"),
    ],
)
def test_what_no_worktree_can_be_made_of_is_refused_and_left_as_it_is(
    tmp_path: Path, kind: Callable[[Path], Path], why: str
) -> None:
    garden = Garden(kind(tmp_path))
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(FleetError, match=why) as refused:
        checkout.survey(str(garden.root))
    assert refused.value.code == "refused"
    with pytest.raises(FleetError, match=why):
        garden.provide(Task(id="t1", target="x"))
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def linked(tmp: Path) -> Path:
    git(repository(tmp / "main"), "worktree", "add", "-q", str(tmp / "linked"))
    return tmp / "linked"


def beside_bare(tmp: Path) -> Path:
    git(bare(tmp), "worktree", "add", "-q", str(tmp / "checkout"))
    return tmp / "checkout"


def in_a_submodule(tmp: Path) -> Path:
    return with_submodules(tmp) / "sub"


def detached(tmp: Path) -> Path:
    made = repository(tmp / "repo")
    git(made, "checkout", "-q", "--detach")
    return made


def sparse(tmp: Path) -> Path:
    made = repository(tmp / "repo")
    for name in ("wanted", "unwanted"):
        (made / name).mkdir()
        (made / name / "file").write_text("x")
    git(made, "add", ".")
    git(made, "commit", "-qm", "more")
    git(made, "sparse-checkout", "set", "wanted")
    return made


@pytest.mark.parametrize("kind", [linked, beside_bare, in_a_submodule, detached, sparse])
def test_every_other_kind_of_checkout_gets_a_worktree_like_itself(tmp_path: Path, kind: Callable[[Path], Path]) -> None:
    garden = Garden(kind(tmp_path))
    tree = garden.provide(garden.task())

    assert worktree.mismatch(tree) == ""
    assert git(Path(tree.path), "rev-parse", "HEAD") == git(garden.top, "rev-parse", "HEAD")
    files = {path.name for path in Path(tree.path).iterdir()} - {".git"}
    assert files == {path.name for path in garden.top.iterdir()} - {".git", ".agents"}
    if kind is sparse:
        assert "wanted" in files and "unwanted" not in files


def test_twenty_made_at_once_by_as_many_processes_are_all_whole(tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository(tmp_path / "origin")), "clone")
    garden = Garden(tmp_path / "clone")
    tasks = [garden.task() for _ in range(20)]
    with racers(20, lambda index: garden.provide(tasks[index]).branch) as processes:
        branches = processes.race()

    assert sorted(branches) == sorted(f"fleet/{task.id}-g1" for task in tasks)
    trees = worktree.trees(str(garden.shelf()))
    assert [worktree.mismatch(tree) for tree in trees] == [""] * 20
    assert len(git(garden.top, "worktree", "list").splitlines()) == 21
    assert not list((garden.top / ".git").rglob("*.lock"))


def test_one_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    garden = Garden(repository(tmp_path / "repo"))
    git(garden.top, "config", "filter.broken.smudge", "false")
    git(garden.top, "config", "filter.broken.clean", "cat")
    git(garden.top, "config", "filter.broken.required", "true")
    (garden.top / ".gitattributes").write_text("* filter=broken\n")
    git(garden.top, "add", ".gitattributes")
    git(garden.top, "commit", "-qm", "broken")
    with pytest.raises(FleetError) as failed:
        garden.provide(garden.task())

    assert failed.value.code == "unavailable"
    assert garden.traces() == []
    assert len(git(garden.top, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("stage", range(5))
def test_whatever_was_half_made_is_taken_away_and_nothing_else(tmp_path: Path, stage: int) -> None:
    """The states that a maker can leave, from the record alone to everything but the last word; beside others' worktrees."""
    garden = Garden(repository(tmp_path / "repo"))
    git(garden.top, "worktree", "add", "-q", str(tmp_path / "theirs"))
    git(garden.top, "branch", "fleet/other")
    shutil.rmtree(tmp_path / "theirs")  # theirs is away for now, on another disk perhaps: it must not be pruned
    finished = garden.provide(garden.task())
    half = garden.provide(garden.task())._replace(made=False)
    worktree.write(half)
    if stage <= 3:
        (Path(half.path) / "README").unlink()
        (Path(half.admin) / "locked").write_text("initializing")
    if stage <= 2:
        shutil.rmtree(half.path)
        (Path(half.admin) / "gitdir").unlink()
    if stage <= 1:
        shutil.rmtree(half.admin)
    if stage == 0:
        git(garden.top, "update-ref", "-d", half.ref)

    assert checkout.recover(garden.queue, garden.environ) == [half.path]
    assert checkout.recover(garden.queue, garden.environ) == []
    assert garden.traces() == sorted(
        ["fleet/other", finished.branch, finished.name, finished.name, f"{finished.name}.json"]
    )
    assert worktree.mismatch(finished) == ""
    assert (garden.top / ".git" / "worktrees" / "theirs").is_dir()


def test_a_branch_that_is_not_where_it_was_made_is_not_deleted_with_a_half_made_worktree(tmp_path: Path) -> None:
    garden = Garden(repository(tmp_path / "repo"))
    half = garden.provide(garden.task())._replace(made=False)
    git(Path(half.path), "commit", "-q", "--allow-empty", "-m", "somebody was quick")
    worktree.write(half)
    checkout.recover(garden.queue, garden.environ)
    assert garden.traces() == [half.branch]


def test_the_next_attempt_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    garden = Garden(repository(tmp_path / "repo"))
    task = garden.task()
    first = garden.provide(task, 1)
    (Path(first.path) / "half done").write_text("x")
    assert garden.provide(task, 2) == first


def gone(tree: Tree) -> None:
    shutil.rmtree(tree.path)


def on_another_branch(tree: Tree) -> None:
    git(Path(tree.path), "checkout", "-q", "-b", "elsewhere")


def adrift(tree: Tree) -> None:
    git(Path(tree.path), "checkout", "-q", "--detach")


def replaced(tree: Tree) -> None:
    shutil.rmtree(tree.path)
    repository(Path(tree.path))


def a_link(tree: Tree) -> None:
    os.rename(tree.path, tree.path + ".moved")
    os.symlink(tree.path + ".moved", tree.path)


def no_repository(tree: Tree) -> None:
    os.unlink(os.path.join(tree.path, ".git"))


@pytest.mark.parametrize("harm", [gone, on_another_branch, adrift, replaced, a_link, no_repository])
def test_an_attempt_never_works_in_a_place_that_is_not_what_it_was(
    tmp_path: Path, harm: Callable[[Tree], None]
) -> None:
    garden = Garden(repository(tmp_path / "repo"))
    task = garden.task()
    first = garden.provide(task, 1)
    harm(first)
    second = garden.provide(task, 2)

    assert second.path != first.path and second.branch == "fleet/t1-g2"
    assert worktree.mismatch(second) == ""
    assert git(garden.top, "rev-parse", first.ref).strip() == first.base
    assert garden.provide(task, 3) == second


def test_a_task_of_the_same_name_in_a_queue_that_was_made_anew_is_another_task(tmp_path: Path) -> None:
    garden = Garden(repository(tmp_path / "repo"))
    first = garden.provide(garden.task())
    again = replace(garden.task(), id="t1")
    second = garden.provide(again)
    assert second.path != first.path
    assert second.branch.startswith("fleet/t1-g1-")  # the short name is taken
    copied = Garden(Path(shutil.copytree(garden.top, tmp_path / "copy", symlinks=True)))
    assert copied.shelf() != garden.shelf()


def test_the_disk_keeps_its_reserve(tmp_path: Path) -> None:
    garden = Garden(repository(tmp_path / "repo"))
    (garden.top / "large").write_bytes(os.urandom(3 << 20))
    git(garden.top, "add", "large")
    git(garden.top, "commit", "-qm", "large")
    with pytest.raises(FleetError, match=r"a worktree takes 3\.. MiB") as full:
        garden.provide(garden.task(), reserve=1 << 60)
    assert full.value.code == "disk_full"
    assert garden.traces() == []


def test_a_state_directory_inside_the_repository_is_kept_out_of_git_status(tmp_path: Path) -> None:
    """As in a home that is a repository itself."""
    garden = Garden(repository(tmp_path / "home"))
    garden.environ = {"AGENT_FLEET_STATE_DIR": str(garden.top / ".local" / "state")}
    tree = garden.provide(garden.task())
    assert worktree.mismatch(tree) == ""
    assert git(garden.top, "status", "--porcelain").split() == ["??", ".agents/"]


def test_git_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    made = repository(tmp_path / "repo")
    git(made, "config", "alias.hang", "!echo $$ > pid; sleep 300")
    with pytest.raises(FleetError, match="took longer than 2 s"):
        real_git.ask(str(made), "hang", timeout=2)
    pid = int((made / "pid").read_text())
    wait_until(lambda: not running(pid), "what it had started is ended")
