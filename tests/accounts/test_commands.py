"""Accounts from the command line, with a provider whose logins and numbers are files that the test writes."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fleet.accounts import outputs
from agent_fleet.accounts.vault import Vault
from support.accounts import Machine, eligible, ready, work_tree
from support.estate import Estate
from support.fleet_server import FleetServer
from support.project import git

TWO = {"toy-1": {"max_concurrent": 9}, "toy-2": {}}


@pytest.fixture
def machine(top: Path) -> Machine:
    return ready(Machine(top, TWO), **{"toy-1": 80.0, "toy-2": 40.0})


def test_the_account_with_most_left_is_leased_and_asking_again_keeps_it(machine: Machine) -> None:
    first = machine.choose("t")
    assert (first["profile"], first["decision_reason"], first["headroom_percent"]) == ("toy-1", "quota", 80.0)
    assert first["active_lease_count"] == 0
    assert first["lease"]["state"] == "reserved"
    machine.tell("toy-1", left=1.0)
    machine.forget("toy-1")
    again = machine.choose("t")
    assert (again["profile"], again["decision_reason"], again["active_lease_count"]) == ("toy-1", "sticky", 1)
    assert again["lease"]["created_unix"] == first["lease"]["created_unix"]
    assert again["lease"]["renewed_uptime"] > first["lease"]["renewed_uptime"]
    assert [lease["task"] for lease in machine.told("lease", "list")["leases"]] == ["t"]
    assert machine.told("lease", "show", "--task", "t")["active"] is True


def test_what_others_ask_of_a_leased_task_is_refused_with_its_own_reason(machine: Machine, tmp_path: Path) -> None:
    machine.choose("t")
    other = work_tree(tmp_path / "other")
    for options in (("--provider", "other"), ("--profile", "toy-2"), ("--pool", "else"), ("--workspace", str(other))):
        base = {"--task": "t", "--pool": "toy-crew", "--workspace": str(machine.root), options[0]: options[1]}
        answer = machine.told("lease", "choose", *(word for pair in base.items() for word in pair), status=2)
        assert answer["code"] == "lease_conflict", (options, answer)


def test_a_dry_run_changes_nothing_and_a_choice_agrees_with_it(machine: Machine) -> None:
    before = machine.tree()
    arguments = ("--task", "t", "--pool", "toy-crew", "--workspace", str(machine.root))
    dry = machine.told("choose", *arguments, "--dry-run")
    assert machine.tree() == before
    assert (dry["lease"], dry["dry_run"]) == (None, True)
    assert machine.choose("t")["profile"] == dry["profile"]
    assert machine.told("choose", *arguments, status=2)["code"] == "usage"


def test_enroll_says_what_is_missing_and_begins_no_login(top: Path) -> None:
    machine = Machine(top, {"toy-1": {"enabled": False}, "kept": {"enabled": False, "safety_policy": "manual_only"}})

    def refused(code: str, *words: str, label: str = "toy-1") -> None:
        answer = machine.told("profile", "enroll", label, status=2)
        assert answer["code"] == code, answer
        assert all(word in answer["error"] + answer["hint"] for word in words), answer

    refused("profile_state", label="kept")
    refused("profile_state", "fleet profile provision toy-1")
    machine.told("profile", "provision", "toy-1")
    refused("profile_state", "no provider/browser login was invoked", "TOY_HOME=", "identity adopt toy-1")
    machine.login("toy-1", "toy-1@example.com")
    refused("profile_state", "fleet profile identity adopt toy-1")
    machine.told("profile", "identity", "adopt", "toy-1")
    before = machine.tree()
    for name in ("enroll", "login"):
        answer = machine.told("profile", name, "toy-1")
        assert (answer["no_op"], answer["provider_login_invoked"], answer["enabled"]) == (True, False, False)
    machine.tell("toy-1", status="error", fails="planted-secret")
    assert machine.told("profile", "enroll", "toy-1")["no_op"]  # what is left does not matter
    (machine.home_of("toy-1") / "quota.json").write_bytes(before["share/accounts/toy/toy-1/quota.json"])
    assert machine.tree() == before
    machine.login("toy-1", "somebody@example.com")
    refused("identity_conflict", "identity_binding_remote_mismatch", "no provider/browser login was invoked")


def test_the_persons_own_login_closes_the_account_that_is_the_same_and_no_other(top: Path) -> None:
    machine = ready(Machine(top, TWO), **{"toy-1": 80.0, "toy-2": 40.0})
    own = top / "own"
    own.mkdir()
    text = machine.file.read_text()
    machine.file.write_text(text.replace("[providers.toy]", f'[providers.toy]\nbase_home = "{own}"'))

    def reasons() -> list[str]:
        rows = machine.told("pool", "status", "--pool", "toy-crew")["providers"][0]["profiles"]
        return [row["routeability_reason"] for row in rows]

    for content in (None, "{", json.dumps({"account": "somebody-else@example.com"}), json.dumps({"account": ""})):
        if content is not None:
            (own / "own.json").write_text(content)
        assert reasons() == ["fresh", "fresh"], content
    (own / "own.json").write_text(json.dumps({"account": "TOY-1@example.com"}))
    assert reasons() == ["identity_of_own_login", "fresh"]
    assert machine.choose("t")["profile"] == "toy-2"
    machine.told("profile", "disable", "toy-1")
    for words in (("identity", "adopt"), ("enable",), ("enroll",)):
        refused = machine.told("profile", *words, "toy-1", status=2)
        assert refused["code"] == "identity_conflict", refused
    (own / "own.json").unlink()
    machine.told("profile", "enable", "toy-1")
    assert reasons() == ["fresh", "fresh"]


@pytest.mark.parametrize("policy", ["strict", "soft"])
def test_numbers_that_name_somebody_else_close_the_account_and_those_that_name_its_own_confirm_it(
    top: Path, policy: str
) -> None:
    machine = ready(Machine(top, TWO, quota_policy=policy), **{"toy-1": 80.0, "toy-2": 40.0})

    def reason(label: str = "toy-1") -> str:
        machine.forget(label)
        rows = machine.told("pool", "status", "--pool", "toy-crew")["providers"][0]["profiles"]
        return {row["profile"]: str(row["routeability_reason"]) for row in rows}[label]

    machine.tell("toy-1", left=80.0, account="Somebody@example.com")
    assert reason() == "identity_contradicted"
    assert machine.choose("t")["profile"] == "toy-2"
    machine.told("profile", "disable", "toy-1")
    refused = machine.told("profile", "identity", "adopt", "toy-1", status=2)
    assert (refused["code"], "identity_contradicted" in refused["error"]) == ("identity_conflict", True)
    machine.told("profile", "enable", "toy-1", status=2)
    machine.tell("toy-1", left=80.0, account=" TOY-1@example.com")
    assert machine.told("profile", "enable", "toy-1")["enabled"]
    assert reason() == "fresh"
    # where the provider cannot tell who is logged in, the numbers say it, and are held to the pin
    (machine.home_of("toy-1") / "login.json").write_text(json.dumps({"token": "planted-login"}))
    assert reason() == "fresh"
    machine.tell("toy-1", left=80.0, account="somebody@example.com")
    assert reason() == "identity_binding_remote_mismatch"
    machine.tell("toy-1", left=80.0)
    assert reason() == "identity_unavailable"


def test_every_closed_account_has_its_reason_wherever_one_asks(top: Path) -> None:
    labels = ("failing", "limited", "low", "cooling", "one", "two", "drifted", "good", "out")
    machine = ready(
        Machine(top, {label: {} for label in labels} | {"kept": {"enabled": False, "safety_policy": "manual_only"}}),
        **dict.fromkeys(labels, 70.0),
    )
    machine.tell("failing", fails="secret-of-the-provider")
    machine.tell("limited", status="rate_limited", reason="rate_limited")
    machine.tell("low", left=15.0)
    machine.told("profile", "cooldown", "cooling", "--seconds", "90", "--reason", "spawn-failure")
    machine.login("two", "one@example.com", left=90.0)
    machine.login("drifted", "somebody@example.com", left=90.0)
    (machine.home_of("out") / "login.json").unlink()
    machine.forget(*labels)
    wanted = {
        "failing": "reader_failed",
        "limited": "rate_limited",
        "low": "quota_reserve",
        "cooling": "cooldown",
        "one": "duplicate_provider_identity",
        "two": "duplicate_provider_identity",
        "drifted": "identity_binding_remote_mismatch",
        "good": "fresh",
        "out": "auth_required",
        "kept": "safety_policy_manual_only",
    }
    status = machine.told("pool", "status", "--pool", "toy-crew")["providers"][0]
    rows = {row["profile"]: row["routeability_reason"] for row in status["profiles"]}
    assert {**rows, "kept": wanted["kept"]} == wanted
    assert eligible(status["profiles"]) == ["good"]
    assert (status["available"], status["selection_mode"], status["eligible_profiles"]) == (True, "quota", 1)
    told = machine.told("profile", "status", "--all")["profiles"]
    assert {each["id"]: each["routeability"]["reason"] for each in told} == {
        **wanted,
        "kept": "external_reserve_never_routed",
    }
    chosen = machine.choose("t")
    assert chosen["profile"] == "good"
    assert {each["profile"]: each["reason"] for each in chosen["others"]} == {
        label: code for label, code in wanted.items() if label not in ("good", "kept")
    }
    logins = {each["profile"]: each["status"] for each in machine.told("profile", "auth-status", "--all")["profiles"]}
    assert (logins["good"], logins["out"], logins["kept"]) == ("authenticated", "unauthenticated", "external-reserve")
    machine.told("profile", "disable", "good")
    refusal = machine.choose("u", status=5)
    assert refusal["code"] == "no_account"
    assert {each["profile"]: each["reason"] for each in refusal["profiles"]}["low"] == "quota_reserve"
    assert any(detail.startswith("limited: rate_limited: ") for detail in refusal["details"])
    seen = json.dumps([status, told, refusal]) + "".join(
        path.read_text(errors="replace") for path in machine.kept.rglob("*") if path.is_file()
    )
    assert "secret-of-the-provider" not in seen
    assert "example.com" not in seen
    assert "planted-login" not in seen


def test_an_account_is_looked_at_once_for_many_choices_and_again_when_its_login_changed(machine: Machine) -> None:
    machine.forget("toy-1", "toy-2")
    before = machine.looks("toy-1")
    for task in "abc":
        machine.choose(task)
    assert machine.looks("toy-1") == before + 1
    login = machine.home_of("toy-1") / "login.json"
    login.write_text(json.dumps({"token": "renewed", "account": "toy-1@example.com"}))
    machine.choose("d")
    assert machine.looks("toy-1") == before + 2


def test_many_commands_at_once_look_once(machine: Machine) -> None:
    machine.forget("toy-1", "toy-2")
    machine.tell("toy-1", left=80.0, sleep=1.0)
    before = machine.looks("toy-1")
    started = [machine.start("pool", "status", "--pool", "toy-crew", "--json") for _ in range(6)]
    for each in started:
        out, err = each.communicate(timeout=60)
        assert each.returncode == 0, err
        assert eligible(json.loads(out)["providers"][0]["profiles"]) == ["toy-1", "toy-2"]
    assert machine.looks("toy-1") == before + 1


def test_reserve_capacity_and_cooldown_close_an_account_and_time_opens_it(top: Path) -> None:
    machine = ready(Machine(top, {"toy-1": {"max_concurrent": 1}}), **{"toy-1": 80.0})
    machine.choose("a")
    full = machine.choose("b", status=5)
    assert "no enabled, provisioned profile has capacity" in full["error"]
    assert full["profiles"][0]["reason"] == "no_capacity"
    machine.told("lease", "release", "--task", "a")
    machine.told("profile", "cooldown", "toy-1", "--seconds", "60", "--reason", "limit")
    assert machine.choose("b", status=5)["profiles"][0]["reason"] == "cooldown"
    assert machine.told("profile", "cooldown-clear", "toy-1")["cooldown_cleared"] is True
    machine.tell("toy-1", left=15.0)
    machine.forget("toy-1")
    low = machine.choose("b", status=5)
    assert "quota reserve" in low["error"]
    machine.tell("toy-1", left=15.5)
    machine.forget("toy-1")
    assert machine.choose("b")["profile"] == "toy-1"


def test_a_lease_lives_and_dies_with_its_process_and_not_with_a_time_zone(machine: Machine) -> None:
    holder = bound(machine, "t")
    held = machine.told("lease", "list")["leases"]
    assert [(lease["pid"], lease["state"]) for lease in held] == [(holder.pid, "running")]
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        assert machine.json("lease", "list", env={"TZ": zone})["leases"] == held
        assert machine.json("lease", "release", "--task", "t", status=2, env={"TZ": zone})["code"] == "lease_live"
    assert machine.choose("t")["lease"]["pid"] == holder.pid
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert machine.told("lease", "list")["leases"] == []
    assert machine.told("lease", "show", "--task", "t")["active"] is False
    assert machine.choose("t")["decision_reason"] == "quota"


def test_a_zombie_holds_no_lease(machine: Machine) -> None:
    holder = bound(machine, "t")
    os.kill(holder.pid, signal.SIGKILL)
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    assert machine.told("lease", "list")["leases"] == []
    holder.wait()


def test_release_in_every_state(machine: Machine) -> None:
    missing = machine.told("lease", "release", "--task", "t", status=4)
    assert (missing["code"], missing["error"]) == ("lease_missing", "no lease for task: t")
    machine.choose("t")
    assert machine.told("lease", "release", "--task", "t")["released"] is True
    holder = bound(machine, "t")
    assert machine.told("lease", "release", "--task", "t", status=2)["code"] == "lease_live"
    assert machine.told("lease", "release", "--task", "t", "--force")["was"] == "running"
    assert holder.poll() is None
    holder.kill()
    holder.wait()
    holder = bound(machine, "t")
    holder.kill()
    holder.wait()
    assert machine.told("lease", "release", "--task", "t")["was"] == "gone"


def test_a_corrupt_lease_costs_itself_alone_and_a_release_mends_it(machine: Machine) -> None:
    machine.choose("a")
    (bad,) = (machine.kept / "leases").glob("*.json")
    bad.write_bytes(b"{")
    answer = machine.fleet("lease", "list", "--json")
    assert json.loads(answer.out)["leases"] == []
    assert bad.name in answer.err
    assert machine.choose("b")["profile"] == "toy-1"
    assert not bad.exists()
    machine.choose("a")
    bad.write_bytes(b"\0" * 10)
    assert machine.told("lease", "release", "--task", "a")["was"] == "corrupt"
    assert machine.told("lease", "release", "--task", "a", status=4)["code"] == "lease_missing"
    assert len(list((machine.kept / "quarantine").iterdir())) == 2


def test_a_recovery_goes_to_the_account_of_the_conversation_below_its_reserve(machine: Machine) -> None:
    missing = machine.told("lease", "recover", "--task", "t", "--workspace", str(machine.root), status=4)
    assert "no recorded provider session" in missing["error"]
    assert "no recorded provider session" in machine.told("session", "status", "--task", "t", status=4)["error"]
    record_session(machine, "t", "toy-2", "s1")
    machine.tell("toy-2", left=3.0)
    machine.forget("toy-2")
    found = machine.told("lease", "recover", "--task", "t", "--workspace", str(machine.root))
    assert (found["profile"], found["decision_reason"]) == ("toy-2", "sticky-resume")
    again = machine.told("lease", "recover", "--task", "t", "--workspace", str(machine.root))
    assert (again["profile"], again["decision_reason"]) == ("toy-2", "sticky")
    machine.told("lease", "release", "--task", "t")
    holder = bound(machine, "t", profile="toy-2", recover=True)
    live = machine.told("lease", "recover", "--task", "t", "--workspace", str(machine.root), status=2)
    assert "live worker lease" in live["error"]
    record_session(machine, "u", "toy-2", "s1")
    twice = machine.told("lease", "recover", "--task", "u", "--workspace", str(machine.root), status=2)
    assert twice["code"] == "lease_live"
    holder.kill()
    holder.wait()
    assert machine.told("lease", "recover", "--task", "t", "--workspace", str(machine.root))["profile"] == "toy-2"
    elsewhere = machine.told("lease", "recover", "--task", "t", "--workspace", "/tmp", status=2)
    assert elsewhere["code"] == "session_conflict"
    machine.told("session", "remove", "--task", "t")
    assert machine.told("session", "status", "--task", "t", status=4)["code"] == "session_missing"


def test_accounts_work_in_registered_projects_and_their_linked_trees_alone(machine: Machine, tmp_path: Path) -> None:
    linked = tmp_path / "linked.with.dots"
    git(machine.root, "worktree", "add", "-q", str(linked))
    stranger = work_tree(tmp_path / "stranger")
    link = tmp_path / "link"
    link.symlink_to(machine.root)
    inside = machine.root / "below"
    inside.mkdir()
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / ".git").write_text(f"gitdir: {machine.root}/.git\n")
    stolen = tmp_path / "stolen"
    stolen.mkdir()
    (stolen / ".git").write_bytes((linked / ".git").read_bytes())

    def choose(workspace: Path, status: int = 0) -> dict[str, object]:
        options = ("--task", str(workspace), "--pool", "toy-crew", "--workspace", str(workspace))
        return machine.told("lease", "choose", *options, status=status)

    assert choose(linked)["profile"] == "toy-1"
    for wrong in (stranger, link, inside, forged, stolen, tmp_path / "nowhere", Path("/")):
        answer = choose(wrong, 2)
        assert answer["code"] == "project_refused", (wrong, answer)
    both = sorted((str(machine.root), str(stranger)))
    assert machine.told("project", "register", str(stranger), "--provider", "toy")["trusted_projects"] == both
    assert choose(stranger)["profile"] == "toy-1"
    assert machine.told("project", "remove", str(linked), "--provider", "toy")["trusted_projects"] == [str(stranger)]
    assert machine.told("project", "remove", str(linked), "--provider", "toy", status=4)["code"] == "not_found"
    for wrong in (link, inside, Path("/"), Path(str(machine.home))):
        assert (
            machine.told("project", "register", str(wrong), "--provider", "toy", status=2)["code"] == "project_refused"
        )
    bare = tmp_path / "bare"
    bare.mkdir()
    git(bare, "init", "-q", "--bare")
    assert machine.told("project", "register", str(bare), "--provider", "toy", status=2)["code"] == "project_refused"


def test_a_profile_is_added_disabled_verified_enabled_and_removed_while_others_work(machine: Machine) -> None:
    holder = bound(machine, "t")
    made = machine.told("profile", "add", "toy-3", "--provider", "toy")
    assert (made["enabled"], made["pools"], made["weight"]) == (False, ["toy-crew", "toy-manual"], 1)
    assert (made["max_concurrent"], made["reserve_percent"], made["safety_policy"]) == (2, 15, "worker")
    assert machine.told("profile", "enable", "toy-3", status=2)["profiles"][0]["reason"] == "profile_unprovisioned"
    machine.told("profile", "provision", "toy-3")
    assert machine.told("profile", "verify", "toy-3", status=1)["ready"] is False
    machine.login("toy-3", "toy-3@example.com", left=99.0)
    assert machine.told("profile", "enable", "toy-3", status=2)["profiles"][0]["reason"] == "identity_binding_missing"
    adopted = machine.told("profile", "identity", "adopt", "toy-3")
    assert list(adopted["identity_bundle"]["workers"]) == ["toy-3"]
    assert machine.told("profile", "verify", "toy-3")["next_step"] == "fleet profile enable toy-3"
    assert machine.told("profile", "enable", "toy-3")["enabled"] is True
    assert machine.choose("u")["profile"] == "toy-3"
    assert machine.told("profile", "remove", "toy-3", status=2)["code"] == "profile_state"
    machine.told("profile", "disable", "toy-3")
    assert machine.told("profile", "remove", "toy-3", status=2)["code"] == "profile_state"
    machine.told("lease", "release", "--task", "u")
    assert machine.told("profile", "remove", "toy-3") == {
        "ok": True,
        "profile": "toy-3",
        "removed": True,
        "home_deleted": False,
    }
    assert machine.home_of("toy-3").is_dir()
    assert [lease["pid"] for lease in machine.told("lease", "list")["leases"]] == [holder.pid]
    holder.kill()
    holder.wait()
    events = [event["event"] for event in machine.told("audit")["events"]]
    for event in ("profile-added", "profile-provisioned", "identity-adopted", "profile-enabled", "lease-selected"):
        assert event in events
    assert "toy-3@example.com" not in (machine.kept / "audit.jsonl").read_text()


def test_nothing_is_on_record_that_did_not_happen_and_nothing_of_a_profile_stays_for_the_next_of_its_name(
    machine: Machine,
) -> None:
    home = str(machine.home_of("toy-1") / "below")
    refused = machine.told("profile", "add", "toy-9", "--provider", "toy", "--home", home, status=2)
    assert refused["code"] == "bad_config"
    assert "profile-added" not in [event["event"] for event in machine.told("audit")["events"]]
    log = machine.top / "log"
    log.write_text("a limit of the account that was there")
    vault = Vault(str(machine.kept))
    outputs.remember(vault, "toy-2", str(log))
    machine.told("profile", "cooldown", "toy-2", "--seconds", "600", "--reason", "limit")
    machine.told("profile", "disable", "toy-2")
    machine.login("toy-2", "new@example.com")
    machine.told("profile", "identity", "adopt", "toy-2")
    assert outputs.last(vault, "toy-2") == ""
    outputs.remember(vault, "toy-2", str(log))
    machine.told("profile", "identity", "adopt", "toy-2")
    assert outputs.last(vault, "toy-2") == str(log)
    machine.told("profile", "remove", "toy-2")
    assert [str(path) for path in machine.kept.rglob("*toy-2*") if path.is_file()] == []


def test_a_keychain_may_ask_only_where_the_person_said_that_they_are_there(top: Path) -> None:
    machine = Machine(top, {"toy-1": {"enabled": False}})
    machine.told("profile", "provision", "toy-1")
    machine.login("toy-1", "toy-1@example.com")

    def is_asked(*words: str) -> bool:
        (machine.home_of("toy-1") / "looks").unlink(missing_ok=True)
        machine.told(*words)
        return (machine.home_of("toy-1") / "looks").read_text() == "a person is there\n"

    for command in (
        ("profile", "identity", "adopt", "toy-1"),
        ("profile", "verify", "--all"),
        ("quota", "refresh", "toy-1"),
    ):
        assert not is_asked(*command), command
        assert is_asked(*command, "--allow-keychain-prompt"), command
    assert not is_asked("profile", "enable", "toy-1")


def test_one_account_under_two_labels_is_not_adopted(machine: Machine) -> None:
    machine.told("profile", "add", "toy-3", "--provider", "toy")
    machine.told("profile", "provision", "toy-3")
    machine.login("toy-3", "TOY-1@example.com", left=99.0)
    refusal = machine.told("profile", "identity", "adopt", "toy-3", status=2)
    assert refusal["code"] == "identity_conflict"
    assert "duplicate" in refusal["error"]


def test_a_reserve_is_never_looked_at_nor_touched(machine: Machine) -> None:
    machine.told("profile", "disable", "toy-2")
    machine.told("profile", "policy", "toy-2", "--safety-policy", "desktop_shared")
    machine.forget("toy-2")
    before = machine.looks("toy-2")
    for command in (
        ("profile", "status", "--all"),
        ("quota", "refresh", "--all"),
        ("pool", "status", "--pool", "toy-manual"),
    ):
        machine.told(*command)
    assert machine.told("quota", "show", "toy-2")["quota"][0]["status"] == "external-reserve"
    assert machine.told("profile", "enable", "toy-2", status=2)["code"] == "profile_state"
    assert machine.told("profile", "identity", "adopt", "toy-2", status=2)["code"] == "profile_state"
    assert machine.looks("toy-2") == before
    machine.told("profile", "policy", "toy-2", "--safety-policy", "worker")
    assert machine.told("profile", "enable", "toy-2")["enabled"] is True


@pytest.mark.parametrize("label", ["a@b", "x" * 129, ".x", "-x", "a/b", "", "é"])
def test_a_label_is_opaque(machine: Machine, label: str) -> None:
    before = machine.file.read_bytes()
    answer = machine.fleet("--json", "profile", "add", "--provider", "toy", "--", label)
    assert (answer.status, answer.data["code"]) == (2, "bad_input")
    assert machine.file.read_bytes() == before


def test_init_makes_a_registry_once(top: Path) -> None:
    machine = Machine(top, {})
    machine.file.unlink()
    for wrong in (("--claude", "0"), ("--claude", "-1"), ("--codex", "1000")):
        machine.told("init", *wrong, status=2)
        assert not machine.file.exists()
    made = machine.told("init", "--claude", "2", "--codex", "1")
    assert [profile["id"] for profile in made["profiles"]] == ["claude-1", "claude-2", "codex-1"]
    assert made["enabled"] == 0
    assert stat.S_IMODE(machine.file.stat().st_mode) == 0o600
    before = machine.file.read_bytes()
    assert machine.told("init", "--claude", "1", status=2)["code"] == "refused"
    assert machine.file.read_bytes() == before
    assert machine.told("contract")["contract_version"] == 2


def test_without_a_registry_a_command_says_how_to_make_one(top: Path) -> None:
    machine = Machine(top, {})
    machine.file.unlink()
    answer = machine.told("profile", "list", status=2)
    assert answer["code"] == "registry_missing"
    assert "fleet init" in answer["hint"]
    named = machine.json("--config", str(top / "x.toml"), "profile", "list", status=2, env={"AGENT_FLEET_CONFIG": "no"})
    assert str(top / "x.toml") in named["error"]
    assert machine.json("profile", "list", status=2, env={"AGENT_FLEET_CONFIG": "rel/x"})["code"] == "bad_input"


def test_an_unfinished_login_of_the_older_program_stops_what_could_harm_it(machine: Machine) -> None:
    journals = machine.kept / "transactions" / "credential-recovery"
    journals.mkdir(parents=True, mode=0o700)
    machine.forget("toy-1", "toy-2")
    before = machine.looks("toy-1")
    journal = journals / "toy-toy-1.json"
    journal.write_text(json.dumps({"schema": 1, "kind": "credential-recovery", "provider": "toy", "profile": "toy-1"}))
    journal.chmod(0o600)
    for command in (
        ("profile", "enable", "toy-1"),
        ("profile", "provision", "--all"),
        ("profile", "identity", "adopt", "toy-1"),
    ):
        assert machine.told(*command, status=2)["code"] == "pending_transaction"
    refusal = machine.choose("t", status=2)
    assert refusal["code"] == "pending_transaction"
    assert "toy:toy-1" in refusal["error"]
    rows = machine.told("pool", "status", "--pool", "toy-crew")["providers"][0]["profiles"]
    assert [row["routeability_reason"] for row in rows] == ["pending_transaction"] * 2
    assert machine.looks("toy-1") == before, "an account in the middle of a login was looked at"
    # that of another provider is no hindrance here, and one that cannot be read may be any
    journal.write_text(json.dumps({"schema": 1, "provider": "else", "profile": "else-1"}))
    machine.told("lease", "release", "--task", machine.choose("u")["task"])
    machine.told("profile", "provision", "--all")
    journal.write_text("{")
    assert machine.choose("t", status=2)["code"] == "pending_transaction"
    machine.told("profile", "disable", "toy-1")


def bound(machine: Machine, task: str, profile: str = "toy-1", *, recover: bool = False) -> subprocess.Popen[bytes]:
    """A process that leases an account to itself, as `fleet exec` does, and then sleeps."""
    code = f"""
