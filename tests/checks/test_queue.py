from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent_fleet_checks.queue import Queue


def git(root: Path, *arguments: str) -> None:
    environ = {"HOME": str(root), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", str(root), *arguments], env=environ, capture_output=True, check=True)


def findings(root: Path) -> list[tuple[str, str]]:
    return [(finding.level, finding.text) for finding in Queue(str(root / ".agents")).run(str(root))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".agents" / "inbox").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def repository(root: Path) -> Path:
    git(root, "init", "-q")
    return root


def test_a_directory_without_a_queue_is_a_warning(tmp_path: Path) -> None:
    assert [level for level, _ in findings(tmp_path)] == ["warning"]


def test_outside_git_there_is_nothing_to_say(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root.parent))
    assert findings(root) == [("ok", "the project is in no git work tree")]


def test_an_ignored_queue_is_in_order_with_a_shared_configuration(repository: Path) -> None:
    (repository / ".gitignore").write_text(".agents/*\n!.agents/config.toml\n", encoding="utf-8")
    (repository / ".agents" / "config.toml").write_text("", encoding="utf-8")
    git(repository, "add", ".")
    assert {level for level, _ in findings(repository)} == {"ok"}


def test_a_queue_that_git_sees_is_a_fault(repository: Path) -> None:
    found = findings(repository)
    assert [level for level, _ in found] == ["fault", "ok"]
    assert found[0][1].startswith("git does not ignore the queue")


def test_tracked_state_is_a_fault_even_if_it_is_ignored(repository: Path) -> None:
    (repository / ".agents" / "journal.jsonl").write_text("{}\n", encoding="utf-8")
    git(repository, "add", "-f", ".agents/journal.jsonl")
    (repository / ".git" / "info" / "exclude").write_text(".agents/\n", encoding="utf-8")
    assert findings(repository) == [("ok", "git ignores the queue"), ("fault", "git tracks a file of the queue")]


def test_variables_of_a_surrounding_git_hook_do_not_change_the_answer(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / ".git" / "info" / "exclude").write_text(".agents/\n", encoding="utf-8")
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("elsewhere")))
    assert ("ok", "git ignores the queue") in findings(repository)


def test_without_git_it_is_unknown_whether_the_queue_is_ignored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    assert [level for level, _ in findings(root)] == ["unknown"]


def test_mending_has_git_ignore_the_queue_and_changes_nothing_where_it_does(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / ".agents" / "inbox").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    check = Queue(str(root / ".agents"))
    assert "fault" in [found.level for found in check.run(str(root))]
    assert [found.level for found in check.mend(str(root))] == ["ok"]
    assert "fault" not in [found.level for found in check.run(str(root))]
    assert list(check.mend(str(root))) == []
