"""`fleet log`: what an attempt printed, readable and safe, also while it still prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_fleet.testing import FleetProject, script
from support.procs import wait_until
from support.runs import Site

COLOURED = r"printf '\033[1;31mred\033[0m\r\n\033]0;title\007at 10 %%\rat 99 %%\nno end'"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_terminal_s_sequences_go_unless_the_log_is_wanted_as_it_is(site: Site) -> None:
    task = site.command(COLOURED)
    site.work()
    assert site.fleet("log", task).out == "red\nat 99 %\nno end\n"
    assert site.fleet("log", task, "--tail", "2").out == "at 99 %\nno end\n"
    assert site.json("log", task)["lines"] == ["red", "at 99 %", "no end"]
    raw = site.fleet("log", task, "--raw").out
    assert raw == "\x1b[1;31mred\x1b[0m\r\n\x1b]0;title\x07at 10 %\rat 99 %\nno end\n"


def test_the_events_of_an_agent_are_rows_and_each_attempt_has_its_own(fleet_project: FleetProject) -> None:
    project = fleet_project
    task = project.add(f"SCRIPT: [{script('failed')[8:]}, {script('ok')[8:]}]")
    project.run()
    last = project.cli("log", task).json
    assert last["generation"] == 2
    assert last["lines"] == ["I look at the task.", "[tool] Edit", "[result] I did what was asked and saw it pass."]
    first = project.cli("log", task, "--attempt", "1").json["lines"]
    assert first == ["I look at the task.", "[result] It answered 404."]
    assert project.cli("log", task, "--raw").json["lines"][0].startswith('{"type": "started"')
    assert project.cli("log", task, "--attempt", "7").json["code"] == "not_found"
    assert "nobody has worked on it yet" in project.cli("log", project.add("later")).json["error"]
    assert project.cli("log", task, "--follow").json["code"] == "usage"


def test_following_shows_everything_once_and_ends_with_the_attempt(site: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    waiting = f"while [ ! -e {go} ]; do sleep 0.05; done"
    task = site.command(
        f"echo first; {waiting}; i=0; while [ $i -lt 2000 ]; do echo row $i; i=$((i+1)); done; printf end"
    )
    with site.driving() as driver:
        wait_until((site.dir / "logs" / f"{task}.g1.log").exists, "the attempt has begun")
        with site.start("log", task, "--follow") as following:
            assert following.stdout is not None
            assert following.stdout.readline() == b"first\n"
            assert following.poll() is None
            go.touch()
            rest = following.stdout.read().decode()
            assert following.wait(60) == 0
        driver.end()
    assert rest == "".join(f"row {number}\n" for number in range(2000)) + "end\n"


def test_a_log_that_was_replaced_by_a_link_is_not_followed(site: Site) -> None:
    task = site.command("echo seen")
    site.work()
    log = site.dir / "logs" / f"{task}.g1.log"
    log.unlink()
    log.symlink_to("/etc/passwd")
    answer = site.fleet("log", task)
    assert answer.status == 1
    assert "root:" not in answer.out
