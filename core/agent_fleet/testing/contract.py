"""What every contract check needs: a broken promise is an AssertionError with a sentence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE = 60.0


def must(holds: object, sentence: str) -> None:
    """Raise AssertionError with the sentence unless it holds."""
    if not holds:
        raise AssertionError(sentence)


def asked(what: str, call: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """What a call returns; an exception of any kind breaks the promise never to raise."""
    try:
        return call(*args, **options)
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error


def until(holds: Callable[[], object], sentence: str, seconds: float) -> None:
    """Wait until it holds; AssertionError with the sentence if it does not within `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        must(time.monotonic() < end, f"{sentence} (waited {seconds:g} s)")
        time.sleep(0.02)


def check_name(thing: object) -> str:
    """The name by which a thing is asked for: one printable word, the same each time."""
    name = asked("name", getattr, thing, "name", None)
    if not isinstance(name, str):
        raise AssertionError(f"{type(thing).__name__}.name is {name!r}, wanted a text")
    must(name.isprintable() and len(name.split()) == 1, f"the name {name!r} is not one printable word")
    must(getattr(thing, "name", None) == name, f"the name {name!r} changes from one look to the next")
    return name


def check_usable(name: str, usable: Callable[[], object]) -> str | None:
    """What `usable()` says: None, or a reason in words."""
    reason = asked(f"{name}.usable()", usable)
    if reason is None:
        return None
    must(isinstance(reason, str), f"{name}.usable() is {reason!r}, wanted None or a reason in words")
    must(is_said(reason), f"{name}.usable() gives a reason without words")
    return str(reason)


def is_said(text: object) -> bool:
    """Whether it is a text that says something and can be written as UTF-8."""
    return isinstance(text, str) and bool(text.strip()) and is_writable(text)


def is_writable(text: object) -> bool:
    """Whether it is a text without lone surrogates."""
    if not isinstance(text, str):
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_number(value: object) -> bool:
    """Whether it is a finite number; True and False are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value: object) -> bool:
    """Whether it is a whole number, not below zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
