"""`fleet run --worktree`: each task in a worktree of its own, seen from outside: by git, the journal and the files."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_fleet import process
from support.garden import Field
from support.procs import wait_until
from support.project import git
from support.runs import Site

COMMIT = "echo $FLEET_TASK > made-by-$FLEET_TASK && git add . && git commit -qm $FLEET_TASK"


def test_twenty_tasks_side_by_side_commit_each_on_a_branch_of_its_own(tmp_path: Path) -> None:
    site = Field(tmp_path)
    tasks = [site.command(f"{COMMIT} && sleep 0.5", "--check", "test -e made-by-t*") for _ in range(20)]
    with site.driving("--worktree", room=("--force", "--max", "20")) as driver:
        while driver.child.poll() is None:
            assert site.is_untouched()
            time.sleep(0.2)
        answer = driver.end()

    assert answer.status == 0
    assert site.counts() == {"done": 20}
    assert sorted(site.branches()) == sorted(f"fleet/{task}-g1" for task in tasks)
    for task in tasks:
        work = site.record(task)["worktree"]
        assert (work["commits"], work["files"], work["insertions"], work["uncommitted"]) == (1, 1, 1, 0)
        assert git(site.top, "show", "--format=", "--name-only", f"fleet/{task}-g1") == f"made-by-{task}\n"
        assert not site.record(task)["charged"] and len(site.records(task)) == 1
    assert ".lock" not in answer.err + "".join(path.read_text() for path in (site.dir / "logs").glob("*.log"))
    spans = sorted(span for each in site.intervals().values() for span in each)
    assert any(one[1] > other[0] for one, other in itertools.pairwise(spans))
    assert site.is_untouched() and site.is_clean()

    for task in tasks:
        git(site.top, "merge", "-q", "--no-edit", f"fleet/{task}-g1")
    assert len(site.json("clean")["removed"]) >= 20
    assert site.branches() == [] and list(site.shelf.iterdir()) == []
    assert len(git(site.top, "worktree", "list").splitlines()) == 1


DOUBTFUL = {
    "dirty": "echo mine >> README",
    "untracked": "echo mine > new",
    "stash": "echo mine >> README && git stash -q",
    "unpushed": "echo mine > new && git add new && git commit -qm mine",
}


def test_four_doubtful_trees_outlive_every_way_to_clean_up(tmp_path: Path) -> None:
    site = Field(tmp_path)
    tasks = {site.command(command): kind for kind, command in DOUBTFUL.items()}
    site.work("--worktree")
    assert site.counts() == {"done": 4}
    trees = {kind: site.tree(task) for task, kind in tasks.items()}

    def refs() -> list[str]:
        told = git(
            site.top,
            "for-each-ref",
            "--format=%(refname) %(objectname)",
            *(f"refs/heads/fleet/{task}-g1" for task in tasks),
        )
        return told.splitlines()

    def seen() -> dict[str, object]:
        facts: dict[str, object] = {"the stash": git(site.top, "stash", "list"), "refs": refs()}
        for kind, top in trees.items():
            files = {path.name: path.read_text() for path in top.iterdir() if path.name in ("README", "new")}
            facts[kind] = (files, git(top, "status", "--porcelain"), git(top, "rev-parse", "HEAD"))
        return facts

    before = seen()
    assert len(refs()) == 4 and before["the stash"]
    for attempt in range(2):
        kept = site.json("clean")["kept"]
        assert sorted(each["path"] for each in kept) == sorted(map(str, trees.values())), attempt
        assert all(each["why"] for each in kept)
    assert site.json("clean", "--dry-run")["removed"] == []
    site.json("reset")
    slow = site.command("touch $AGENT_ROOT/.agents/began; sleep 60")
    with site.driving("--worktree") as driver:
        wait_until((site.dir / "began").exists, "another task runs")
        driver.kill()
    site.json("stop")
    site.json("clean")
    site.command("true")
    with site.driving("--worktree", "--drain") as driver:
        driver.end()
    site.json("clean")
    assert site.state(slow) == "inbox"
    assert seen() == before
    assert site.is_untouched()


@pytest.mark.parametrize("whole_tree", [False, True], ids=["the driver alone", "git with it"])
def test_a_driver_killed_while_it_makes_a_worktree_leaves_nothing_half_made(tmp_path: Path, whole_tree: bool) -> None:
    site = Field(tmp_path)
    (site.top / ".gitattributes").write_text("README filter=slow\n")
    git(site.top, "add", ".gitattributes")
    git(site.top, "commit", "-qm", "attributes")
    slow = f"touch '{tmp_path}/adding'; while ! test -e '{tmp_path}/go'; do sleep 0.05; done; cat"
    git(site.top, "config", "filter.slow.smudge", f'sh -c "{slow}"')
    git(site.top, "config", "filter.slow.clean", "cat")
    task = site.command("pwd")
    with site.driving("--worktree") as driver:
        wait_until((tmp_path / "adding").exists, "git checks the worktree out")
        helpers = process.descendants(driver.pid)
        assert helpers
        driver.kill()
        if whole_tree:
            for proc in helpers:
                process.send(proc, signal.SIGKILL)
    (half,) = (path for path in site.shelf.iterdir() if path.is_dir())
    assert site.state(task) == "active" and site.branches() == [f"fleet/{task}-g1"]
    with site.driving("--worktree") as second:
        (tmp_path / "go").touch()
        assert second.end().status == 0

    assert site.state(task) == "done"
    assert str(half) not in site.record(task)["result"]
    assert site.branches() == [] and list(site.shelf.iterdir()) == []
    assert len(git(site.top, "worktree", "list").splitlines()) == 1
    assert list((site.top / ".git" / "worktrees").iterdir() if (site.top / ".git" / "worktrees").exists() else []) == []
    assert site.is_untouched() and site.is_clean()


def test_the_next_attempt_and_the_check_are_where_the_last_attempt_was(tmp_path: Path) -> None:
    site = Field(tmp_path)
    task = site.command("pwd; test -e began && exit 0; touch began; exit 1", "--check", "test -e began && pwd")
    site.work("--worktree")
    first, second = site.records(task)
    tree = site.tree(task)
    assert [first["outcome"], second["outcome"]] == ["failed", "done"]
    assert first["result"].strip() == str(tree) and str(tree) in second["result"]
    assert second["check"]["output"].strip() == str(tree)
    assert second["worktree"]["branch"] == "fleet/t1-g1" and second["worktree"]["uncommitted"] == 1


def test_an_attempt_after_the_worktree_was_removed_does_not_fall_back_to_the_checkout(tmp_path: Path) -> None:
    site = Field(tmp_path)
    task = site.command(
        'pwd; test -e $AGENT_ROOT/.agents/once && exit 0; touch $AGENT_ROOT/.agents/once; rm -rf "$PWD"; exit 1'
    )
    site.work("--worktree")
    first, second = site.records(task)
    assert first["worktree"]["note"] == "its directory is gone"
    assert second["result"].split()[-1] not in (str(site.root), first["result"].strip())
    assert site.is_untouched()


def test_done_without_anything_left_is_not_done(tmp_path: Path) -> None:
    site = Field(tmp_path, "[run]\nstagger = 0\ngrace = 2\n[queue]\nmax_attempts = 1\n")
    lost = site.command('rm -rf "$PWD"')
    kept = site.command(f'{COMMIT} && rm -rf "$PWD"')
    site.work("--worktree", status=1)
    assert (site.record(lost)["outcome"], site.record(lost)["reason"]) == (
        "failed",
        "its worktree is gone, and nothing was committed",
    )
    assert (site.state(kept), site.record(kept)["worktree"]["commits"]) == ("done", 1)
    (fate,) = (each for each in site.json("clean")["kept"] if "t2-g1" in each["path"])
    assert fate["why"] == "its directory is gone, and fleet/t2-g1 is neither merged nor pushed"


def test_a_worker_reports_by_itself_from_its_worktree(tmp_path: Path) -> None:
    site = Field(tmp_path)
    directory = tmp_path / "bin"
    directory.mkdir()
    script = directory / "fleet"
    code = "import sys; from agent_fleet.cli import main; main()"
    path = site.environment()["PYTHONPATH"]
    script.write_text(f"#!/bin/sh\nPYTHONPATH='{path}' exec '{sys.executable}' -c '{code}' \"$@\"\n")
    script.chmod(0o755)
    task = site.command(f"{COMMIT} && fleet done $FLEET_TASK --result 'I saw it'")
    answer = site.work("--worktree", env={"PATH": f"{directory}:{os.environ['PATH']}"})

    assert site.record(task)["result"] == "I saw it"
    assert "t1  fleet/t1-g1: 1 commit, 1 file (+1 -0); in " in answer.err
    (shown,) = site.json("show", task)["attempts"]
    assert (shown["worktree"]["commits"], shown["worktree"]["path"]) == (1, str(site.tree(task)))
    assert "fleet/t1-g1: 1 commit, 1 file (+1 -0)" in site.fleet("report", "r1").out
    assert "fleet/t1-g1: 1 commit" in site.fleet("show", task).out


def test_variables_of_a_hook_do_not_lead_a_worker_out_of_its_worktree(tmp_path: Path) -> None:
    site = Field(tmp_path)
    task = site.command(
        f"{COMMIT}; git rev-parse --show-toplevel; echo $PWD", "--check", "git log -1 --format=%s | grep t1"
    )
    leading = {
        "GIT_DIR": str(site.top / ".git"),
        "GIT_WORK_TREE": str(site.top),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
    }
    site.work("--worktree", env=leading)
    assert site.record(task)["result"].split()[-2:] == [str(site.tree(task))] * 2
    assert site.record(task)["worktree"]["commits"] == 1
    assert site.is_untouched()


def test_a_stash_that_vanished_is_told_with_the_commit_that_brings_it_back(tmp_path: Path) -> None:
    site = Field(tmp_path)
    (site.top / "README").write_text("the person's own work")
    git(site.top, "stash")
    commit = git(site.top, "rev-parse", "refs/stash").strip()
    task = site.command("git stash pop && git commit -qam taken")
    answer = site.work("--worktree")
    assert site.record(task)["worktree"]["lost_stashes"] == [commit]
    assert f"stash entries gone: {commit[:12]}" in answer.err
    git(site.top, "stash", "apply", commit)
    assert (site.top / "README").read_text() == "the person's own work"


def _none(_root: Path) -> None:
    pass


def _without_commits(root: Path) -> None:
    git(root, "init", "-q", ".")


@pytest.mark.parametrize(
    ("make", "why", "how"),
    [(_none, "is in no git work tree", "option"), (_without_commits, "has no commit yet", "setting")],
)
def test_a_run_that_could_make_no_worktree_starts_nothing(
    tmp_path: Path, make: Callable[[Path], None], why: str, how: str
) -> None:
    site = Site(tmp_path, "[run]\nworktree = 'on'\n" if how == "setting" else "")
    make(site.root)
    task = site.command("true")
    refused = site.json("run", *(["--worktree"] if how == "option" else []), status=2)
    assert refused["code"] == "refused" and why in refused["error"]
    assert site.state(task) == "inbox" and not list((site.dir / "runs").iterdir())
    site.work("--no-worktree")
    assert site.state(task) == "done"


def test_what_is_not_committed_is_said_to_be_in_no_worktree(tmp_path: Path) -> None:
    site = Field(tmp_path)
    (site.top / "README").write_text("not committed")
    task = site.command("cat README")
    answer = site.work("--worktree")
    assert "warning: 1 change here not committed: worktrees begin without it" in answer.err
    assert site.record(task)["result"].split()[-1] == "x"


def test_the_person_may_look_on_with_git_all_the_time(tmp_path: Path) -> None:
    """`git status` with its optional locks, commits and branches beside the run: neither disturbs the other."""
    site = Field(tmp_path)
    for _ in range(6):
        site.command(f"{COMMIT} && sleep 0.2")
    with site.driving("--worktree") as driver:
        commits = 0
        while driver.child.poll() is None:
            done = subprocess.run(
                ["git", "commit", "-q", "--allow-empty", "-m", "mine"], cwd=site.top, capture_output=True, check=False
            )
            assert done.returncode == 0, done.stderr
            commits += 1
            time.sleep(0.1)
        assert driver.end().status == 0
    assert commits > 2 and site.counts() == {"done": 6}
