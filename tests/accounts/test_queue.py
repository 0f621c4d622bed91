"""Accounts with the queue: each worker has one, the ones that are closed are named everywhere, and nothing stays leased."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.accounts.cooldowns import Cooldown, told
from agent_fleet.accounts.values import Window
from agent_fleet.accounts.windows import checked
from agent_fleet.model import Ceiling, Outcome
from agent_fleet.run.accounts import Rooms
from agent_fleet.run.clerk import closing, is_news, outlasts, scopes
from agent_fleet.run.vigil import Vigil
from support.accounts import fresh, work_tree
from support.estate import Estate
from support.procs import PATIENCE, wait_until
from support.yard import Yard


def test_each_worker_has_an_account_and_gives_it_back(yard: Yard) -> None:
    yard.open('rotation = "on"')
    for _ in range(4):
        yard.add("do it")
    ambient = {
        "ANTHROPIC_API_KEY": "of-the-person",
        "CLAUDE_CONFIG_DIR": "/of/the/person",
        "LD_AUDIT": "",
        "MINE": "stays",
    }
    yard.more |= ambient
    yard.stand_in.tell(until=str(yard.top / "go"))
    with yard.start("run", "--pool", "claude-crew", "--force", "--max", "4", "--json") as run:
        wait_until(lambda: len(yard.stand_in.calls()) == 4, "four work")
        wait_until(
            lambda: [each["state"] for each in yard.leases().values()] == ["running"] * 4, "their leases are bound"
        )
        leases = yard.leases()
        plan = yard.json("plan", "--pool", "claude-crew")
        (yard.top / "go").touch()
        out, err = run.communicate(timeout=60)
    assert json.loads(out)["states"] == {"done": 4}, err
    assert sorted(lease["profile"] for lease in leases.values()) == ["claude-1"] * 2 + ["claude-2"] * 2
    assert len(plan["accounts"]) == 0  # nothing waits that could need one
    assert sorted(yard.accounts()) == ["1", "1", "2", "2"]
    for call in yard.stand_in.calls():
        assert not {"ANTHROPIC_API_KEY", "LD_AUDIT"} & call["env"].keys()
        assert (call["env"]["MINE"], call["env"]["AGENT_FLEET_PROVIDER"]) == ("stays", "claude")
        assert call["argv"][call["argv"].index("--setting-sources") + 1] == "user"
        assert call["env"]["FLEET_TASK"]
    assert yard.leases() == {}
    assert {yard.records(f"t{n}")[-1]["account"] for n in (1, 2, 3, 4)} == {"claude-1", "claude-2"}
    assert all((yard.kept / "outputs" / f"claude-{n}.json").exists() for n in (1, 2))


def test_without_a_pool_nothing_of_accounts_is_touched(yard: Yard) -> None:
    yard.open()
    yard.file.write_text("this is no registry")
    yard.add("do it")
    yard.work()
    (call,) = yard.stand_in.calls()
    assert not {"CLAUDE_CONFIG_DIR", "AGENT_FLEET_PROFILE"} & call["env"].keys()
    assert "--setting-sources" not in call["argv"]
    assert "account" not in yard.records("t1")[-1]


def test_closed_accounts_are_named_in_the_plan_in_why_and_in_the_refusal_and_the_healthy_one_works(
    top: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estate, "server", server)
    yard = Yard(top, claude=6)
    yard.ready()
    yard.open('rotation = "on"', 'pool = "claude-crew"')
    yard.left_of("claude-1").write_text("no numbers")  # failing
    (yard.kept / "quota" / "claude-1.json").unlink()
    yard.json("profile", "cooldown", "claude-2", "--seconds", "600", "--reason", "limit five_hour: used up")
    for label in ("claude-3", "claude-4"):  # one account under two labels
        yard.login(label, "the same")
        yard.tell(label, 90.0)
    yard.login("claude-5", "somebody else")  # drifted
    yard.tell("claude-5", 90.0)
    wanted = {
        "claude-1": "file_unusable",
        "claude-2": "cooldown",
        "claude-3": "duplicate_provider_identity",
        "claude-4": "duplicate_provider_identity",
        "claude-5": "identity_binding_remote_mismatch",
    }
    yard.add("do it")
    status = yard.json("pool", "status", "--pool", "claude-crew")["providers"][0]["profiles"]
    assert {row["profile"]: row["routeability_reason"] for row in status} == {**wanted, "claude-6": "fresh"}
    plan = yard.json("plan")
    assert {row["name"]: row["why"].partition(":")[0] for row in plan["accounts"] if row["name"] in wanted} == wanted
    assert [row["workers"] for row in plan["accounts"] if row["name"] == "claude-6"] == [2]
    (ceiling,) = [each for each in plan["lanes"][0]["ceilings"] if each["name"] == "accounts"]
    assert ceiling["workers"] == 2
    shown = yard.fleet("plan").out
    assert all(f"{label} " in shown and code in shown for label, code in wanted.items())
    yard.work("--max", "1")
    assert yard.accounts() == ["6"]
    yard.json("profile", "disable", "claude-6")
    task = yard.add("one more")
    why = yard.json("why", task)["reasons"]
    told = {each["profile"]: each["why"] for each in why if each["name"] == "account"}
    assert set(told) == {*wanted, "claude-6"}
    assert all(code in told[label] for label, code in wanted.items())
    refused = yard.fleet("run", "--force", "--provider", "claude", env={"FLEET_RUN_MAX_WAIT": "1"})
    assert refused.status in (0, 2), refused
    assert all(f"{label}: {code}" in refused.out + refused.err for label, code in wanted.items()), refused
    assert yard.state(task) == "inbox"


def test_without_rotation_a_run_stays_with_one_account(yard: Yard) -> None:
    yard.open('pool = "claude-crew"')
    for _ in range(3):
        yard.add("do it")
    plan = yard.json("plan")
    assert [row["workers"] for row in plan["accounts"]] == [2, 0]
    assert "accounts.rotation is off" in plan["accounts"][1]["why"]
    yard.work("--max", "3")
    assert set(yard.accounts()) == {"1"}


@pytest.mark.parametrize("rotation", ["off", "on"])
def test_a_conversation_of_an_earlier_run_goes_on_under_its_own_account(yard: Yard, rotation: str) -> None:
    """Beside the run's own one. While that is closed for long the task waits, but where rotation is on: there it begins anew."""
    yard.open('pool = "claude-crew"', f'rotation = "{rotation}"')
    yard.json("profile", "cooldown", "claude-1", "--seconds", "3600", "--reason", "for now")
    yard.stand_in.tell(limits={"2": {"rateLimitType": "five_hour", "resetsAt": int(time.time()) + 5400}})
    spoken = yard.add("do it")
    with yard.start("run", "--force", "--max", "1") as run:
        wait_until(lambda: yard.records(spoken), "it has met the limit", 60)
        run.terminate()
        run.communicate(timeout=60)
    yard.json("profile", "cooldown-clear", "claude-1")
    yard.stand_in.tell()
    first, last = yard.add("do it", "--priority", "1"), yard.add("do it", "--priority", "9")
    with yard.start("run", "--force", "--max", "1") as run:
        wait_until(lambda: yard.state(last) == "done", "the others are done", 60)
        if rotation == "off":
            wait_until(lambda: "its conversation is with claude-2" in yard.fleet("why", spoken).out, "it waits")
            assert (yard.state(spoken), yard.accounts(), run.poll()) == ("inbox", ["2", "1", "1"], None)
            yard.json("profile", "cooldown-clear", "claude-2")
        _, err = run.communicate(timeout=90)
    assert {yard.state(task) for task in (first, spoken, last)} == {"done"}, err
    if rotation == "on":
        assert yard.accounts() == ["2", "1", "1", "1"]
        return
    assert yard.accounts() == ["2", "1", "1", "2"]
    assert "--resume" in yard.stand_in.calls()[-1]["argv"]


