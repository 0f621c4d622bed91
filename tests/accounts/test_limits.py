"""Limits, pools and crews: what is closed for whom, who works what, and nothing charged or lost wherever a driver dies."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from support.accounts import work_tree
from support.procs import wait_until
from support.yard import Yard


def second_pool(yard: Yard) -> None:
    """The second account is in a pool of its own alone."""
    head, label, rest = yard.file.read_text().rpartition("claude-2")
    yard.file.write_text(head + label + re.sub(r"pools = \[.*?\]", 'pools = ["second"]', rest, count=1, flags=re.S))


def test_a_crew_never_claims_a_task_of_another_pool_and_each_pool_has_its_own_crew(yard: Yard) -> None:
    second_pool(yard)
    yard.open('pool = "claude-crew"')
    first, second = yard.add("do it"), yard.add("do it", "--pool", "second")
    named = yard.add("do it", "--pool", "claude-crew")
    yard.stand_in.tell(claims=True)
    yard.work("--lane", "subagent", "--max", "8")
    assert [yard.state(task) for task in (first, second, named)] == ["done"] * 3
    assert sorted(yard.took()) == [("1", [first, named]), ("2", [second])]


def test_a_task_of_a_pool_that_is_for_another_project_is_worked_by_no_crew_and_says_why(
    yard: Yard, tmp_path: Path
) -> None:
    other = work_tree(tmp_path / "other")
    second_pool(yard)
    yard.file.write_text(yard.file.read_text() + f'\n[pools.second]\nprojects = ["{other}"]\n')
    yard.open('pool = "claude-crew"')
    foreign, ours = yard.add("do it", "--pool", "second"), yard.add("do it")
    yard.stand_in.tell(claims=True)
    yard.work("--lane", "subagent", "--max", "4")
    assert (yard.state(foreign), yard.state(ours)) == ("blocked", "done")
    assert yard.took() == [("1", [ours])]
    assert "pool_not_for_project" in yard.records(foreign)[-1]["reason"]
    assert not yard.records(foreign)[-1]["charged"]


def test_a_task_whose_own_pool_is_closed_is_held_with_its_reason_and_waited_for(yard: Yard) -> None:
    second_pool(yard)
    yard.open('pool = "claude-crew"')
    yard.json("profile", "cooldown", "claude-2", "--seconds", "3600", "--reason", "limit five_hour: used up")
    waits, ours = yard.add("do it", "--pool", "second"), yard.add("do it")
    yard.stand_in.tell(claims=True)
    with yard.start("run", "--force", "--lane", "subagent", "--max", "4") as run:
        wait_until(lambda: len(yard.records(ours)) == 1, "the other is worked")
        wait_until(lambda: "hold" in [each["name"] for each in yard.json("why", waits)["reasons"]], "it is held")
        told = [each["why"] for each in yard.json("why", waits)["reasons"]]
        assert any("claude-2: cooldown" in each and "used up" in each for each in told), told
        assert run.poll() is None
        yard.json("profile", "cooldown-clear", "claude-2")
        _, err = run.communicate(timeout=90)
    assert (yard.state(waits), yard.took()[-1]) == ("done", ("2", [waits])), err


@pytest.mark.parametrize("lane", ["headless", "subagent"])
@pytest.mark.parametrize("closed", ["cooldown", "busy"])
def test_tasks_of_another_pool_go_on_while_the_runs_own_has_no_free_account(yard: Yard, lane: str, closed: str) -> None:
    """Dispatched and in crews; those of the run's own pool wait, though they came first, and go on when it is open."""
    second_pool(yard)
    yard.open('pool = "claude-crew"')
    if closed == "cooldown":
        yard.json("profile", "cooldown", "claude-1", "--seconds", "3600", "--reason", "limit five_hour: used up")
        opening: tuple[str, ...] = ("profile", "cooldown-clear", "claude-1")
    else:
        for number in range(2):
            place = ("--pool", "claude-crew", "--workspace", str(yard.root))
            yard.json("lease", "choose", "--task", f"elsewhere {number}", *place)
        opening = ("lease", "release", "--task", "elsewhere 0")
    ours = [yard.add("do it", "--priority", "1") for _ in range(3)]
    others = [yard.add("do it", "--pool", "second") for _ in range(3)]
    yard.stand_in.tell(claims=lane == "subagent")
    planned = yard.json("plan", "--lane", lane)
    rows = {row["name"]: (row["pool"], bool(row["workers"])) for row in planned["accounts"]}
    assert rows == {"claude-1": ("claude-crew", False), "claude-2": ("second", True)}, planned
    with yard.start("run", "--force", "--lane", lane, "--max", "4") as run:
        wait_until(lambda: all(yard.state(task) == "done" for task in others), "the other pool's are done", 60)
        assert {yard.state(task) for task in ours} == {"inbox"}
        assert run.poll() is None
        yard.json(*opening)
        _, err = run.communicate(timeout=90)
    assert {yard.state(task) for task in ours} == {"done"}, err
    homes = {home for home, took in yard.took() if set(took) & set(others)} if lane == "subagent" else set()
    assert homes <= {"2"}
    assert not any(
        record["charged"] for task in [*ours, *others] for record in yard.records(task) if record["outcome"] != "done"
    )


