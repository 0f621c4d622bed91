"""`fleet open`: terminals now, and back at once; `fleet probe-browser`: whether a browser works here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet_lanes._tmux import Tmux
from support.desktop import require
from support.procs import wait_until
from support.runs import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.fleet("stop")


def test_open_starts_so_many_terminals_and_says_where_they_are(site: Site) -> None:
    require("tmux")
    tasks = [site.command("until [ -e over ]; do sleep 0.1; done; echo worked") for _ in range(3)]
    found = site.json("open", "2", "--tmux", "--force")
    assert found["run"] == "r1"
    assert f"tmux -S {Tmux(str(site.dir), site.environment()).socket} attach" in found["notes"][0]
    wait_until(lambda: sum(site.reached(task, "active") for task in tasks) == 2, "two work")
    (site.root / "over").touch()
    wait_until(lambda: all(site.reached(task, "done") for task in tasks), "all are done")
    assert {site.record(task)["lane"] for task in tasks} == {"terminal"}


def test_open_says_why_it_opens_none(site: Site) -> None:
    site.command("echo worked")
    answer = site.json("open", "1", "--windows", status=2)
    assert answer["code"] == "unusable"
    assert "there is no display" in answer["error"]
    assert site.fleet("open", "1", "--windows", env={"FLEET_WORKER": "x"}).status == 2


def test_a_browser_that_works_is_found_with_what_it_took(site: Site) -> None:
    require("chromium")
    found = site.json("probe-browser", "--timeout", "100")
    assert "Chromium" in found["version"]
    assert found["memory"] > 20 << 20 and found["processes"] >= 2
    assert found["seconds"] > 0
    assert [path for path in site.home.iterdir() if path.name.startswith("fleet-browser")] == []


def program(site: Site, name: str, text: str) -> str:
    directory = site.home / "bin"
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo no display; exit 1", "ended without showing the page: no display"),
        ("sleep 600", "did not show a page within 1 s"),
        ("exit 0", "it said nothing"),
    ],
)
def test_a_browser_that_does_not_work_is_named_with_the_reason_and_ended(site: Site, text: str, why: str) -> None:
    marker = str(site.home / "pids")
    path = program(site, "chrome", f'[ "$1" = --version ] && exit; echo $$ >> {marker}; {text}')
    found = site.json("probe-browser", "--timeout", "1", status=1, env={"FLEET_BROWSER": path})
    assert found["code"] == "unhealthy" and why in found["error"]
    for pid in Path(marker).read_text().split():
        assert not os.path.exists(f"/proc/{pid}") or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]


def test_without_a_browser_it_says_what_to_do(site: Site) -> None:
    (site.home / "empty").mkdir()
    found = site.json("probe-browser", status=1, env={"PATH": str(site.home / "empty")})
    assert "no browser" in found["error"] and "FLEET_BROWSER" in found["hint"]
    found = site.json("probe-browser", status=1, env={"FLEET_BROWSER": "/no/such"})
    assert "FLEET_BROWSER names" in found["error"]
