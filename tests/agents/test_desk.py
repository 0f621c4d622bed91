"""The desk: one look at the inbox serves many seats, and misses nothing for long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_fleet import config, prices
from agent_fleet.agents import desk as desks
from agent_fleet.agents.desk import Desk
from agent_fleet.queue import holds
from agent_fleet.queue.share import parse
from agent_fleet.queue.store import Queue
from support.project import enlist, fill


@pytest.fixture
def desk(queue: Queue, tmp_path: Path) -> Desk:
    settings = config.load(str(tmp_path), queue_dir=queue.dir, environ={"HOME": str(tmp_path)})
    return Desk(queue, settings, enlist(queue), parse("agent/-/-"), prices.packaged(), "anthropic")


def agent_tasks(queue: Queue, count: int, priority: int = 5) -> list[str]:
    return fill(queue, [{"target": f"task {number}", "need": "agent", "priority": priority} for number in range(count)])


def test_a_seat_that_is_free_again_costs_no_look_at_the_whole_inbox(
    desk: Desk, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "_SEARCH", 3600.0)
    tasks = agent_tasks(queue, 200)
    lists = []
    listdir = os.listdir

    def count(path: str) -> list[str]:
        lists.append(path)
        return listdir(path)

    found = [each.task for each in desk.claim(1)]
    monkeypatch.setattr(os, "listdir", count)
    found += [each.task for _ in range(150) for each in desk.claim(1)]
    assert found == tasks[:151]
    assert [path for path in lists if "inbox" in path] == []


def test_what_comes_after_a_look_is_seen_by_the_next_and_at_once_where_nothing_else_is_left(
    desk: Desk, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "_SEARCH", 3600.0)
    old = agent_tasks(queue, 3)
    assert [each.task for each in desk.claim(1)] == old[:1]
    urgent = agent_tasks(queue, 1, priority=1)
    assert [each.task for each in desk.claim(4)] == [*old[1:], *urgent]
    assert desk.claim(1) == []
    more = agent_tasks(queue, 2)
    assert [each.task for each in desk.claim(1)] == more[:1]
    urgent = agent_tasks(queue, 1, priority=1)
    desk._search_ends = 0.0  # as after a quarter of a second
    assert [each.task for each in desk.claim(2)] == [*urgent, *more[1:]]


def test_a_look_that_goes_on_gives_out_nothing_that_was_taken_or_is_held_meanwhile(
    desk: Desk, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "_SEARCH", 3600.0)
    tasks = agent_tasks(queue, 5)
    assert [each.task for each in desk.claim(1)] == tasks[:1]
    other = Desk(queue, desk._config, enlist(queue, "other"), parse("agent/-/-"), prices.packaged(), "anthropic")
    assert [each.task for each in other.claim(1)] == tasks[1:2]
    holds.put(queue, {tasks[2]: {"why": "not now", "source": "person"}})
    assert [each.task for each in desk.claim(5)] == tasks[3:]
