"""`fleet add`: the older name of --need, and what it may stand beside."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.project import Project


def fields(project: Project, *options: str) -> tuple[str, str]:
    """The need and the lane of a task that was added with these options."""
    task = project.json("show", project.add("echo x", *options))["task"]
    return task["need"], task.get("lane", "")


def test_a_need_may_be_given_by_its_older_name(project: Project) -> None:
    assert fields(project, "--exec", "browser") == ("browser", "")
    assert fields(project, "--lane", "serial") == ("serial", "")
    assert fields(project, "--serial") == ("serial", "")
    assert fields(project, "--need", "agent", "--lane", "agent") == ("agent", "")


@pytest.mark.parametrize("options", [("--lane", "serial"), ("--serial",)])
def test_a_shell_command_in_the_serial_lane_stays_a_shell_command(project: Project, options: tuple[str, ...]) -> None:
    assert fields(project, "--need", "command", *options) == ("command", "serial")


def test_two_needs_at_once_are_refused(project: Project) -> None:
    answer = project.json("add", "x", "--need", "command", "--exec", "browser", status=2)
    assert answer["code"] == "usage"
    assert project.json("status")["counts"]["inbox"] == 0


def test_a_text_that_begins_with_a_dash_is_refused_with_the_way_to_give_it(project: Project) -> None:
    assert "--" in project.json("add", "-x", status=2)["hint"].rpartition("; ")[2]
    assert project.fleet("add", "--json", "--", "-x").data["id"]


def test_a_path_outside_the_project_is_refused_however_it_comes(project: Project) -> None:
    note = project.root / "TASKS.md"
    note.write_text("- [ ] a\n  touches: /etc\n")
    batch = b'{"target": "fine"}\n{"target": "a", "touches": ["/etc"]}\n'
    for arguments, stdin in (
        (("add", "a", "--touches", "/etc"), b""),
        (("add-batch", "-"), batch),
        (("from-note",), b""),
    ):
        answer = project.json(*arguments, stdin=stdin, status=2)
        assert answer["code"] == "bad_input"
        assert "'/etc' lies outside the project" in answer["error"]
    assert project.json("status")["counts"]["inbox"] == 0


def test_an_absolute_path_of_the_project_is_kept_relative_to_its_root(project: Project, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project.root)
    for root in (project.root, link):
        task = project.json("--project", str(root), "add", "a", "--touches", f"{root}/src/", "--touches", "docs")["id"]
        assert project.json("show", task)["task"]["touches"] == ["src", "docs"]
