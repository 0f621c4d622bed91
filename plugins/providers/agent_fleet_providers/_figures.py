"""Figures and objects in an agent's events, taken for what they are worth: a wrong type is nothing, never an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_fleet.api import Usage

MOST = 10**15


def count(value: object) -> int:
    """A token count; anything that is none counts nothing."""
    number = _finite(value)
    return max(0, int(number)) if number is not None else 0


def price(value: object) -> float | None:
    """An amount of money, None if it is none."""
    number = _finite(value)
    return float(number) if number is not None and number >= 0 else None


def table(value: object) -> Mapping[str, Any]:
    """An object, empty if the value is none."""
    return value if isinstance(value, dict) else {}


def _finite(value: object) -> int | float | None:
    """The number, None if it is none or too large for any real figure."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MOST <= value <= MOST:
        return None
    return value


def added(one: Usage, other: Usage, *, turns: int = 0) -> Usage:
    """The sum of two uses, and `turns` more; the money is unknown as soon as that of one is."""
    known = one.money is not None and other.money is not None
    return Usage(
        input=one.input + other.input,
        cache_write=one.cache_write + other.cache_write,
        cache_read=one.cache_read + other.cache_read,
        output=one.output + other.output,
        reasoning=one.reasoning + other.reasoning,
        turns=one.turns + other.turns + turns,
        money=(one.money or 0.0) + (other.money or 0.0) if known else None,
        models=tuple(sorted({*one.models, *other.models})),
        partial=one.partial or other.partial,
    )
