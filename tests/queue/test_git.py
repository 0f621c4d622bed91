"""No trace in the project: `git status` stays empty, whatever kind of repository it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_fleet.config import load
from agent_fleet.model import Outcome
from agent_fleet.queue import holds
from agent_fleet.run.gates import gates_of
from support.project import Project, git, repository


def plain(tmp: Path) -> tuple[Path, Path]:
    return (repository(tmp / "plain"),) * 2


def worktree(tmp: Path) -> tuple[Path, Path]:
    git(repository(tmp / "main"), "worktree", "add", "-q", str(tmp / "linked"))
    return (tmp / "linked",) * 2


def submodule(tmp: Path) -> tuple[Path, Path]:
    outer = repository(tmp / "outer")
    git(outer, "submodule", "--quiet", "add", str(repository(tmp / "inner")), "sub")
    git(outer, "commit", "-qm", "sub")
    return (outer / "sub",) * 2


def beside_bare(tmp: Path) -> tuple[Path, Path]:
    """A bare repository with a checkout beside it, which is the only place where anybody works."""
    git(tmp, "clone", "-q", "--bare", str(repository(tmp / "origin")), str(tmp / "repo.git"))
    git(tmp / "repo.git", "worktree", "add", "-q", str(tmp / "checkout"))
    return (tmp / "checkout",) * 2


def around_bare(tmp: Path) -> tuple[Path, Path]:
    """The same with the bare repository inside a directory that holds all checkouts and points to it."""
    holder = tmp / "holder"
    holder.mkdir()
    git(tmp, "clone", "-q", "--bare", str(repository(tmp / "origin")), str(holder / ".bare"))
    (holder / ".git").write_text("gitdir: ./.bare\n")
    git(holder, "worktree", "add", "-q", "main")
    return (holder / "main",) * 2


def below(tmp: Path) -> tuple[Path, Path]:
    inside = repository(tmp / "top") / "packages" / "web"
    inside.mkdir(parents=True)
    return tmp / "top", inside


def strange(tmp: Path) -> tuple[Path, Path]:
    inside = repository(tmp / "my project [x]*?") / "sub dir!" / "#weird\\name "
    inside.mkdir(parents=True)
    return tmp / "my project [x]*?", inside


def shared_exclude(tmp: Path) -> tuple[Path, Path]:
    """An exclude file that a link leads to, without a line end, with a line of its own."""
    made = repository(tmp / "dotfiles")
    (tmp / "my-excludes").write_text("*.swp")
    (made / ".git" / "info" / "exclude").unlink(missing_ok=True)
    (made / ".git" / "info" / "exclude").symlink_to(tmp / "my-excludes")
    return (made,) * 2


def no_info(tmp: Path) -> tuple[Path, Path]:
    made = repository(tmp / "bare-bones")
    (made / ".git" / "info" / "exclude").unlink(missing_ok=True)
    (made / ".git" / "info").rmdir()
    return (made,) * 2


@pytest.mark.parametrize(
    "kind", [plain, worktree, submodule, beside_bare, around_bare, below, strange, shared_exclude, no_info]
)
@pytest.mark.parametrize("name", [".agents", "work queue [1]"])
def test_git_status_stays_empty(tmp_path: Path, kind: Callable[[Path], tuple[Path, Path]], name: str) -> None:
    top, root = kind(tmp_path)
    project = Project(root, home=tmp_path / "home", name=name)
    named = {"AGENT_DIR": name}
    project.json("init", ".", env=named)
    project.json("add", "something", env=named)
    project.json("claim", "w", env=named)
    project.json("done", "t1", "--result", "seen", env=named)
    project.json("init", ".", env=named)
    assert (project.dir / "queue.json").is_file()
    assert git(top, "status", "--porcelain", "--untracked-files=all") == ""
    assert not (top / ".gitignore").exists()
    if kind is shared_exclude:
        assert (tmp_path / "my-excludes").read_text().startswith("*.swp\n")
        assert (top / ".git" / "info" / "exclude").is_symlink()


def test_a_queue_is_made_and_hidden_in_another_directory_than_this_one(tmp_path: Path) -> None:
    here = Project(repository(tmp_path / "here"), home=tmp_path / "home")
    there = repository(tmp_path / "there")
    outer = repository(tmp_path / "outer")
    linked = tmp_path / "linked"
    git(outer, "worktree", "add", "-q", str(linked))
    for place in (there, linked, outer):
        for named in ({}, {"AGENT_DIR": "work queue"}, {"GIT_DIR": str(here.root / ".git")}):
            assert here.json("init", str(place), env=named)["root"] == str(place)

    for place in (there, linked, outer):
        assert (place / ".agents" / "queue.json").exists() and (place / "work queue" / "queue.json").exists()
        assert git(place, "status", "--porcelain", "--untracked-files=all") == ""
    assert not here.dir.exists()
    assert git(here.root, "status", "--porcelain", "--untracked-files=all") == ""
    assert here.fleet("init", str(tmp_path / "nowhere")).status == 4


def test_only_our_entries_of_a_directory_that_others_use_too_are_hidden(tmp_path: Path) -> None:
    root = repository(tmp_path / "shared")
    (root / ".agents").mkdir()
    (root / ".agents" / "rules.md").write_text("theirs")
    git(root, "add", ".agents")
    git(root, "commit", "-qm", "theirs")
    project = Project(root, home=tmp_path / "home")
    project.json("init", ".")
    project.add("something")
    project.json("claim", "w")
    assert git(root, "status", "--porcelain", "--untracked-files=all") == ""
    (root / ".agents" / "new.md").write_text("theirs, new")
    (root / ".agents" / "rules.md").write_text("theirs, changed")
    assert git(root, "status", "--porcelain").splitlines() == [" M .agents/rules.md", "?? .agents/new.md"]
    project.json("init", ".")
    assert "?? .agents/new.md" in git(root, "status", "--porcelain")


def test_what_a_run_leaves_beside_the_files_of_others_is_hidden_too(tmp_path: Path) -> None:
    project = Project(repository(tmp_path / "shared"), home=tmp_path / "home")
    (project.dir / "skills").mkdir(parents=True)
    project.json("init", ".")
    project.add("echo done", "--need", "command")
    assert project.fleet("run", "--force").status == 0
    gates_of(project.queue(), load(str(project.root), queue_dir=str(project.dir), environ={})).close(
        "claude", Outcome(kind="limit", reason="the week is used up")
    )
    holds.put(project.queue(), {"t1": {"why": "later", "until": 4e9, "source": "test"}})

    assert git(project.root, "status", "--porcelain") == ""


def test_hiding_twice_writes_the_lines_once(tmp_path: Path) -> None:
    root = repository(tmp_path / "plain")
    project = Project(root, home=tmp_path / "home")
    project.json("init", ".")
    exclude = root / ".git" / "info" / "exclude"
    once = exclude.read_bytes()
    project.json("init", ".")
    assert exclude.read_bytes() == once
    assert once.count(b".agents/") == 1


def test_an_exclude_file_that_cannot_be_written_is_said_and_stops_nothing(tmp_path: Path) -> None:
    root = repository(tmp_path / "plain")
    exclude = root / ".git" / "info" / "exclude"
    exclude.unlink(missing_ok=True)
    exclude.mkdir()
    answer = Project(root, home=tmp_path / "home").fleet("init", ".")
    assert answer.status == 0
    assert "not hidden from git" in answer.err


def test_a_project_without_git_works_and_says_nothing_of_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "plain", home=tmp_path / "home")
    answer = project.fleet("init", ".", env={"PATH": "/nonexistent"})
    assert (answer.status, answer.err) == (0, "")
    assert project.add("something") == "t1"


def test_an_empty_directory_called_git_makes_no_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    project = Project(tmp_path / "inside", home=tmp_path / "home")
    answer = project.json("init")
    assert answer["root"] == str(tmp_path / "inside")


def test_the_root_is_found_from_below_and_can_be_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "plain")
    inside = root / "a" / "b"
    inside.mkdir(parents=True)
    project = Project(root, home=tmp_path / "home")
    assert project.json("where", cwd=inside)["root"] == str(root)
    assert project.json("init", cwd=inside)["root"] == str(root)
    assert project.json("add", "x", cwd=inside)["id"] == "t1"
    assert project.json("list", cwd=tmp_path, env={"AGENT_ROOT": str(root)})["tasks"]
    assert project.json("list", "--project", str(root), cwd=tmp_path)["tasks"]
    other = repository(tmp_path / "other")
    assert project.json("where", cwd=other)["root"] == str(other)
    nested = repository(root / "vendored")
    assert project.json("init", cwd=nested)["root"] == str(nested)
    assert project.json("where", env={"AGENT_ROOT": "/nonexistent"}, status=4)["code"] == "not_found"
    for wrong in ("a/b", "..", ".git"):
        assert project.json("where", env={"AGENT_DIR": wrong}, status=2)["code"] == "bad_config"


def test_a_directory_that_only_has_the_name_is_no_queue(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    (root / ".agents").mkdir(parents=True)
    project = Project(root, home=tmp_path / "home")
    assert project.json("list", "--project", ".", status=4)["code"] == "not_found"
    assert os.listdir(root / ".agents") == []


def test_a_queue_of_a_newer_format_is_refused(project: Project) -> None:
    (project.dir / "queue.json").write_text('{"format": 99}')
    for command in (("list",), ("add", "x"), ("claim", "w")):
        assert project.json(*command, status=2)["code"] == "format_newer"