import os, sys, time
sys.path.insert(0, {str(machine.site)!r})
from agent_fleet.commands import Shared
from agent_fleet.commands.desk import Desk
from agent_fleet.accounts.selection import Request
router = Desk(Shared({{}})).router
if {recover}:
    router.recover({task!r}, {str(machine.root)!r}, pid=os.getpid())
else:
    router.choose(Request(task={task!r}, pool="toy-crew", workspace={str(machine.root)!r}, profile={profile!r}), pid=os.getpid())
print("bound", flush=True)
time.sleep(600)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], env=machine.environment(), cwd=machine.root, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == b"bound\n"
    return child


def record_session(machine: Machine, task: str, profile: str, session: str) -> None:
    """What a provider's start hook records."""
    from agent_fleet.accounts.sessions import Session, Sessions
    from agent_fleet.accounts.vault import Vault

    Sessions(Vault(str(machine.kept))).started(
        Session(
            task=task,
            profile=profile,
            provider="toy",
            pool="toy-crew",
            workspace=str(machine.root),
            turn_end="/run/x.turn-ended",
            session_id=session,
            updated=0.0,
            sequence=0,
        )
    )


def test_doctor_is_healthy_on_a_sound_machine_and_names_each_fault_with_its_fix(
    machine: Machine, tmp_path: Path
) -> None:
    def told() -> list[dict[str, str]]:
        answer = machine.fleet("doctor", "--json")
        found = [each for each in json.loads(answer.out)["findings"] if each["check"] == "accounts"]
        assert (answer.status == 1) is any(each["level"] == "fault" for each in json.loads(answer.out)["findings"])
        return found

    (sound,) = told()
    assert sound["level"] == "ok", sound
    pin = machine.kept / "identity" / "pin-toy-2.json"
    login = machine.home_of("toy-2") / "login.json"
    lease = machine.kept / "leases" / "x.json"
    journal = machine.kept / "transactions" / "credential-recovery" / "toy-x.json"

    def faults(*wanted: str) -> None:
        found = told()
        for words in wanted:
            assert [each for each in found if words in each["text"]], (words, found)
        assert all(each["hint"] for each in found)

    def spoiled(*files: tuple[Path, str, str]) -> None:
        """Each of these files holds that text, is told of in these words, and is then as it was."""
        before = {path: path.read_bytes() if path.exists() else None for path, _, _ in files}
        for path, text, _ in files:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o600)
        faults(*(words for _, _, words in files))
        for path, content in before.items():
            path.unlink() if content is None else path.write_bytes(content)
        machine.told("quota", "refresh", "--all")

    spoiled(
        (pin, "{", "toy-2 takes no work: identity_binding_missing"),
        (lease, "{", str(lease)),
        (machine.kept / "homes" / "toy-1.json", "{}", "toy-1 takes no work: profile_unprovisioned"),
    )
    spoiled((journal, "{}", "pending credential recovery"))
    same, new = (json.dumps({"token": "x", "account": f"{who}@example.com"}) for who in ("toy-1", "new"))
    spoiled((login, same, "duplicate_provider_identity"))
    spoiled((login, new, "identity_binding_remote_mismatch"))
    gone = work_tree(tmp_path / "gone")
    machine.told("project", "register", str(gone), "--provider", "toy")
    gone.rename(tmp_path / "moved")
    machine.home_of("toy-1").chmod(0o755)
    (machine.kept / "identity").chmod(0o750)
    kept = login.read_bytes()
    login.write_text("{}")
    faults(
        "toy-1 takes no work", "not private", "identity is not private", "toy-2 takes no work", "(registered for toy)"
    )
    login.write_bytes(kept)
    machine.home_of("toy-1").chmod(0o700)
    (machine.kept / "identity").chmod(0o700)
    machine.told("project", "remove", str(gone), "--provider", "toy")
    machine.file.chmod(0o644)
    faults("0600 single-link regular file")
    machine.file.chmod(0o600)
    machine.told("quota", "refresh", "--all")
    assert [each["level"] for each in told()] == ["ok"]