def test_a_bound_pool_works_in_its_own_projects_alone(yard: Yard, tmp_path: Path) -> None:
    other = work_tree(tmp_path / "other")
    yard.file.write_text(yard.file.read_text() + f'\n[pools.claude-crew]\nprojects = ["{other}"]\n')
    yard.open('pool = "claude-crew"')
    task = yard.add("do it")
    answer = yard.fleet("run", "--force")
    assert answer.status == 2, answer
    assert "pool_not_for_project" in answer.err
    assert (yard.state(task), yard.stand_in.calls()) == ("inbox", [])
    # nor by a pool of another name that the same accounts are in
    manual = yard.add("do it", "--pool", "claude-manual")
    yard.work("--pool", "claude-manual", status=2)
    assert yard.stand_in.calls() == []
    assert {yard.state(task), yard.state(manual)} <= {"inbox", "blocked"}


def test_a_task_that_wishes_a_pool_nobody_is_in_is_parked_and_the_others_go_on(yard: Yard) -> None:
    yard.open('pool = "claude-crew"')
    lost = yard.add("do it", "--pool", "nowhere")
    fine = yard.add("do it")
    yard.work("--max", "1")
    assert (yard.state(lost), yard.state(fine)) == ("blocked", "done")
    assert "no profile is in pool nowhere" in yard.records(lost)[-1]["reason"]
    assert not yard.records(lost)[-1]["charged"]


