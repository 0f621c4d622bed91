"""`fleet clean` and deployments: only what nobody needs goes, nobody else gets its name, and what was paid is still known."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_fleet.deploy import record
from support.deployments import hired
from support.runs import Site

ROOM = ("--force", "--stagger", "0")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return hired(Site(tmp_path))


def deploy(site: Site, lines: bytes, *options: str, status: int = 0) -> str:
    answer = site.json("deploy", "--task", "x", "--inputs", "-", *ROOM, *options, stdin=lines, status=status)
    return str(answer["run"])


def cleaned(site: Site, *words: str, env: dict[str, str] | None = None) -> tuple[list[str], dict[str, str]]:
    """The deployments that were removed, and why others were kept."""
    answer = site.json("clean", *words, env=env or {})
    gone = [Path(each["path"]).name for each in answer["removed"] if each["what"] == "deployment"]
    assert all(each["freed"] > 0 for each in answer["removed"] if each["what"] == "deployment")
    return gone, {Path(each["path"]).name: each["why"] for each in answer["kept"] if each["what"] == "deployment"}


def test_a_named_one_goes_after_it_was_shown_and_its_name_and_tasks_stay(site: Site) -> None:
    assert [deploy(site, b"a\n"), deploy(site, b"b\n")] == ["d1", "d2"]
    assert cleaned(site) == ([], {}), "nothing goes that nobody asked for"
    before = site.files()
    assert cleaned(site, "d2", "--dry-run") == (["d2"], {})
    assert site.files() == before
    assert "deployment" in site.fleet("clean", "d2", "--dry-run").out
    assert cleaned(site, "d2") == (["d2"], {})
    assert record.names(site.queue()) == ["d1"]
    assert site.counts() == {"done": 2}
    assert "was taken away" in site.json("report", "d2", status=4)["error"]
    assert site.json("clean", "d2", status=4)["code"] == "not_found"
    assert site.json("cost", "--run", "d2")["total"]["attempts"] == 1
    assert deploy(site, b"c\n") == "d3", "a name is given once"


def test_by_age_only_whole_ones_go(site: Site) -> None:
    old = {"FLEET_DEPLOY_KEEP": "0.001"}
    deploy(site, b"a\n")
    deploy(site, b"fail\n", status=1)
    assert cleaned(site, env={"FLEET_DEPLOY_KEEP": "1000"}) == ([], {})
    gone, kept = cleaned(site, env=old)
    assert gone == ["d1"]
    assert "not whole (0 of 1 item answered" in kept["d2"]
    assert cleaned(site, "d2") == (["d2"], {})


def test_what_can_still_be_worked_stays_whoever_names_it(site: Site) -> None:
    site.configure('[providers]\ndefault = "nobody"\n')
    deploy(site, b"a\n", status=1)
    gone, kept = cleaned(site, "d1")
    assert (gone, kept["d1"]) == ([], "1 task of it can still be worked; go on with: fleet resume-run d1")
