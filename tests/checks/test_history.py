"""Commits that hold the queue's state are named with how far they have gone; nothing is changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent_fleet_checks.history import History


def git(root: Path, *arguments: str) -> str:
    environ = {"HOME": str(root), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    environ |= {f"GIT_{who}_{what}": "n@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def commit(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("x")
    git(root, "add", "-f", ".")
    git(root, "commit", "-qm", "one more")


def found(root: Path, name: str = ".agents") -> tuple[str, str]:
    (finding,) = History(str(root / name)).run(str(root))
    return finding.level, finding.text


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    return root


def test_a_history_without_the_queue_s_state_is_in_order(repository: Path) -> None:
    assert found(repository) == ("ok", "no commit holds state of the queue")
    commit(repository, "a.txt", ".agents/config.toml", ".agents-else/inbox/t1.json", "docs/.agents/inbox/t1.json")
    assert found(repository) == ("ok", "no commit holds state of the queue")


def test_state_that_was_taken_out_again_is_still_in_the_history(repository: Path) -> None:
    commit(repository, "a.txt", ".agents/journal.jsonl", ".agents/inbox/5.agent/t1.json", ".agents/config.toml")
    git(repository, "rm", "-rq", "--cached", ".agents")
    git(repository, "commit", "-qm", "without it")
    level, text = found(repository)
    assert level == "warning"
    assert text.startswith("commits hold 2 files of the queue, such as .agents/")
    assert text.endswith("no remote has them")


def test_a_stash_and_another_branch_count_and_a_renamed_queue_is_looked_for_by_its_name(repository: Path) -> None:
    commit(repository, "a.txt")
    git(repository, "checkout", "-qb", "other")
    commit(repository, "q[1]/journal.jsonl")
    git(repository, "checkout", "-q", "main")
    assert found(repository, "q[1]")[0] == "warning"
    assert found(repository, "q1")[0] == "ok"
    (repository / ".agents").mkdir()
    (repository / ".agents" / "journal.jsonl").write_text("x")
    git(repository, "stash", "-qu")
    assert found(repository)[0] == "warning"


def test_what_a_push_would_publish_and_what_one_has_published_are_faults(repository: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    git(tmp_path, "init", "-q", "--bare", str(remote))
    git(repository, "remote", "add", "origin", str(remote))
    commit(repository, "a.txt")
    git(repository, "push", "-q", "origin", "main")
    assert found(repository)[0] == "ok"
    commit(repository, ".agents/journal.jsonl")
    level, text = found(repository)
    assert (level, text) == (
        "fault",
        "the next push would publish commits with a file of the queue, such as .agents/journal.jsonl",
    )
    git(repository, "push", "-q", "origin", "main")
    level, text = found(repository)
    assert (level, text) == (
        "fault",
        "commits that a remote has hold a file of the queue, such as .agents/journal.jsonl",
    )
    (finding,) = History(str(repository / ".agents")).run(str(repository))
    assert "git filter-repo --invert-paths --path .agents" in finding.hint


def test_outside_git_and_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert found(tmp_path) == ("ok", "the project is in no git work tree")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(tmp_path)[0] == "unknown"
