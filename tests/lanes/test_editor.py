"""Terminals of an editor: only in the window that is certainly the project's own, by one shortcut, and without a trace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_fleet.identity import LINUX
from agent_fleet_lanes._editor import root_of
from support import desktop as desktops
from support.desktop import Desktop
from support.editor import editor
from support.procs import wait_until
from support.project import git
from support.runs import Site

pytestmark = pytest.mark.skipif(not LINUX, reason="a window's process is looked at through /proc")

THEIRS = """\
{
  // what this project is built with
  "version": "2.0.0",
  "tasks": [
    { "label": "make", "type": "shell", "command": "make", "group": "build", }, // by hand
  ],
}
"""


@pytest.fixture
def desktop(tmp_path: Path) -> Iterator[Desktop]:
    with desktops.new_desktop(tmp_path) as found:
        yield found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    git(site.root, "init", "-q")
    site.json("init")
    (site.root / ".git" / "info" / "exclude").write_text("/.agents/\n")
    return site


def commit(site: Site, text: str) -> Path:
    path = site.root / ".vscode" / "tasks.json"
    path.parent.mkdir()
    path.write_text(text)
    git(site.root, "add", ".")
    git(site.root, "commit", "-q", "-m", "tasks")
    return path


def status(site: Site) -> str:
    return git(site.root, "status", "--porcelain", "--untracked-files=all")


def shortcuts(desktop: Desktop, before: int) -> int:
    """How often the shortcut was pressed since; the test fails if any other key was."""
    codes = {name: {int(code) for code in desktop.keycodes(name)} for name in ("Control_L", "Shift_L", "b")}
    events = [event.split() for event in desktop.keys[before:]]
    pressed = [int(code) for kind, code, _ in events if kind == "2"]
    assert set(pressed) <= set.union(*codes.values()), pressed
    return sum(code in codes["b"] for code in pressed)


@contextmanager
def watching(site: Site) -> Iterator[list[str]]:
    """What `git status` says while the block runs, each answer once."""
    said: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            found = status(site)
            if found not in said:
                said.append(found)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield said
    finally:
        over.set()
        thread.join()


def test_workers_run_in_the_projects_own_editor_and_its_tasks_are_as_they_were(site: Site, desktop: Desktop) -> None:
    path = commit(site, THEIRS)
    tasks = [site.command(f"echo {n} in $VSCODE_PID; tty <&2; sleep 1") for n in range(2)]
    with editor(desktop, site.root), desktops.window(desktop, "mine") as mine:
        before = len(desktop.keys)
        with site.driving("--vscode", env=desktop.env) as driver:
            wait_until(lambda: "fleet: worker" in path.read_text(), "the task is there")
            answer = driver.end()
        assert answer.status == 0, answer
        assert desktops.settled(desktop) == mine
    assert path.read_text() == THEIRS
    assert status(site) == ""
    assert [site.state(task) for task in tasks] == ["done", "done"]
    assert all("/dev/pts/" in site.record(task)["result"] for task in tasks)
    assert shortcuts(desktop, before) == 2
    assert "terminals of the project's editor window" in answer.err


def test_git_sees_nothing_during_a_run_in_a_project_without_tasks(site: Site, desktop: Desktop) -> None:
    task = site.command("echo worked")
    with editor(desktop, site.root), watching(site) as said:
        site.work("--terminals", env=desktop.env)
    assert site.state(task) == "done"
    assert said == [""]
    assert len(desktop.keys) > 2, "it was the editor's terminal"
    assert not (site.root / ".vscode").exists()


def test_a_window_that_is_not_certainly_the_projects_own_is_never_driven(
    site: Site, desktop: Desktop, tmp_path: Path
) -> None:
    desktops.require("tmux")
    other = tmp_path / "other" / "project"
    other.mkdir(parents=True)
    site.command("echo worked")
    said = []
    with editor(desktop, other, cwd=other):
        said.append(site.fleet("plan", "--vscode", env=desktop.env).out)
        with editor(desktop, site.root):
            said.append(site.fleet("plan", "--vscode", env=desktop.env).out)
    with editor(desktop, site.root, folder="projects"):
        said.append(site.fleet("plan", "--vscode", env=desktop.env).out)
        before = len(desktop.keys)
        refused = site.fleet("run", "--vscode", env=desktop.env)
        assert site.fleet("run", "--force", "--terminals", env={**desktop.env, "FLEET_TERMINAL": "no-such"}).status == 0
    assert "not certain" in said[0]
    assert "2 editor windows name 'project'" in said[1]
    assert "no editor window names 'project'" in said[2]
    assert refused.status == 2 and "no editor window" in refused.err
    assert len(desktop.keys) == before
    assert not (site.root / ".vscode").exists()


def test_a_file_of_the_projects_own_is_merged_only_if_the_person_says_so(site: Site, desktop: Desktop) -> None:
    commit(site, THEIRS)
    site.command("echo worked")
    with editor(desktop, site.root), watching(site) as said:
        plan = site.fleet("plan", "--terminals", env=desktop.env).out
        site.work("--terminals", env=desktop.env)
    assert "--vscode merges it" in plan
    assert said == [""]


def test_after_a_killed_run_the_file_is_restored_by_a_clean(site: Site, desktop: Desktop) -> None:
    path = commit(site, THEIRS)
    task = site.command("echo working; sleep 600")
    with editor(desktop, site.root), site.driving("--vscode", env=desktop.env) as driver:
        wait_until(lambda: site.reached(task, "active") and "fleet: worker" in path.read_text(), "it works")
        driver.kill()
        assert "fleet: worker" in path.read_text()
        found = site.json("clean")["findings"]
        assert [each["text"] for each in found if each["by"] == "terminal"][:1] == [".vscode/tasks.json is as it was"]
        assert path.read_text() == THEIRS
        assert status(site) == ""


@pytest.mark.parametrize(
    ("title", "directory"),
    [
        ("tasks.json - project - Visual Studio Code", "project"),
        ("project - Visual Studio Code", "project"),
        ("\u25cf a - b.py - project - Visual Studio Code", "project"),
        ("a.c - my - project - Code - OSS", "project"),
        ("x - project [SSH: host] - Visual Studio Code", "project [SSH: host]"),
        ("x - project (Workspace) - VSCodium", "project (Workspace)"),
        ("Welcome - Visual Studio Code", "Welcome"),
        ("project - Mozilla Firefox", ""),
        ("Visual Studio Code", ""),
    ],
)
def test_what_directory_a_title_names(title: str, directory: str) -> None:
    assert root_of(title) == directory