def test_a_killed_driver_leaves_the_lease_with_its_worker_and_a_killed_worker_leaves_none(yard: Yard) -> None:
    yard.open('pool = "claude-crew"')
    task = yard.add("do it")
    # it ends when it is ended: one that slept for a time would be done before a slow machine has come to the kill
    yard.stand_in.tell(until=str(yard.top / "never"))
    try:
        with yard.start("run", "--force") as run:
            wait_until(lambda: [each["state"] for each in yard.leases().values()] == ["running"], "the lease is bound")
            yard.stand_in.last(patience=PATIENCE)
            run.kill()
            run.communicate()
        ((name, lease),) = yard.leases().items()
        keeper = lease["pid"]
        assert task in name
        yard.json("lease", "release", "--task", name, "--force")
        with yard.start("run", "--force") as run:
            wait_until(lambda: yard.leases().get(name, {}).get("pid") == keeper, "the next driver leases it again")
            os.kill(keeper, signal.SIGKILL)
            wait_until(lambda: name not in yard.leases(), "the lease is over")
            run.send_signal(signal.SIGTERM)
            run.communicate(timeout=PATIENCE)
    finally:
        (yard.top / "never").touch()
    assert yard.leases() == {}
    assert yard.state(task) == "inbox"


def test_a_session_that_claims_for_itself_has_one_account_for_all_its_seats(yard: Yard) -> None:
    yard.open('pool = "claude-crew"')
    yard.add("do it")
    yard.stand_in.tell(until=str(yard.top / "go"))
    with yard.start("run", "--force", "--lane", "subagent", "--max", "4") as run:
        call = yard.stand_in.last()
        wait_until(lambda: [each["state"] for each in yard.leases().values()] == ["running"], "its lease is bound")
        ((name, lease),) = yard.leases().items()
        (yard.top / "go").touch()
        run.communicate(timeout=60)
    assert lease["profile"] == "claude-1", name
    assert call["env"]["CLAUDE_CONFIG_DIR"].endswith("/claude/1")
    assert {"FLEET_SHARE", "FLEET_LANE"} <= call["env"].keys()
    assert call["argv"][call["argv"].index("--setting-sources") + 1] == "user"
    assert yard.leases() == {}


def test_how_long_a_limit_closes_an_account() -> None:
    def after(outcome: Outcome, before: Cooldown | None = None) -> float:
        return closing(outcome, before, 1000.0, longest=21600.0, unit=30.0)

    assert after(Outcome(kind="limit", resets_at=1020.0)) == 20
    assert after(Outcome(kind="limit", resets_at=1e9)) == 21600
    assert after(Outcome(kind="limit", resets_at=900.0)) == 30
    assert after(Outcome(kind="limit")) == 30
    assert after(Outcome(kind="auth")) == 3600
    before = Cooldown(profile="p", reason="limit: x", created=900.0, expires=990.0)
    assert after(Outcome(kind="limit"), before) == 180
    assert after(Outcome(kind="limit"), Cooldown(profile="p", reason="limit", created=0.0, expires=90.0)) == 30
    assert after(Outcome(kind="limit"), Cooldown(profile="p", reason="limit", created=0.0, expires=999.0)) == 900