def test_a_misspelt_key_of_the_registry_is_told_wherever_accounts_are_used(machine: Machine) -> None:
    machine.file.write_text(machine.file.read_text().replace("[settings]", "[settings]\nrotaton = true"))
    told = "there is no key settings.rotaton; did you mean settings.rotation?"
    doctor = machine.fleet("doctor", "--json")
    found = [each for each in json.loads(doctor.out)["findings"] if told in each["text"]]
    assert [(each["check"], each["level"]) for each in found] == [("accounts", "warning")]
    for arguments in (("profile", "list"), ("plan", "--pool", "toy-crew"), ("run", "--pool", "toy-crew")):
        assert machine.fleet(*arguments).err.count(told) == 1, arguments
    assert told not in machine.fleet("plan").err


def test_doctor_tells_what_is_closed_for_a_while_and_takes_it_for_no_fault(machine: Machine) -> None:
    def told(status: int) -> list[dict[str, str]]:
        answer = machine.fleet("doctor", "--json")
        found = [each for each in json.loads(answer.out)["findings"] if each["check"] == "accounts"]
        assert any(each["level"] == "fault" for each in found) is bool(status), found
        return found

    machine.told("profile", "cooldown", "toy-1", "--seconds", "600", "--reason", "limit five_hour: used up")
    machine.told("profile", "cooldown", "toy-2", "--seconds", "600", "--reason", "my own", "--model", "opus")
    sound, one, two = told(0)
    assert {each["level"] for each in (sound, one, two)} == {"ok"}
    assert re.match(r"toy-1 is closed until \d\d:\d\d:\d\d, .*: limit five_hour: used up$", one["text"]), one
    assert re.match(r"toy-2 is closed to opus until \d\d:\d\d:\d\d: my own$", two["text"]), two
    machine.told("profile", "cooldown-clear", "toy-2")
    path = machine.kept / "cooldowns" / "toy-2.json"
    path.write_text("{torn")
    path.chmod(0o600)
    found = told(1)
    assert [each["level"] for each in found if str(path) in each["text"]] == ["fault"], found
    assert any("toy-2 is closed until" in each["text"] and "could not be read" in each["text"] for each in found), found
    rows = machine.told("pool", "status", "--pool", "explicit")["providers"][0]["profiles"]
    assert {row["profile"]: row["routeability_reason"] for row in rows} == {"toy-1": "cooldown", "toy-2": "cooldown"}
    machine.choose("t", status=5)  # a writer: the file is out of the way, and nothing is open for that
    found = told(0)
    assert any("toy-2 is closed until" in each["text"] and "could not be read" in each["text"] for each in found), found
    assert any("set aside" in each["text"] for each in found), found
    machine.told("profile", "cooldown-clear", "toy-2")
    assert machine.choose("t")["profile"] == "toy-2"


