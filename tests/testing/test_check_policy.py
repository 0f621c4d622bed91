from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from agent_fleet.api import Board, Ceiling, Hold, Task
from agent_fleet.testing import check_policy, new_board


class Rule:
    """A sound policy, or one whose parts were replaced."""

    name = "rule"

    def __init__(self, **parts: Any) -> None:
        for name, part in parts.items():
            setattr(self, name, part)

    def ceiling(self, board: Board) -> Any:
        return ceiling(workers=len(board.active) + 1)

    def hold(self, task: Task, _board: Board) -> Any:
        return Hold(source="rule", why="a person publishes", until=None) if task.kind == "publish" else None


def ceiling(**changes: Any) -> Ceiling:
    return Ceiling(
        **{"name": "rule", "workers": 2, "source": "rule", "why": "it is said", "at": time.time(), **changes}
    )


def caps(**changes: Any) -> dict[str, Callable[[Board], Ceiling]]:
    return {"ceiling": lambda _board: ceiling(**changes)}


def holds(**changes: Any) -> dict[str, Callable[[Task, Board], Hold]]:
    return {"hold": lambda _task, _board: Hold(**{"source": "rule", "why": "it is said", **changes})}


def counting() -> Callable[..., Any]:
    numbers = itertools.count()
    return lambda *_: ceiling(workers=next(numbers))


def writes(board: Board) -> None:
    cast("dict[str, int]", board.counts)["inbox"] = 0


def test_a_sound_policy_passes() -> None:
    check_policy(Rule())
    check_policy(Rule(ceiling=lambda _board: None, hold=lambda _task, _board: None))
    check_policy(Rule(**caps(workers=None)))


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"name": "two words"}, "one printable word"),
        ({"ceiling": lambda board: 1 // len(board.active)}, r"ceiling\(\) raised ZeroDivisionError"),
        ({"ceiling": writes}, r"ceiling\(\) raised TypeError"),
        ({"ceiling": lambda board: [each.beat + each.alive for each in board.active]}, r"ceiling\(\)"),
        ({"ceiling": lambda _board: 3}, "wanted a Ceiling or None"),
        ({"ceiling": counting()}, "something else of the same board"),
        (caps(workers=-1), "wanted a whole number or None"),
        (caps(workers=1.5), "wanted a whole number or None"),
        (caps(workers=True), "wanted a whole number or None"),
        (caps(name=""), "who says so"),
        (caps(source=" "), "who says so"),
        (caps(why=""), "does not say why"),
        (caps(at="now"), "was read at 'now'"),
        ({"hold": lambda _task, _board: 1 // 0}, r"hold\(\) raised ZeroDivisionError"),
        ({"hold": lambda _task, _board: "no"}, "wanted a Hold or None"),
        ({"hold": lambda _task, _board: Hold(source="a", why=str(time.perf_counter_ns()))}, "same task and board"),
        (holds(source=""), "who says so"),
        (holds(why=" "), "does not say why"),
        (holds(until="tomorrow"), "ends at 'tomorrow'"),
        (holds(until=float("inf")), "ends at inf"),
    ],
)
def test_a_broken_promise_is_named(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_policy(Rule(**parts))


def test_boards_and_tasks_of_ones_own_are_tried_too() -> None:
    rule = Rule(ceiling=lambda board: 1 // 0 if board.counts["done"] == 12345 else None)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        check_policy(rule, boards=[new_board(done=12345)])
    rule = Rule(hold=lambda task, _board: 7 if task.kind == "mine" else None)
    with pytest.raises(AssertionError, match="wanted a Hold"):
        check_policy(rule, tasks=[Task(id="t1", target="x", kind="mine")])


def test_a_board_counts_what_is_on_it(board: Callable[..., Board]) -> None:
    made = board(waiting=3, active=2, done=5)
    assert dict(made.counts) == {"inbox": 3, "active": 2, "done": 5, "blocked": 0, "failed": 0}
    assert [each.task for each in made.active] == ["t1", "t2"]
