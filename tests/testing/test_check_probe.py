from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from agent_fleet.api import Reading
from agent_fleet.testing import check_probe


class Thermometer:
    """A sound probe, or one whose parts were replaced."""

    name: Any = "thermometer"

    def __init__(self, **parts: Any) -> None:
        for name, part in parts.items():
            setattr(self, name, part)

    def usable(self) -> Any:
        return None

    def read(self) -> Any:
        return [reading(), reading(quantity="cpu_idle", value=100.0), reading(value=None, note="the file is gone")]


def reading(**changes: Any) -> Reading:
    found = Reading(quantity="memory_available", value=1e9, source="/proc/meminfo", at=time.time())
    return replace(found, **changes)


def reads(**changes: Any) -> dict[str, Callable[[], Iterable[Reading]]]:
    return {"read": lambda: [reading(**changes)]}


def flickers() -> Callable[[], Iterable[Reading]]:
    numbers = iter((1, 0))
    return lambda: [reading()] * next(numbers)


def changing_name() -> type:
    names = iter(["a", "b"])
    return type("Changing", (Thermometer,), {"name": property(lambda _self: next(names))})


def test_a_sound_probe_passes_and_what_it_said_is_handed_back() -> None:
    assert [each.quantity for each in check_probe(Thermometer())] == [
        "memory_available",
        "cpu_idle",
        "memory_available",
    ]
    check_probe(Thermometer(read=lambda: ()))
    check_probe(Thermometer(usable=lambda: "this is no Linux"))


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"name": 7}, "wanted a text"),
        ({"name": "two words"}, "one printable word"),
        ({"name": ""}, "one printable word"),
        ({"name": "a\x1b"}, "one printable word"),
        ({"usable": lambda: 1 // 0}, r"usable\(\) raised ZeroDivisionError"),
        ({"usable": lambda: False}, "wanted None or a reason"),
        ({"usable": lambda: " "}, "without words"),
        ({"read": lambda: 1 // 0}, r"read\(\) raised ZeroDivisionError"),
        ({"read": lambda: (1 // each for each in [0])}, r"read\(\) raised ZeroDivisionError"),
        ({"read": lambda: None}, r"read\(\) raised TypeError"),
        ({"read": lambda: [("cores", 4)]}, "wanted a Reading"),
        ({"read": flickers()}, "only one time of two"),
        (reads(quantity="gpus"), "no known quantity"),
        (reads(value=None), "no note says why"),
        (reads(value=None, note=" "), "no note says why"),
        (reads(value=-1), "below zero"),
        (reads(value=float("nan")), "wanted a finite number"),
        (reads(value=float("inf")), "wanted a finite number"),
        (reads(value=True), "wanted a finite number"),
        (reads(value="4"), "wanted a finite number"),
        (reads(quantity="cpu_idle", value=101), "above 100 percent"),
        (reads(source=""), "does not say where"),
        (reads(note=None), "no text"),
        (reads(at=None), "does not say when"),
        (reads(at=0.0), "not read when it was asked"),
        (reads(at=2e11), "not read when it was asked"),
    ],
)
def test_a_broken_promise_is_named(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_probe(Thermometer(**parts))


def test_a_name_that_changes_is_none() -> None:
    with pytest.raises(AssertionError, match="changes from one look"):
        check_probe(changing_name()())