def test_a_program_that_changed_is_refused_or_followed_as_the_registry_says(top: Path) -> None:
    machine = Machine(top, {"toy-1": {}})
    program = top / "bin" / "toy"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = machine.file.read_text().replace("[providers.toy]", f'[providers.toy]\nbinary = "{program}"')
    machine.file.write_text(text)
    ready(machine, **{"toy-1": 80.0})
    os.utime(program, (1, 1))
    assert machine.choose("touched")["profile"] == "toy-1"
    program.write_text("#!/bin/sh\n# newer\n")
    refusal = machine.choose("t", status=2)
    assert (refusal["code"], refusal["profiles"][0]["reason"]) == ("unroutable", "profile_not_ready")
    assert "fleet profile provision toy-1" in refusal["profiles"][0]["words"]
    machine.file.write_text(text.replace("[settings]", '[settings]\npin_policy = "follow"'))
    assert machine.choose("t")["profile"] == "toy-1"
    assert [each["event"] for each in machine.told("audit")["events"]].count("program-followed") == 1
    machine.file.write_text(text)
    machine.told("lease", "release", "--task", "t")
    assert machine.choose("t")["profile"] == "toy-1"
    program.chmod(0o777)
    assert machine.choose("u", status=2)["profiles"][0]["reason"] == "profile_not_ready"