def test_a_crew_that_meets_a_limit_hands_its_task_to_the_next_account(yard: Yard) -> None:
    yard.open('pool = "claude-crew"', 'rotation = "on"')
    task = yard.add("do it")
    yard.stand_in.tell(claims=True, limits={"1": {"rateLimitType": "five_hour", "resetsAt": int(time.time()) + 5400}})
    yard.work("--lane", "subagent", "--max", "4")
    assert [record["outcome"] for record in yard.records(task)] == ["done"]
    assert yard.took() == [("1", [task]), ("2", [task])]
    assert [path.name for path in (yard.kept / "cooldowns").iterdir()] == ["claude-1.json"]


def test_many_tasks_of_a_closed_model_are_held_at_once_and_keep_nobody_waiting(yard: Yard) -> None:
    yard.open('pool = "claude-crew"')
    yard.json("profile", "cooldown", "claude-1", "--seconds", "3600", "--reason", "used up", "--model", "opus")
    yard.json("profile", "cooldown", "claude-2", "--seconds", "3600", "--reason", "used up", "--model", "opus")
    strong = [yard.add("do it", "--model", "claude-opus-4-8") for _ in range(60)]
    other = yard.add("do it", "--model", "sonnet")
    assert [row["workers"] for row in yard.json("plan")["accounts"]] == [2, 0]
    assert "closed to opus until" in yard.json("plan")["accounts"][0]["why"]
    with yard.start("run", "--force", "--max", "2") as run:
        wait_until(lambda: len(yard.records(other)) == 1, "the other model is worked", 60)
        assert {yard.state(task) for task in strong} == {"inbox"}
        assert len(yard.stand_in.calls()) == 1
        told = [each["why"] for each in yard.json("why", strong[-1])["reasons"]]
        assert any("closed to opus until" in each for each in told), told
        run.terminate()
        run.communicate(timeout=60)


MOMENTS = [
    ("headless", "agent_fleet.run.clerk", "meet", "before"),
    ("headless", "agent_fleet.run.clerk", "meet", "after"),  # the account is closed, and the task is not back yet
    ("headless", "agent_fleet.queue.finish", "finish", "after"),  # the task is back, and the attempt is not settled
    ("headless", "agent_fleet.run.clerk", "part", "before"),  # all is settled, and the account is not given back
    ("subagent", "agent_fleet.run.clerk", "meet", "after"),
    ("subagent", "agent_fleet.run.disband", "_give_back", "after"),
]


@pytest.mark.parametrize(("lane", "module", "name", "when"), MOMENTS)
def test_a_driver_that_dies_while_it_settles_a_limit_charges_and_loses_nothing(
    yard: Yard, lane: str, module: str, name: str, when: str
) -> None:
    yard.open('pool = "claude-crew"', 'rotation = "on"')
    task = yard.add("do it")
    reset = int(time.time()) + 5400
    yard.stand_in.tell(claims=lane == "subagent", limits={"1": {"rateLimitType": "five_hour", "resetsAt": reset}})
    options = ("--lane", lane, "--max", "1")
    assert yard.deadly(module, name, when, "run", "--force", *options) == -9
    said = yard.work(*options)
    assert yard.state(task) == "done", said
    assert not any(record["charged"] for record in yard.records(task))
    assert [record["outcome"] for record in yard.records(task)][-1] == "done"
    assert [record["outcome"] for record in yard.records(task)].count("limit") <= 1
    assert yard.accounts() == ["1", "2"]  # nobody tried the closed account again
    (path,) = (yard.kept / "cooldowns").iterdir()
    assert (path.stem, round(json.loads(path.read_text())["expires_unix"] - reset)) == ("claude-1", 0)
    assert yard.leases() == {}
