"""Scenarios C1 to C12 and C53 to C61: the registry, homes, and what is on record. Row numbers are those of the suite's table."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable

from support.systems import Ours

Build = Callable[..., Ours]


def test_c1_version_and_contract_need_no_registry(build: Build) -> None:
    machine = build(ready=False)
    machine.file.unlink()
    assert machine.must("version")
    contract = machine.must("contract")
    assert contract["contract_version"] == 2
    assert "json" in contract["formats"]


def test_c2_a_command_line_that_cannot_be_understood_ends_with_2(build: Build) -> None:
    machine = build(ready=False)
    assert machine.say("no-such-command").status == 2
    assert machine.say("lease", "choose", "--task", "t").status == 2


def test_c3_a_refusal_is_one_object_that_says_so(build: Build) -> None:
    machine = build(ready=False)
    found = machine.refused("lease", "acquire", "--profile", "nobody", "--task", "t", "--workspace", str(machine.root))
    assert machine.name == "peer" or found.data["code"]


def test_c4_a_second_init_changes_nothing(build: Build) -> None:
    machine = build(ready=False)
    before = machine.file.read_bytes()
    assert machine.refused("init", "--claude", "3").status == 2
    assert machine.file.read_bytes() == before


def test_c5_a_registry_of_nobody_is_not_made(build: Build) -> None:
    machine = build(ready=False)
    machine.file.unlink()
    for number in ("0", "-1"):
        assert machine.say("init", "--claude", number).status == 2
        assert not machine.file.exists()


def test_c6_a_label_is_opaque(build: Build) -> None:
    machine = build(ready=False)
    for label in ("a@b", "x" * 129, ".hidden"):
        assert machine.refused("profile", "add", label, "--provider", "claude").status == 2


def test_c7_what_a_profile_is_unless_told_otherwise(build: Build) -> None:
    machine = build(ready=False)
    machine.must("profile", "add", "claude-9", "--provider", "claude")
    (found,) = [each for each in machine.must("profile", "list")["profiles"] if each["id"] == "claude-9"]
    assert (found["enabled"], found["weight"], found["max_concurrent"], found["reserve_percent"]) == (False, 1, 2, 15)
    assert sorted(found["pools"]) == ["claude-crew", "claude-manual"]


def test_c8_a_reserve_is_never_in_the_crew_enabled_or_looked_at(build: Build) -> None:
    machine = build(claude=2)
    machine.must("profile", "disable", "claude-2")
    machine.must("profile", "policy", "claude-2", "--safety-policy", "manual_only")
    (found,) = [each for each in machine.must("profile", "list")["profiles"] if each["id"] == "claude-2"]
    assert "claude-crew" not in found["pools"]
    machine.refused("profile", "enable", "claude-2")
    where = ("--task", "t", "--workspace", str(machine.root))
    machine.refused("lease", "acquire", "--profile", "claude-2", *where)


def test_c9_homes_do_not_lie_in_one_another(build: Build) -> None:
    machine = build(ready=False)
    home = str(machine.home_of("claude-1"))
    for place in (home, f"{home}/below", str(machine.kept / "x"), str(machine.top / "share")):
        machine.refused("profile", "add", "claude-9", "--provider", "claude", "--home", place)


def test_c10_provisioning_twice_changes_nothing_and_no_login(build: Build) -> None:
    machine = build(claude=1, codex=1)
    before = {}
    for label in machine.labels:
        home = machine.home_of(label)
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        for path in home.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
                before[path] = path.read_bytes()
    machine.must("profile", "provision", "--all")
    assert {path: path.read_bytes() for path in before} == before


def test_c11_what_the_program_keeps_in_its_files_stays(build: Build) -> None:
    machine = build(claude=1)
    settings = machine.home_of("claude-1") / "settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "theme": "dark"}))
    machine.must("profile", "provision", "claude-1")
    assert json.loads(settings.read_text())["theme"] == "dark"


def test_c12_a_home_that_is_a_link_is_refused(build: Build) -> None:
    machine = build(ready=False)
    home = machine.home_of("claude-1")
    home.parent.mkdir(parents=True, mode=0o700)
    (machine.top / "elsewhere").mkdir(mode=0o700)
    os.symlink(machine.top / "elsewhere", home)
    found = machine.say("profile", "provision", "claude-1")
    assert found.status != 0 or not (machine.top / "elsewhere" / "settings.json").exists(), found


def test_c53_a_new_profile_disturbs_nobody(build: Build) -> None:
    machine = build(claude=1)
    machine.must("profile", "add", "claude-9", "--provider", "claude")
    assert machine.choose("t").data["profile"] == "claude-1"


def test_c54_the_persons_own_login_may_change(build: Build) -> None:
    machine = build(claude=1)
    own = machine.home / ".claude"
    own.mkdir(parents=True, exist_ok=True)
    (own / ".credentials.json").write_text(json.dumps({"claudeAiOauth": {"accessToken": "of-the-person-itself"}}))
    assert machine.choose("t").data["profile"] == "claude-1"


def test_c55_a_healthy_profile_is_enabled(build: Build) -> None:
    machine = build(claude=1)
    machine.must("profile", "disable", "claude-1")
    machine.must("profile", "enable", "claude-1")
    assert [each["enabled"] for each in machine.must("profile", "list")["profiles"]] == [True]


def test_c61_every_change_leaves_one_line_without_what_is_private(build: Build) -> None:
    machine = build(claude=1)
    before = len(machine.must("audit", "--limit", "1000")["events"])
    machine.choose("a task of mine")
    machine.must("lease", "release", "--task", "a task of mine")
    machine.must("profile", "cooldown", "claude-1", "--seconds", "9", "--reason", "x")
    machine.must("profile", "cooldown-clear", "claude-1")
    events = machine.must("audit", "--limit", "1000")["events"]
    assert len(events) == before + 4
    text = (machine.kept / "audit.jsonl").read_text()
    assert "a task of mine" not in text
    assert ".credentials" not in text
