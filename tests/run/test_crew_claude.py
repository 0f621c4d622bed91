"""Crews of the real Claude Code against a scripted model on loopback: one session, several subagents, one shared queue."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet import process
from support.claude_lab import Lab, host
from support.model_server import ModelServer
from support.procs import wait_until
from support.runs import attempts_of

pytestmark = pytest.mark.real_cli

LANE = ("--lane", "subagent")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with ModelServer(host) as server:
        yield Lab(tmp_path, server)


def claims(lab: Lab) -> list[tuple[str, str]]:
    return [(event["task"], event["agent"]) for event in lab.site.events("claimed")]


def test_one_session_of_four_subagents_works_eight_tasks_dry(lab: Lab) -> None:
    site = lab.site
    tasks = [site.add(f"look at part {number}") for number in range(8)]
    lab.work(*LANE)

    assert site.counts() == {"done": 8}
    assert sorted(task for task, _ in claims(lab)) == sorted(tasks)
    assert {agent for _, agent in claims(lab)} == {f"r1-w1-{number}" for number in range(1, 5)}
    owners = {event["owner"].partition("x")[0] for event in site.events("claimed")}
    assert len(owners) == 1  # one process holds them all
    assert len(site.events("mustered")) == 1
    assert site.events("started") == []
    for task, agent in claims(lab):
        record = site.record(task)
        assert (record["result"], record["agent"], record["worker"]) == (f"did {task} by {agent}", agent, "r1-w1")
    (over,) = site.events("disbanded")
    assert (over["outcome"], over["returned"], over["seats"]) == ("done", [], 4)
    assert lab.used(over) == lab.server.sent()
    assert site.alive() == []
    assert site.is_clean()


def test_a_session_outlives_its_driver_and_when_it_is_killed_a_new_one_finishes_its_tasks(lab: Lab) -> None:
    site = lab.site
    tasks = [site.add(f"look at part {number}") for number in range(6)]
    with site.driving(*LANE, env=lab.env) as first:
        wait_until(lambda: len(site.queue().active()) >= 2, "the session holds some", 120)
        first.kill()
        with site.driving(*LANE, env=lab.env) as second:
            wait_until((site.dir / "runs" / "r2").exists, "the next run has begun")
            wait_until(lambda: len(site.queue().active()) >= 2, "the session goes on", 120)
            (crew,) = attempts_of(site)
            keeper = crew.worker
            session = next(proc for proc in process.tree(keeper.identity, crew.mark) if proc.pid != keeper.pid)
            os.kill(session.pid, signal.SIGKILL)
            answer = second.end()

    assert "taking over 1 workers of r1" in answer.err
    assert site.counts() == {"done": 6}
    assert [record["outcome"] for task in tasks for record in site.records(task)] == ["done"] * 6
    over, new = site.events("disbanded")
    assert (over["run"], over["outcome"], new["run"], new["outcome"]) == ("r1", "crashed", "r2", "done")
    assert site.events("reclaimed")
    assert {event["task"] for event in site.events("reclaimed")} >= set(over["returned"])
    assert site.alive() == []
    assert site.is_clean()
