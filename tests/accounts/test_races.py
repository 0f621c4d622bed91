"""Many processes at once, and some killed at any point: no account is ever overbooked, no lock outlives its holder."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.accounts import leases, selection
from agent_fleet.accounts.leases import Clock
from agent_fleet.accounts.ports import Seen
from agent_fleet.accounts.probing import Prober
from agent_fleet.accounts.selection import Situation
from agent_fleet.accounts.values import Profile
from agent_fleet.errors import FleetError
from support.accounts import Desk, FakePort, fresh
from support.racers import racers

EQUAL = {"a": {"max_concurrent": 100}, "b": {"max_concurrent": 100}}


def test_twelve_choosers_over_two_equal_accounts_take_six_each(tmp_path: Path) -> None:
    desk = Desk(tmp_path, FakePort(a=80.0, b=80.0), EQUAL)

    def choose(index: int, turn: int) -> str:
        return desk.router.choose(desk.request(f"t{turn}-{index}")).verdict.profile

    with racers(12, choose) as many:
        for turn in range(3):
            assert Counter(many.race(turn)) == {"a": 6, "b": 6}
    assert len(desk.router.leases.active(Clock.read(), 600)) == 36


def test_however_many_ask_no_account_is_taken_more_often_than_it_has_room_for(tmp_path: Path) -> None:
    rooms = {"a": {"max_concurrent": 2}, "b": {"max_concurrent": 3}}
    desk = Desk(tmp_path, FakePort(a=90.0, b=20.0), rooms)

    def choose(index: int, turn: int) -> str:
        try:
            return desk.router.choose(desk.request(f"t{turn}-{index}")).verdict.profile
        except FleetError as error:
            return error.code

    with racers(9, choose) as many:
        assert Counter(many.race(0)) == {"a": 2, "b": 3, "no_account": 4}
        assert Counter(many.race(1)) == {"no_account": 9}


def test_one_task_asked_for_by_many_gets_one_lease(tmp_path: Path) -> None:
    desk = Desk(tmp_path, FakePort(a=80.0, b=80.0), EQUAL)
    with racers(8, lambda _index: desk.router.choose(desk.request("same")).verdict.profile) as many:
        assert len(set(many.race())) == 1
    assert len(desk.router.leases.active(Clock.read(), 600)) == 1


def test_of_many_processes_one_holds_a_task(tmp_path: Path) -> None:
    desk = Desk(tmp_path, FakePort(a=80.0, b=80.0), EQUAL)

    def choose(_index: int) -> str:
        try:
            desk.router.choose(desk.request("same"), pid=os.getpid())
        except FleetError as error:
            return error.code
        return "held"

    with racers(6, choose) as many:
        assert Counter(many.race()) == {"held": 1, "lease_live": 5}
        assert Counter(many.race()) == {"held": 1, "lease_live": 5}
    (left,) = [each for each in (desk.router.leases.of("same"),) if each]
    assert not leases.is_running(left)
    assert desk.router.choose(desk.request("same")).reason == "quota"


def test_a_chooser_killed_at_any_point_leaves_nothing_that_stops_the_next(tmp_path: Path) -> None:
    desk = Desk(tmp_path, FakePort(a=80.0, b=80.0), EQUAL)
    desk.prove("a", "b")
    dice = random.Random(4)
    began = time.monotonic()
    desk.router.choose(desk.request("first"))
    usual = time.monotonic() - began
    for turn in range(60):
        child = os.fork()
        if child == 0:
            try:
                for step in range(1000):
                    desk.router.choose(desk.request(f"k{turn}-{step}"), pid=os.getpid())
            finally:
                os._exit(0)
        time.sleep(dice.uniform(0, 4 * usual))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        began = time.monotonic()
        assert desk.router.choose(desk.request("next")).verdict.profile in EQUAL
        assert time.monotonic() - began < 5, "the next one had to wait"
        active = desk.router.leases.active(Clock.read(), 600)
        assert {lease.task for lease in active} == {"first", "next"}
    assert not list((tmp_path / "state").glob("quarantine/*"))
    for path in (tmp_path / "state" / "leases").glob("*.json"):
        json.loads(path.read_bytes())


def test_a_look_is_shared_between_processes_and_one_that_dies_in_it_costs_nobody(tmp_path: Path) -> None:
    port = FakePort(a=80.0)
    desk = Desk(tmp_path, port, {"a": {"max_concurrent": 100}})
    counter = tmp_path / "looks"
    takes = [60.0]

    def look(profile: object, deadline: float) -> object:
        with counter.open("a") as file:
            file.write("x")
        time.sleep(takes[0])
        return type("Seen", (), {"reading": fresh(80.0), "account": "a", "credential": "present"})()

    port.look = look  # type: ignore[method-assign, assignment] # another way to look
    child = os.fork()
    if child == 0:
        desk.router.choose(desk.request("dies"))
        os._exit(0)
    deadline = time.monotonic() + 30
    while not counter.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    takes[0] = 0.5
    with racers(6, lambda index: desk.router.choose(desk.request(f"t{index}")).verdict.profile) as many:
        assert many.race() == ["a"] * 6
    assert counter.read_text() == "xx"


def test_accounts_are_looked_at_together_and_one_that_hangs_or_raises_costs_itself(tmp_path: Path) -> None:
    port = FakePort(a=80.0, b=70.0, c=60.0)
    port.left["c"] = RuntimeError("it holds a planted-secret")
    port.delay = 0.7
    desk = Desk(tmp_path, port, {**EQUAL, "c": {}})
    began = time.monotonic()
    chosen = desk.router.choose(desk.request())
    assert time.monotonic() - began < 1.9, "they were looked at one after the other"
    assert sorted(port.looks) == ["a", "b", "c"]
    assert chosen.verdict.profile == "a"
    codes = {each.profile: each.code for each in chosen.others}
    assert codes["c"] not in ("fresh", "")
    assert "planted-secret" not in json.dumps(codes) + "".join(
        path.read_text() for path in (tmp_path / "state").rglob("*.json")
    )


def test_a_failed_look_is_not_repeated_at_once_and_a_fresh_one_not_at_all(tmp_path: Path) -> None:
    port = FakePort(a=80.0, b=80.0)
    port.left["b"] = RuntimeError("x")
    desk = Desk(tmp_path, port, EQUAL)
    for task in "abcdef":
        desk.router.choose(desk.request(task))
    assert Counter(port.looks) == {"a": 1, "b": 1}


def test_an_account_that_does_not_answer_in_time_is_not_waited_for_by_every_choice(tmp_path: Path) -> None:
    port = FakePort(a=80.0, b=80.0)
    desk = Desk(tmp_path, port, EQUAL)
    answered = threading.Event()
    look = port.look

    def hangs(profile: Profile, deadline: float) -> Seen:
        if profile.id == "b":
            port.looks.append("b")
            answered.wait(60)
        return look(profile, deadline)

    port.look = hangs  # type: ignore[method-assign]
    registry = desk.registrar.load()
    try:
        Prober(desk.vault, port, registry.rules, deadline=0.5).prove(registry.workers())
        chosen = desk.router.choose(desk.request())
    finally:
        answered.set()
    assert Counter(port.looks)["b"] == 1
    assert chosen.verdict.profile == "a"
    assert {each.profile: each.code for each in chosen.others}["b"] == "identity_probe_timeout"


def test_a_desktop_that_names_no_organization_is_every_account_of_that_person(tmp_path: Path) -> None:
    port = FakePort(a=80.0, b=70.0)
    port.accounts = {"a": "account:one:org-1", "b": "account:two:org-1"}
    port.own_logins = ("account:ONE:",)
    desk = Desk(tmp_path, port, EQUAL)
    chosen = desk.router.choose(desk.request())
    assert chosen.verdict.profile == "b"
    assert [each.code for each in chosen.others if each.profile == "a"] == ["identity_of_own_login"]
    port.own_logins = ("account:one:org-2", "account:", "")
    assert desk.router.choose(desk.request("u")).verdict.profile == "a"


def test_a_lease_that_comes_to_nothing_is_given_back_and_nobody_elses(tmp_path: Path) -> None:
    desk = Desk(tmp_path, FakePort(a=80.0, b=80.0), EQUAL)
    mine = desk.router.choose(desk.request(), pid=os.getpid()).lease
    assert mine is not None
    desk.router.release("t", force=True)
    desk.router.give_back(mine)  # lost already: nothing to say
    desk.router.choose(desk.request(), pid=os.getppid())
    desk.router.give_back(mine)
    left = desk.router.leases.of("t")
    assert left is not None and left.pid == os.getppid()
    desk.router.release("t", force=True)
    again = desk.router.choose(desk.request(), pid=os.getpid()).lease
    assert again is not None
    desk.router.give_back(again)
    assert desk.router.leases.of("t") is None


def test_a_process_is_put_on_record_under_the_account_that_it_was_started_with(tmp_path: Path) -> None:
    """Its lease was lost, and the task was promised another account before it said so."""
    desk = Desk(tmp_path, FakePort(a=90.0, b=20.0), EQUAL)
    begun = desk.router.choose(desk.request()).lease
    assert begun is not None and begun.profile == "a"
    desk.router.release("t")
    desk.router.choose(desk.request(profile="b"))
    assert desk.router.hand_over(begun, os.getpid()).profile == "a"
    assert [each.profile for each in desk.router.leases.active(Clock.read(), 60)] == ["a"]


def test_an_account_whose_login_changes_while_one_looks_is_looked_at_again_and_else_closed(tmp_path: Path) -> None:
    port = FakePort(a=80.0)
    desk = Desk(tmp_path, port, {"a": {}})
    real = port.look

    def renews_once(profile: object, deadline: float) -> object:
        port.stamps["a"] = "renewed"
        return real(profile, deadline)  # type: ignore[arg-type] # a profile, as it came

    port.look = renews_once  # type: ignore[method-assign, assignment] # a provider that renews its login
    assert desk.router.choose(desk.request()).verdict.profile == "a"

    def always(profile: object, deadline: float) -> object:
        port.stamps["a"] = f"{time.monotonic_ns()}"
        return real(profile, deadline)  # type: ignore[arg-type] # a profile, as it came

    port.look = always  # type: ignore[method-assign, assignment] # one that somebody writes all the time
    port.stamps["a"] = "x"
    with pytest.raises(FleetError) as refusal:
        desk.router.choose(desk.request("u"))
    assert refusal.value.facts["profiles"] == [
        {
            "profile": "a",
            "reason": "credential_source_changed",
            "words": "its login was changed since it was last looked at",
        }
    ]


def test_a_dry_run_says_what_a_choice_then_does_whatever_is_leased(tmp_path: Path) -> None:
    desk = Desk(tmp_path, FakePort(a=70.0, b=66.0, c=40.0), {**EQUAL, "c": {"weight": 4}})
    taken: Counter[str] = Counter()
    for number in range(12):
        request = desk.request(f"t{number}")
        dry = desk.router.would_choose(request)
        assert dry.lease is None
        real = desk.router.choose(request)
        assert real.verdict.profile == dry.verdict.profile
        taken[real.verdict.profile] += 1
    assert set(taken) == {"a", "b", "c"}


# -------------------------------------------------------------------------------------------------------- what it costs


def test_a_choice_by_fresh_numbers_starts_nothing_and_looks_at_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = "abcde"
    desk = Desk(tmp_path, FakePort(), {label: {} for label in labels})
    desk.prove(*labels)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a process or a thread was started")

    for name in ("subprocess.Popen", "os.fork", "os.posix_spawn", "threading.Thread.start"):
        monkeypatch.setattr(name, never)
    judged = []
    judge = selection.judge

    def counted(profile: object, request: object, given: Situation) -> object:
        judged.append(profile)
        return judge(profile, request, given)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr(selection, "judge", counted)
    writes: list[str] = []
    real = desk.vault.write

    def write(parts: tuple[str, ...], *more: Any, **settings: Any) -> None:
        writes.append(parts[0])
        real(parts, *more, **settings)

    monkeypatch.setattr(desk.vault, "write", write)
    desk.router.choose(desk.request())
    assert desk.port.looks == []
    assert len(judged) == len(labels)
    assert writes == ["leases", "selection.json"]


def test_a_provider_that_was_not_asked_for_is_not_asked(tmp_path: Path) -> None:
    port = FakePort(a=80.0)
    desk = Desk(tmp_path, port, {"a": {}})
    text = desk.file.read_text().replace("[providers.toy]", "[providers.other]\n[providers.toy]")
    desk.file.write_text(text + '[profiles.z]\nprovider = "other"\npools = ["other-crew"]\nenabled = true\n')
    ready = port.readiness

    def told(profile: Any) -> Any:
        assert profile.provider == "toy", "it may hang"
        return ready(profile)

    port.readiness = told  # type: ignore[method-assign] # one that sees who is asked
    assert desk.router.choose(desk.request()).verdict.profile == "a"
    assert desk.router.choose(desk.request()).reason == "sticky"
    assert desk.router.would_choose(desk.request("u")).verdict.profile == "a"