def test_each_refusal_says_what_to_do_next(machine: Machine, tmp_path: Path) -> None:
    where = ("--task", "t", "--workspace", str(machine.root))
    other = ("lease", "choose", "--task", "t", "--pool", "toy-crew", "--workspace", str(work_tree(tmp_path / "other")))
    for words, status, phrase in (
        (("profile", "identity"), 2, "`fleet profile identity --help`"),
        (("profile", "identity", "give"), 2, "`fleet profile identity --help`"),
        (("profile", "add", "toy-3", "--provider", "toy", "--home", ""), 2, "write it in full"),
        (("project", "list", "--provider", "nobody"), 4, "fleet profile add"),
        (
            ("lease", "choose", *where, "--pool", "toy-crew", "--provider", "claude"),
            4,
            "no profile of claude is in pool",
        ),
        (other, 2, "fleet project register"),
    ):
        answer = machine.told(*words, status=status)
        assert phrase in f"{answer['error']} {answer['hint']}", (words, answer)


def test_an_account_whose_numbers_nobody_knows_says_where_they_could_come_from(machine: Machine) -> None:
    machine.tell("toy-1", status="unavailable", reason="no_source_answered")
    machine.forget("toy-1")
    answer = machine.told("profile", "enable", "toy-1", status=2)
    assert answer["profiles"][0]["reason"] == "no_source_answered"
    assert all(word in answer["hint"] for word in ("quota-axi", "quota_file", 'quota_policy = "soft"'))
    machine.tell("toy-1", status="unavailable", reason="file_unusable")
    machine.forget("toy-1")
    assert "fleet quota refresh toy-1" in machine.told("profile", "enable", "toy-1", status=2)["hint"]


