"""`fleet report`, `fleet runs` and `fleet show` after a run: what is unknown is not shown as nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.runs import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_coverage_stands_first_and_a_run_that_is_not_whole_says_so(site: Site) -> None:
    site.configure("[queue]\nmax_attempts = 1\n")
    good, bad = site.command("echo seen", "--check", "true"), site.command("exit 3")
    site.work(status=1)

    rows = site.fleet("report", "r1").out.splitlines()
    assert rows[0] == "r1: 1 of 2 tasks done; 1 failed (not whole: no conclusion about the rest)"
    assert any(good in row and "checked by fleet" in row for row in rows)
    assert any(bad in row and "failed" in row for row in rows)

    report = site.json("report", "r1")
    assert report["coverage"] == {"asked": 2, "done": 1, "others": {"failed": 1}, "whole": False}
    (run,) = site.json("runs")["runs"]
    assert (run["id"], run["states"]) == ("r1", {"done": 1, "failed": 1})


def test_what_nobody_reported_is_unknown_and_not_nothing(site: Site) -> None:
    task = site.command("echo seen")
    site.work()

    report = site.json("report", "r1")
    assert (report["tokens"], report["money"]) == (None, None)
    assert "unknown" in site.fleet("report", "r1").out.splitlines()[-1]
    assert "used" not in site.fleet("show", task).out


def test_show_names_the_check_that_fleet_ran_and_what_came_of_it(site: Site) -> None:
    site.configure("[queue]\nmax_attempts = 1\n")
    task = site.command("echo seen", "--check", "echo missing; exit 7")
    site.work(status=1)

    shown = site.fleet("show", task).out
    assert "check: `echo missing; exit 7` exited 7\nmissing" in shown
    assert "{" not in shown, "no data structure is shown to a person"


def test_a_task_whose_file_was_set_aside_since_is_not_called_lost(site: Site) -> None:
    task = site.command("echo seen")
    site.work()
    (path,) = site.dir.glob(f"done/*/{task}.g1.json")
    path.write_bytes(b"")
    site.json("list")

    assert site.json("report", "r1")["coverage"]["others"] == {"set aside": 1}


def test_a_run_that_does_not_exist_is_not_found(site: Site) -> None:
    site.add("x")
    assert site.json("report", "r9", status=4)["code"] == "not_found"
