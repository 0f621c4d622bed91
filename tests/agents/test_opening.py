"""What is read of a task before it is begun is read in no event loop, and what this process lacks is waited for."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Mapping
from typing import Any, cast

import pytest

from agent_fleet.agents import shortage
from agent_fleet.agents.desk import Closing, Desk, Opening
from agent_fleet.agents.host import Host, Kits, Terms
from agent_fleet.agents.loop import Line, Means
from agent_fleet.agents.permits import Throttles
from agent_fleet.agents.shortage import Shortage
from agent_fleet.errors import FleetError
from agent_fleet.queue.claim import Claimed
from agent_fleet.queue.conclusion import Fate
from agent_fleet.queue.store import Place

FEW_FILES = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class Counter:
    """A desk with some tasks, begun for the second time, and a tool server that cannot be had. It notes who claims and who reads.

    The order of a task among `unreadable` cannot be read.
    """

    def __init__(self, fails: int, tasks: tuple[str, ...] = ("t1",), unreadable: str = "") -> None:
        self.fails = fails
        self.unreadable = unreadable
        self.readers: list[threading.Thread] = []
        self.claimers: list[threading.Thread] = []
        self.left = [Claimed(task, 2, f"/nowhere/{task}", "", {"id": task, "target": "x"}) for task in tasks]
        self.outcomes: list[str] = []

    def claim(self, _most: int) -> list[Claimed]:
        found, self.left = self.left, []
        if found:
            self.claimers.append(threading.current_thread())
        return found

    def opening(self, _claimed: Claimed, tokens: int) -> Opening:
        self._read()
        return Opening(tokens, None)

    def of(self, task: Mapping[str, Any]) -> None:
        self._read()
        if task["id"] == self.unreadable:
            raise FleetError("corrupt", f"the order of {task['id']} cannot be read")

    def settle(self, closings: list[Closing]) -> list[Fate]:
        self.outcomes += [each.outcome.reason for each in closings]
        return [Place("inbox", each.claimed.path, 3) for each in closings]

    def give_back(self, _claimed: Claimed, why: str) -> None:
        self.outcomes.append(f"returned: {why}")

    async def kit(self, _servers: object) -> Any:
        raise FleetError("unavailable", "no tools today")

    def _read(self) -> None:
        self.readers.append(threading.current_thread())
        if self.fails:
            self.fails -= 1
            raise FEW_FILES


class Uncounted:
    """A till where there is no limit of money."""

    async def refresh(self) -> None:
        pass

    def of(self, _deployment: str) -> Uncounted:
        return self

    def recorded(self, _cost: float) -> None:
        pass


def run(desk: Counter) -> str:
    told: list[str] = []
    means = Means(cast("Line", None), cast("Throttles", None), cast("Any", Uncounted()))
    host = Host(cast("Desk", desk), means, cast("Kits", desk), desk, Terms(4, "m", 100, 1), told.append)
    outcome = asyncio.run(host.run())
    return "".join(told) + outcome.reason


def test_no_record_and_no_order_is_read_in_the_event_loop() -> None:
    desk = Counter(0)
    run(desk)
    assert desk.outcomes == ["no tools today"]
    assert desk.readers and threading.main_thread() not in desk.readers


def test_tasks_are_read_with_their_claim_and_once() -> None:
    desk = Counter(0, ("t1", "t2", "t3"))
    run(desk)
    assert desk.readers == desk.claimers * 6, "an order and a beginning each, without a thread of its own"


def test_a_task_that_cannot_be_read_costs_those_claimed_with_it_nothing() -> None:
    desk = Counter(0, ("t1", "t2", "t3"), unreadable="t2")
    run(desk)
    assert sorted(desk.outcomes) == ["no tools today", "no tools today", "the order of t2 cannot be read"]


def test_a_shortage_while_a_task_is_begun_is_outlasted_and_told_once() -> None:
    desk = Counter(2)
    assert run(desk).count("tasks wait: Too many open files") == 1
    assert desk.outcomes == ["no tools today"], "one attempt, which ended by itself"


def test_a_shortage_that_does_not_end_gives_the_task_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortage, "PATIENCE", 0.0)
    desk = Counter(99)
    told = run(desk)
    assert desk.outcomes == ["returned: t1 could not be begun: Too many open files"]
    assert "ulimit -n" in told


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), ValueError("other")])
def test_what_is_no_shortage_is_not_tried_again(error: Exception) -> None:
    tries = []

    async def attempt() -> None:
        tries.append(1)
        raise error

    with pytest.raises(type(error)):
        asyncio.run(Shortage().outlast("it", attempt))
    assert len(tries) == 1
