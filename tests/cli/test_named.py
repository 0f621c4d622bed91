"""Lanes, providers and pools that a command line names: the same answer everywhere where there is no such thing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.accounts import registry_text
from support.runs import QUICK, Site

WORKING = (
    ("plan",),
    ("run", "--dry-run"),
    ("run",),
    ("deploy", "--task", "x", "--inputs", "-"),
    ("deploy", "--task", "x", "--inputs", "-", "--estimate"),
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def registered(site: Site) -> Site:
    """With a registry of one account, in the pool `toy-crew`."""
    (site.home / "work").mkdir()
    file = site.home / "accounts.toml"
    file.write_text(registry_text(site.home, {"toy-1": {"home": str(site.home / "share" / "1")}}))
    file.chmod(0o600)
    site.configure(f'{QUICK}[providers]\ndefault = "command"\n')
    return site


@pytest.mark.parametrize("arguments", WORKING, ids=" ".join)
def test_a_name_that_nothing_has_is_refused_alike_by_all_that_plan_and_work(
    site: Site, arguments: tuple[str, ...]
) -> None:
    registered(site)
    site.command("true")
    before = site.files()
    env = {"AGENT_FLEET_CONFIG": str(site.home / "accounts.toml")}
    for option, code, there in (
        ("--lane", "unknown_plugin", "headless"),
        ("--provider", "unknown_plugin", "command"),
        ("--pool", "bad_input", "toy-crew"),
    ):
        answer = site.fleet(*arguments, option, "typo", "--json", env=env, stdin=b"a\n")
        assert (answer.status, answer.data["code"]) == (2, code), (option, answer)
        assert "'typo'" in answer.data["error"]
        assert there in answer.data["hint"]
    assert site.files() == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("launch", "1", "--cmd", "true", "--lane", "typo"), "unknown_plugin"),
        (("open", "1", "--provider", "typo"), "unknown_plugin"),
        (("open", "1", "--pool", "typo"), "registry_missing"),
        (("plan", "--pool", "typo"), "registry_missing"),
        (("machine", "--lane", "typo"), "unknown_plugin"),
        (("machine", "--provider", "typo"), "unknown_plugin"),
        (("deploy", "--task", "x", "--inputs", "-", "--verify-lane", "typo"), "unknown_plugin"),
        (("deploy", "--task", "x", "--inputs", "-", "--verify-provider", "typo"), "unknown_plugin"),
        (("deploy", "--task", "x", "--inputs", "-", "--verify-pool", "typo"), "registry_missing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_so_does_every_other_command_that_takes_one(site: Site, arguments: tuple[str, ...], code: str) -> None:
    site.command("true")
    assert site.json(*arguments, status=2, stdin=b"a\n")["code"] == code
    assert not site.events("run_started")


def test_what_is_there_and_cannot_be_used_is_a_fact_that_a_plan_shows_and_a_run_refuses(site: Site) -> None:
    site.configure(QUICK + '[provider.claude]\nbinary = "no-such-program"\n')
    site.add("part")
    plan = site.json("plan", "--provider", "claude")
    assert plan["workers"] == 0
    assert "no-such-program" in plan["unusable_providers"]["claude"]
    assert site.json("run", "--provider", "claude", status=2)["code"] == "unusable"
    assert site.json("plan", "--windows")["workers"] == 0
    assert site.json("run", "--windows", status=2)["code"] == "unusable"


def test_a_wish_for_what_is_not_here_is_kept_and_told_of(site: Site) -> None:
    """It may be for another machine: the task waits, and whoever adds it hears so."""
    added = site.fleet("add", "x", "--lane", "typo", "--pool", "typo")
    assert added.status == 0
    assert added.err.count("wish for it wait") == 2
    batch = b'{"target": "a", "provider": "typo"}\n{"target": "b", "provider": "typo"}\n{"target": "c"}\n'
    added = site.fleet("add-batch", "-", "--lane", "headless", stdin=batch)
    assert added.err.splitlines() == [line for line in added.err.splitlines() if "'typo'" in line]
    assert len(added.err.splitlines()) == 1
    assert site.json("status")["counts"]["inbox"] == 4
    assert site.fleet("add", "y", "--lane", "headless", "--provider", "command").err == ""
