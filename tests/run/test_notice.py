"""Notifications: only where somebody sees them, never with words that mean something to the program that shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_fleet.run.notice import order, show
from agent_fleet.testing import FleetProject, script

SCREEN = {"DISPLAY": ":7"}


@pytest.mark.parametrize("environ", [{}, SCREEN | {"FLEET_NO_NOTIFY": "1"}])
def test_without_a_screen_or_where_it_is_not_wanted_nothing_is_shown(environ: dict[str, str]) -> None:
    assert order("linux", environ, "t1", "why") is None


def test_text_is_an_argument_and_never_an_option_or_markup() -> None:
    linux = order("linux", {"WAYLAND_DISPLAY": "wayland-0"}, "--help", "<b>captcha & more</b>\nsecond")
    assert linux is not None
    assert linux[-3:] == ("--", "--help", "&lt;b&gt;captcha &amp; more&lt;/b&gt; second")
    mac = order("darwin", {}, '" & quit', "why")
    assert mac is not None
    assert mac[-2:] == ('" & quit', "why")
    assert not any("quit" in part for part in mac[:-2])


def test_a_program_that_is_missing_or_fails_costs_nothing(tmp_path: Path) -> None:
    show(("no-such-program-here",), {"PATH": str(tmp_path)})
    show(("false",), {"PATH": "/usr/bin:/bin"})


def test_a_task_that_a_run_parks_is_told_to_the_person_at_the_screen(fleet_project: FleetProject) -> None:
    project = fleet_project
    project.program("notify-send", '#!/bin/sh\nfor word in "$@"; do echo "$word"; done >> "$HOME/told"\n')
    task = project.add(script("blocked"))
    project.cli("run", "--force", "--max", "1", env=SCREEN)

    assert project.show(task)["state"] == "blocked"
    told = (project.home / "told").read_text(encoding="utf-8")
    assert f"fleet: {task} waits for you" in told
