"""The contract of a policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from agent_fleet.model import Active, Board, Budget, Ceiling, Hold, Task, Waiting
from agent_fleet.protocols import Policy
from agent_fleet.testing.board import NOW, new_board
from agent_fleet.testing.contract import asked, check_name, is_count, is_number, is_said, must


def check_policy(policy: Policy, *, boards: Iterable[Board] = (), tasks: Iterable[Task] = ()) -> None:
    """Check what a policy says of empty, busy and odd boards and of every kind of task, and of those that are given.

    Asked twice about the same it has to say the same, but for the time of a reading.
    """
    name = check_name(policy)
    every = (*_tasks(), *tasks)
    for board in (*_boards(), *boards):
        first, second = (asked(f"{name}.ceiling()", policy.ceiling, board) for _ in range(2))
        _check_ceiling(name, first)
        must(_timeless(first) == _timeless(second), f"{name}.ceiling() says something else of the same board")
        for task in every:
            found, again = (asked(f"{name}.hold()", policy.hold, task, board) for _ in range(2))
            _check_hold(name, found)
            must(found == again, f"{name}.hold() says something else of the same task and board")


def _check_ceiling(name: str, ceiling: object) -> None:
    if ceiling is None:
        return
    must(isinstance(ceiling, Ceiling), f"{name}.ceiling() is {ceiling!r}, wanted a Ceiling or None")
    if isinstance(ceiling, Ceiling):
        whole = ceiling.workers is None or is_count(ceiling.workers)
        must(whole, f"{name}.ceiling() allows {ceiling.workers!r} workers, wanted a whole number or None")
        must(is_said(ceiling.name) and is_said(ceiling.source), f"{name}.ceiling() does not say who says so")
        must(is_said(ceiling.why), f"{name}.ceiling() does not say why")
        must(ceiling.at is None or is_number(ceiling.at), f"{name}.ceiling() was read at {ceiling.at!r}")


def _check_hold(name: str, hold: object) -> None:
    if hold is None:
        return
    must(isinstance(hold, Hold), f"{name}.hold() is {hold!r}, wanted a Hold or None")
    if isinstance(hold, Hold):
        must(is_said(hold.source), f"{name}.hold() does not say who says so")
        must(is_said(hold.why), f"{name}.hold() does not say why")
        must(hold.until is None or is_number(hold.until), f"{name}.hold() ends at {hold.until!r}")


def _timeless(ceiling: Ceiling | None) -> Ceiling | None:
    return replace(ceiling, at=None) if ceiling else None


def _boards() -> tuple[Board, ...]:
    stranger = Active(task="t900", generation=70, owner="?", gate="host", agent="", lane="", alive=None, beat=NOW - 1e6)
    rare = Waiting(priority=0, need="browser", lane="no such lane", provider="nobody", gate="shop.example", count=1)
    return (
        new_board(),
        new_board(waiting=3),
        new_board(waiting=50_000, active=60, done=10_000, blocked=7, failed=9),
        new_board(waiting=(rare,), active=(stranger,), now=0.0),
    )


def _tasks() -> tuple[Task, ...]:
    plain = Task(id="t1", target="Fix the test", created=NOW)
    return (
        plain,
        Task(id="t2", target="https://shop.example/", need="browser", host="shop.example", priority=0, kind="publish"),
        Task(id="t3", target="make docs", need="command", writes=True, touches=("docs",), check="true"),
        Task(id="t4", target="x" * 100_000, title="\u202e\U0001f680", need="serial", source="feed", trust="outside"),
        replace(plain, id="t5", needs=("t1",), lane="serial", provider="nobody", pool="p", model="m", run="r1"),
        replace(plain, id="t6", budget=Budget(tokens=0, money=0.0, turns=0, seconds=0.0)),
    )
