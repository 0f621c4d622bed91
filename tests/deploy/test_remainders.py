"""What is left of a part is given out once, whoever asks and however often, and the deployment's money is one sum over its runs."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.deploy import coverage, dispatch, harvest, orders, record
from agent_fleet.deploy.assignment import Assignments
from agent_fleet.deploy.record import Deployment, Settings
from agent_fleet.deploy.values import Item, Scope
from agent_fleet.errors import FleetError
from agent_fleet.queue import records
from agent_fleet.queue.finish import Proof, finish
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import Habits
from support.deployments import hire_scripted
from support.project import enlist, new_queue, take
from support.runs import Site

HABITS = Habits()


def deployment(queue: Queue, items: int, parts: int, **settings: Any) -> Deployment:
    every = tuple(Item(id=f"i{n}", value=f"v{n}") for n in range(1, items + 1))
    share = items // parts
    scopes = tuple(Scope(items=tuple(item.id for item in every[n * share : (n + 1) * share])) for n in range(parts))
    return record.create(
        queue,
        Deployment(
            id="d0",
            instruction="Read",
            decomposer="items",
            source="a test",
            digest="",
            items=every,
            scopes=scopes,
            settings=Settings(**settings),
        ),
    )


def end(queue: Queue, state: str, outcome: str, result: str) -> str:
    """Claim the next task and end it so."""
    claimed = take(queue, enlist(queue))
    assert claimed is not None
    told = {"outcome": outcome, "reason": "x", "result": result, "charged": outcome != "done", "by": "agent"}
    finish(queue, claimed.task, Proof(generation=claimed.generation), state, told)
    return claimed.task


def answer(*items: str) -> str:
    return "\n".join(json.dumps({"item": item, "value": item}) for item in items)


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return new_queue(tmp_path / ".agents")


def test_many_that_give_out_at_once_make_one_task_for_each_part(queue: Queue) -> None:
    job = deployment(queue, 60, 20)
    threads = [
        threading.Thread(target=lambda: dispatch.give_out(Queue(queue.dir), job, HABITS), daemon=True) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Counter(order.part for _, order in orders.all_of(queue, job.id)) == Counter(range(1, 21))
    assert len(list(queue.waiting())) == 20


def test_a_suspended_agent_keeps_what_it_has_and_the_rest_is_given_out_once(queue: Queue) -> None:
    job = deployment(queue, 4, 1)
    dispatch.give_out(queue, job, HABITS)
    task = end(queue, "failed", "budget", answer("i1", "i2") + '\n{"item": "i3", "val')
    (rest,) = dispatch.give_out(queue, job, HABITS)
    assert dispatch.give_out(queue, job, HABITS) == []
    order = orders.of_task(queue, job.id, rest)
    assert order is not None
    assert ([item.id for item in order.items], order.round, order.of) == (["i3", "i4"], 1, task)

    end(queue, "done", "done", answer("i3", "i4"))
    fates = coverage.fates(job, coverage.given(queue, job))
    assert str(coverage.coverage(fates)) == "4 of 4 items answered"


def test_why_says_where_the_rest_of_a_suspended_part_went_and_sends_a_deployment_to_its_report(tmp_path: Path) -> None:
    site = Site(tmp_path)
    queue = site.queue()
    job = deployment(queue, 4, 2, redispatch=1)
    dispatch.give_out(queue, job, HABITS)
    task = end(queue, "failed", "budget", answer("i1"))
    assert f"try again with: fleet reset {task}" in site.json("why", task)["reasons"][-1]["why"]
    (rest,) = dispatch.give_out(queue, job, HABITS)
    told = site.json("why", task)["reasons"][-1]
    assert (told["why"], told["tasks"]) == (f"charged: 1 attempt; what it left is with {rest}", [rest])
    refused = site.json("why", job.id, status=4)
    assert (refused["code"], refused["error"]) == (
        "not_found",
        f"{job.id} is the name of a deployment, not of a task",
    )
    assert f"fleet report {job.id}" in refused["hint"]


def test_an_agent_within_a_program_is_told_what_is_missing_or_breaks_the_contract(queue: Queue) -> None:
    job = replace(deployment(queue, 3, 1), contract={"type": "string"})
    dispatch.give_out(queue, job, HABITS)
    claimed = take(queue, enlist(queue))
    assert claimed is not None
    assignment = Assignments(queue).of(claimed.body)
    assert assignment is not None
    assert assignment.servers == {}
    assert '"value": "v3"' in claimed.body["notes"]
    told = assignment.advice(answer("i1") + '\n{"item": "i2", "value": 7}')
    assert "i2: the value: 7 is not of type 'string'" in told
    assert "no line yet: i3" in told
    assert "i1" not in told
    assert assignment.advice(answer("i1", "i2", "i3")) == ""
    assert Assignments(queue).of({"id": "t99", "run": "d1"}) is None


def test_nothing_is_given_out_more_often_than_the_deployment_says(queue: Queue) -> None:
    job = deployment(queue, 2, 1, redispatch=2)
    for _ in range(3):
        assert len(dispatch.give_out(queue, job, HABITS)) == 1
        end(queue, "failed", "budget", "")
    assert dispatch.give_out(queue, job, HABITS) == []
    fates = coverage.fates(job, coverage.given(queue, job))
    assert coverage.coverage(fates).failed == {"unanswered": 2}


def test_a_part_that_was_given_up_has_failed_with_its_class_and_is_not_tried_again(queue: Queue) -> None:
    job = deployment(queue, 4, 2)
    dispatch.give_out(queue, job, HABITS)
    end(queue, "failed", "crashed", answer("i1"))
    end(queue, "blocked", "blocked", "")
    assert dispatch.give_out(queue, job, HABITS) == []
    covered = coverage.coverage(coverage.fates(job, coverage.given(queue, job)))
    assert (covered.answered, covered.failed, covered.open) == (1, {"crashed": 1}, {"blocked": 2})
    assert covered.share == 0.25


def test_a_part_goes_to_the_provider_and_model_of_its_tier_unless_the_person_named_one(queue: Queue) -> None:
    tiers = {"low": {"provider": "cheap", "model": "small"}, "high": {"provider": "", "model": "large"}}
    job = deployment(queue, 2, 2)
    low, high = (replace(order, tier=tier) for order, tier in zip(job.orders(), tiers, strict=True))
    tiered = replace(job, tiers=tiers)
    bodies = [dispatch.body(tiered, order, HABITS) for order in (low, high)]
    assert [(body["provider"], body["model"]) for body in bodies] == [("cheap", "small"), ("", "large")]
    named = replace(tiered, settings=replace(job.settings, model="mine"))
    assert dispatch.body(named, low, HABITS)["model"] == "mine"
    assert record.read(queue, job.id) == job


def test_what_was_found_is_told_as_lines_that_can_be_put_together(queue: Queue) -> None:
    job = deployment(queue, 4, 2)
    dispatch.give_out(queue, job, HABITS)
    end(queue, "done", "done", answer("i1") + '\n{"item": "i2", "failed": "unreachable"}')
    rows = list(harvest.rows(job, coverage.fates(job, coverage.given(queue, job))))
    assert [(row["items"], row["outcome"], row["value"], row["part"]) for row in rows] == [
        (["i1"], "done", "i1", 0),
        (["i2"], "unreachable", None, 1),
        (["i3"], "open", "t2 is not started", 2),
        (["i4"], "open", "t2 is not started", 3),
    ]
    assert harvest.asked(job) == ["i1", "i2", "i3", "i4"]
    json.dumps(rows)


def test_a_damaged_order_costs_its_own_task_and_says_so(queue: Queue) -> None:
    job = deployment(queue, 2, 2)
    first, _ = dispatch.give_out(queue, job, HABITS)
    Path(orders.directory(queue, job.id), f"{first}.json").write_text('{"items": 7}')
    claimed = take(queue, enlist(queue))
    assert claimed is not None
    with pytest.raises(FleetError) as caught:
        Assignments(queue).of(claimed.body)
    assert caught.value.code == "corrupt"


SPENDER = """
import json, sys, time
told = sys.stdin.read()
print(json.dumps({"type": "started", "session": "s", "model": "m", "identity": "scripted@example.com"}))
print(json.dumps({"type": "usage", "input": 100, "output": 10, "turns": 1, "money": 0.04}))
lines = [json.loads(line)["item"] for line in told.splitlines() if line.startswith('{"item": "i')]
print(json.dumps({"type": "result", "status": "done", "text": "\\n".join(json.dumps({"item": i, "value": 1}) for i in lines)}))
"""


def test_the_money_of_a_deployment_is_one_sum_over_all_its_runs(tmp_path: Path) -> None:
    """Three parts of 0.04 pass a limit of 0.10: the fourth is never begun, nor is one in the next run.

    Nobody can say what a part may cost, as its model has no price: so they work one by one, though three are allowed at once.
    """
    site = Site(tmp_path)
    path = hire_scripted(site, tmp_path, SPENDER)
    options = ("--parts", "6", "--agents", "3", "--money", "0.10", "--force", "--stagger", "0")
    report = site.json(
        "deploy", "--task", "x", "--inputs", "-", *options, stdin=b"1\n2\n3\n4\n5\n6\n", env=path, status=1
    )
    assert report["coverage"]["answered"] == 3
    assert report["money"]["known"] == pytest.approx(0.12)
    again = site.json("resume-run", "d1", "--force", "--stagger", "0", env=path, status=1)
    assert again["coverage"]["answered"] == 3
    assert "are spent" in again["why"]
    assert site.json("cost", "--run", "d1")["total"]["attempts"] == 3
    assert len(records.outcomes(site.queue(), "t4")) == 0
