"""`fleet why` in every situation that a task can be in."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.config import load
from agent_fleet.model import Outcome
from agent_fleet.queue import holds
from agent_fleet.run.gates import Gates, gates_of
from support.gadgets import Gadgets
from support.procs import wait_until
from support.project import enlist, take
from support.runs import QUICK, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def why(site: Site, task: str, env: dict[str, str] | None = None) -> dict[str, str]:
    """The reasons by name."""
    found: list[dict[str, Any]] = site.json("why", task, env=env)["reasons"]
    assert all(each["name"] and each["why"] for each in found)
    return {each["name"]: each["why"] for each in found}


def test_a_need_that_is_not_done(site: Site) -> None:
    first = site.command("true")
    second = site.command("true", "--needs", first)

    assert why(site, second)["needs"] == f"it needs {first}, which is in inbox"


def test_a_hold(site: Site) -> None:
    task = site.command("true")
    holds.put(site.queue(), {task: {"why": "it is night", "until": 4e9, "source": "test"}})

    assert "it is night" in why(site, task)["hold"]


def test_a_host_that_is_busy(site: Site) -> None:
    first, second = (site.add(f"https://a.example/{n}") for n in range(2))
    claimed = take(site.queue(), enlist(site.queue()))

    assert claimed is not None
    assert claimed.task == first
    assert why(site, second)["exclusion"] == f"host a.example allows 1 at once; active: {first}"


def test_paths_that_somebody_works_on(site: Site) -> None:
    first, second = site.command("true", "--touches", "src"), site.command("true", "--touches", "src/x")
    assert take(site.queue(), enlist(site.queue())) is not None

    assert why(site, second)["exclusion"] == f"touches paths that {first} works on"


def test_a_lane_and_a_provider_that_cannot_be_used(site: Site) -> None:
    site.configure(QUICK + '[provider.claude]\nbinary = "no-such-program"\n')
    task = site.add("part", "--lane", "nowhere")

    assert "nowhere" in why(site, task)["lane"]
    assert "no-such-program" in why(site, task)["provider"]


def test_a_limit_that_a_provider_has_met_is_in_the_answer_and_in_the_plan_until_it_is_over(site: Site) -> None:
    site.configure(QUICK + '[provider.claude]\nbinary = "true"\n')
    task = site.add("part")
    gates = gates_of(site.queue(), load(str(site.root), queue_dir=str(site.dir), environ={}))
    gates.close("claude", Outcome(kind="limit", reason="the week is used up", resets_at=time.time() + 3000))

    assert "the week is used up" in why(site, task)["gate"]
    plan = site.json("plan")
    assert (plan["workers"], plan["first"]) == (0, [])
    assert "the week is used up" in plan["binding"]["why"]

    gates.open("claude")
    assert "gate" not in why(site, task)
    assert site.json("plan", "--force")["workers"] == 1


def test_a_task_whose_file_was_set_aside_is_named_with_the_place_of_that_file(site: Site) -> None:
    task = site.add("part")
    (path,) = site.dir.glob(f"inbox/*/*/*/{task}.g0.json")
    path.write_bytes(b"")
    site.json("list")

    answer = site.json("why", task, status=4)
    (aside,) = (site.dir / "quarantine").iterdir()
    assert "set aside" in answer["error"]
    assert aside.name in answer["hint"]


def test_pressure_and_a_full_lane(site: Site, tmp_path: Path) -> None:
    site.configure(QUICK + '[capacity]\nprobes = ["file"]\n')
    gadgets = Gadgets(site, tmp_path)
    task = site.command("true")
    gadgets.set(memory_pressure_full=50.0)
    assert "stood still for memory" in why(site, task, gadgets.env)["pressure"]

    gadgets.set(cores=2)
    slow = site.command("sleep 600", "--priority", "1")
    with site.driving(room=(), env=gadgets.env):
        wait_until(lambda: site.reached(slow, "active"), "the lane is full")
        wait_until(lambda: site.events("started"), "it has started")
        found = why(site, task, gadgets.env)

    assert "lane headless is full with 1 at work" in found["machine"]
    assert "no run" not in found


def shut(site: Site, provider: str, kind: Any, resets_at: float | None = None, limit: str = "") -> None:
    """Close the gate of a provider, as settling does."""
    outcome = Outcome(kind=kind, reason="the wall", limit=limit, resets_at=resets_at)
    Gates(site.queue(), 6 * 3600.0, 30.0).close(provider, outcome)


def test_ten_tasks_that_wait_for_ten_different_things(site: Site) -> None:
    agents = {"limited": "true", "absent": "no-such-program", "slow": "sleep"}
    site.configure(QUICK + "".join(f'[agents.{name}]\nargv = ["{word}", "600"]\n' for name, word in agents.items()))
    busy_host = site.add("https://a.example/1", "--priority", "1")
    busy_path = site.command("true", "--touches", "src", "--priority", "2")
    taken = [take(site.queue(), enlist(site.queue())) for _ in range(2)]
    assert [each and each.task for each in taken] == [busy_host, busy_path]
    slow = ("--provider", "slow", "--priority", "1")
    sleepers = [site.add("part", *slow), site.add("part", "--lane", "serial", *slow)]
    reset = time.time() + 3600
    shut(site, "limited", "limit", reset, "five_hour")

    first = site.command("true", "--priority", "2")
    expected = {
        first: ("cap", "the cap you asked for"),
        site.command("true", "--needs", first, "--priority", "2"): ("needs", f"it needs {first}, which is in inbox"),
        (held := site.command("true", "--priority", "2")): ("hold", "it is night"),
        site.add("https://a.example/2", "--provider", "command", "--priority", "2"): ("exclusion", "host a.example"),
        site.command("true", "--touches", "src/x", "--priority", "2"): (
            "exclusion",
            f"paths that {busy_path} works on",
        ),
        site.command("true", "--lane", "nowhere", "--priority", "2"): ("lane", "plugin 'nowhere'"),
        site.add("part", "--provider", "absent", "--priority", "2"): ("provider", "no-such-program"),
        site.add("part", "--provider", "limited", "--priority", "2"): ("gate", "limit five_hour: the wall"),
        site.add("part", "--lane", "serial", "--provider", "slow", "--priority", "2"): ("lane", "runs 1 at a time"),
        site.command("true", "--priority", "9"): ("order", "of a higher priority"),
    }
    holds.put(site.queue(), {held: {"why": "it is night", "until": 4e9, "source": "test"}})
    with site.driving(room=("--force", "--max", "2")):
        wait_until(lambda: all(site.reached(task, "active") for task in sleepers), "both are at work")
        wait_until(lambda: len(site.events("started")) == 2, "both are told of")
        found = {task: site.json("why", task)["reasons"] for task in expected}
        plan = site.json("plan")

    assert len(expected) == 10
    for task, (name, text) in expected.items():
        assert [each for each in found[task] if each["name"] == name and text in each["why"]], (name, found[task])
        # no other task waits for the same thing, but for the cap of the run, which holds for all of a lane
        others = [each for other, reasons in found.items() if other != task for each in reasons]
        assert name == "cap" or not [each for each in others if each["name"] == name and text in each["why"]], name
    (gate,) = [each for reasons in found.values() for each in reasons if each["name"] == "gate"]
    assert gate["until"] == reset
    assert time.strftime("until %H:%M:%S", time.localtime(reset)) in gate["why"]
    assert "limit five_hour" in plan["gates"]["limited"]
    assert list(plan["unusable_providers"]) == ["absent"]


def test_a_login_wall_says_that_a_new_run_tries_it(site: Site) -> None:
    site.configure(QUICK + '[agents.limited]\nargv = ["true"]\n')
    task = site.add("part", "--provider", "limited")
    shut(site, "limited", "auth")

    assert "until a new run tries again: auth: the wall" in why(site, task)["gate"]
    assert site.json("plan")["workers"] == 0
    assert "limited waits: auth: the wall" in site.fleet("plan").out


def test_a_gate_whose_time_has_come_is_no_reason(site: Site) -> None:
    site.configure(QUICK + '[agents.limited]\nargv = ["true"]\n')
    task = site.add("part", "--provider", "limited")
    shut(site, "limited", "limit", time.time() - 60)

    wait_until(lambda: "gate" not in why(site, task), "the gate may be probed", 10)
    assert site.json("plan")["gates"] == {}


def test_the_money_of_the_run_and_of_the_day(site: Site) -> None:
    task = site.command("true")
    site.queue().tell("run_started", run="r1")
    usage = {"input": 10, "output": 10, "money": 0.5}
    for event in ("started", "finished"):
        site.queue().tell(event, task="t900", gen=1, run="r1", provider="x", lane="headless", usage=usage)
    site.configure(QUICK + "[budget]\nday_money = 0.4\n")

    assert "money of the day: $0.5000 used" in why(site, task)["budget"]


def test_the_money_of_a_run_that_is_at_work(site: Site) -> None:
    site.configure(QUICK + "[budget]\nrun_money = 0.5\n")
    slow = site.command("sleep 600")
    with site.driving("--max", "2"):
        wait_until(lambda: site.reached(slow, "active"), "it is at work")
        task = site.command("true", "--needs", slow)
        for event in ("started", "finished"):
            usage = {"input": 10, "output": 10, "money": 0.5}
            site.queue().tell(event, task="t900", gen=1, run="r1", provider="x", lane="headless", usage=usage)

        assert "money of the run: $0.5000 used" in why(site, task)["budget"]
    assert "budget" not in why(site, task), "the next run has money of its own"


def test_its_turn_and_the_want_of_a_run(site: Site) -> None:
    task = site.command("true")
    site.command("true", "--priority", "1")

    assert why(site, task)["order"] == "before it: 1 task of a higher priority"
    assert "fleet run" in why(site, task)["no run"]


def test_an_active_task_and_its_holder_alive_or_gone(site: Site) -> None:
    task = site.command("true")
    holder = enlist(site.queue(), "hand")
    assert take(site.queue(), holder) is not None
    assert "held by hand in lane - under lease 1; it is alive" in why(site, task)["held"]

    far = site.command("true")
    elsewhere = ":".join([*holder.identity.split(":")[:2], "other-boot", "1", "other-machine"])
    assert take(site.queue(), enlist(site.queue(), "far", elsewhere)) is not None
    assert "of unknown life" in why(site, far)["held"]


def test_an_attempt_that_ended_and_waits_to_be_settled(site: Site) -> None:
    task = site.command("sleep 0.3")
    with site.driving() as driver:
        wait_until(lambda: site.events("started"), "it runs")
        driver.kill()
        wait_until(lambda: list(site.dir.glob("runs/r1/workers/*/exit.json")), "it ended")
        found = why(site, task)

    assert "gone" in found["held"]
    assert "waits to be settled" in found["owner"]


def test_what_became_of_it(site: Site) -> None:
    site.configure(QUICK + "[queue]\nmax_attempts = 1\n")
    done, failed = site.command("echo seen"), site.command("echo no; exit 2")
    site.work(status=1)
    blocked = site.command("true")
    site.json("claim", "hand", "--owner", str(os.getpid()))
    site.json("block", blocked, "--agent", "hand", "--reason", "needs answer: which one?")

    assert "seen" in why(site, done)["outcome"]
    assert why(site, failed)["outcome"] == "failed: exited 2: no"
    assert f"fleet reset {failed}" in why(site, failed)["next"]
    assert "needs answer: which one?" in why(site, blocked)["outcome"]
    assert "fleet unblock" in why(site, blocked)["next"]


def test_a_task_that_does_not_exist(site: Site) -> None:
    assert site.json("why", "t99", status=4)["code"] == "not_found"