def test_a_soft_policy_lets_an_account_of_unknown_numbers_work_and_says_so(top: Path) -> None:
    machine = ready(Machine(top, {"toy-1": {}}, quota_policy="soft"), **{"toy-1": 60.0})
    machine.tell("toy-1", status="unavailable", reason="no_source_answered")
    machine.forget("toy-1")
    shown = machine.fleet("pool", "status", "--pool", "toy-crew").out
    assert "toy: 1 can take work" in shown
    assert "soft policy lets it work" in shown
    assert "quota_policy" not in shown


def test_the_lease_of_a_killed_process_is_told_as_over(machine: Machine) -> None:
    holder = bound(machine, "t")
    assert f"running (process {holder.pid})" in machine.fleet("lease", "show", "--task", "t").out
    holder.kill()
    holder.wait()
    assert f"over: process {holder.pid} is gone" in machine.fleet("lease", "show", "--task", "t").out


def test_whoever_must_log_in_is_told_the_command(
    top: Path, server: FleetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estate, "server", server)
    estate = Estate(top, claude=1, codex=1)
    estate.json("profile", "provision", "--all")
    for label, variable, words in (("claude-1", "CLAUDE_CONFIG_DIR", "auth login"), ("codex-1", "CODEX_HOME", "login")):
        found = estate.json("profile", "identity", "adopt", label, status=2)
        command = f"{variable}={estate.home_of(label)} {estate.binaries[label.partition('-')[0]]} {words}"
        assert f"`{command}`" in found["hint"], found