def test_waiting_for_accounts_is_bounded() -> None:
    now = [0.0]
    vigil = Vigil(lambda: now[0])

    def closed(**more: Any) -> Rooms:
        rows = (Ceiling(name="a", workers=0, source="accounts", why="cooldown"),)
        return Rooms(pool="p", provider="x", rows=rows, **more)

    assert vigil.wait([closed()]) is None
    hopeful = closed(is_waiting=True, patience=100.0, opens={"a": 50.0})
    found = vigil.wait([hopeful, closed()])
    assert found is not None
    assert (found.seconds, found.gate.until) == (50.0, 50.0)
    now[0] = 100.0
    assert vigil.wait([hopeful]) is None
    vigil.over()
    assert vigil.wait([hopeful]) is not None


def test_a_window_that_was_filled_again_since_it_was_seen_says_nothing() -> None:
    now = time.time()
    reading = replace(fresh(0.0), observed_at=now - 20)
    spent = Window(id="five_hour", kind="session", remaining=0.0, resets_at=now - 5)
    weekly = Window(id="seven_day", kind="weekly", remaining=40.0, resets_at=now + 5)
    assert checked(replace(reading, windows=(spent,)), "x", now).status == "unavailable"
    assert [w.id for w in checked(replace(reading, windows=(spent, weekly)), "x", now).windows] == ["seven_day"]


def test_what_a_limit_closes_and_what_is_news_of_it() -> None:
    def limit(model: str = "", **more: Any) -> Outcome:
        return Outcome(kind="limit", model=model, **more)

    assert scopes(limit(), "opus") == ("",)
    assert scopes(limit("opus"), "claude-opus-4-8") == ("opus",)
    assert scopes(limit("opus"), "") == ("opus",)
    assert scopes(limit("opus"), "best") == ("opus", "best")  # else it would be started again at once
    assert scopes(Outcome(kind="auth", model="opus"), "opus") == ("",)

    def closed(reason: str, expires: float = 90.0, resets_at: float | None = None) -> Cooldown:
        return Cooldown(profile="p", reason=reason, created=0.0, expires=expires, resets_at=resets_at)

    assert is_news(limit(), None, 50.0)
    assert is_news(limit(), closed("limit", expires=40.0), 50.0)
    assert not is_news(limit(), closed("limit"), 50.0)  # it was on its way to the same wall
    assert is_news(limit(resets_at=80.0), closed("limit"), 50.0)
    assert not is_news(limit(resets_at=80.0), closed("limit", resets_at=90.0), 50.0)
    assert not is_news(limit(resets_at=80.0), closed("auth: refused"), 50.0)
    assert is_news(Outcome(kind="auth"), closed("limit", resets_at=90.0), 50.0)


def test_what_a_person_closed_is_opened_no_sooner_by_a_limit() -> None:
    def closed(reason: str) -> Cooldown:
        return Cooldown(profile="a", reason=reason, created=0.0, expires=100.0)

    assert outlasts(closed("maintenance"), 50.0, 20.0)
    assert not outlasts(closed("maintenance"), 50.0, 80.0)
    assert not outlasts(closed("limit five_hour"), 50.0, 20.0)
    assert not outlasts(None, 50.0, 20.0)


def test_whether_a_time_is_the_end_of_a_limit_or_merely_the_next_try_is_told() -> None:
    now = time.time()

    def words(resets_at: float | None, reason: str = "limit five_hour: used up") -> str:
        return told(Cooldown(profile="p", reason=reason, created=now, expires=now + 60, resets_at=resets_at))

    assert "tried again" not in words(now + 60)
    assert "when it is tried again, as nobody said when the limit ends: limit five_hour" in words(None)
    assert "when it is tried again; the limit was said to end" in words(now + 99999)
    assert "tried again" not in words(None, "my own reason")


def test_held_tasks_are_waited_for_no_longer_than_their_accounts() -> None:
    now = [0.0]
    vigil = Vigil(lambda: now[0])
    assert vigil.may_hold(is_sure=False, longest=21600.0)
    now[0] = 299.0
    assert vigil.may_hold(is_sure=False, longest=21600.0)
    now[0] = 300.0
    assert not vigil.may_hold(is_sure=False, longest=21600.0)
    assert vigil.may_hold(is_sure=True, longest=21600.0)
    now[0] = 21600.0
    assert not vigil.may_hold(is_sure=True, longest=21600.0)
    vigil.over()
    assert vigil.may_hold(is_sure=False, longest=21600.0)
