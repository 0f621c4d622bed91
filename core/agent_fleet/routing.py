"""Which provider and model a task goes to, by how difficult it is. Pure.

`[tiers.NAME]` tables say what there is:

    [tiers.small]
    level = 1
    provider = "anthropic"
    model = "a-small-model"
    for = "lookups, and changes in one place"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from agent_fleet.errors import FleetError

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_FIELDS = {"level": int, "provider": str, "model": str, "for": str}


class Tier(NamedTuple):
    """What tasks of one difficulty go to. An empty `provider` or `model` leaves that choice as it was."""

    name: str
    level: int
    provider: str = ""
    model: str = ""
    meaning: str = ""


def tiers(tables: Mapping[str, Mapping[str, Any]]) -> tuple[Tier, ...]:
    """The tiers of the configuration, the cheapest first. Raises FleetError (`bad_config`)."""
    found = [_tier(name, table) for name, table in tables.items()]
    found.sort(key=lambda tier: tier.level)
    for below, above in pairwise(found):
        if below.level == above.level:
            raise _wrong(f"tiers.{above.name}.level", f"is that of tiers.{below.name} too", "give each its own level")
    return tuple(found)


def named(tables: Mapping[str, Mapping[str, Any]], setting: str, name: str) -> Tier:
    """The tier that a setting names. Raises FleetError (`bad_config`) where there is none of that name."""
    known = {tier.name: tier for tier in tiers(tables)}
    if name not in known:
        hint = f"use one of {', '.join(known)}" if known else "write a [tiers.NAME] table"
        raise FleetError("bad_config", f"{setting} names no tier: {name!r}", hint=hint)
    return known[name]


def _tier(name: str, table: Mapping[str, Any]) -> Tier:
    place = f"tiers.{name}"
    if not NAME.fullmatch(name):
        raise _wrong(place, "is no name of a tier", "use small letters, digits, - and _, at most 32")
    for field, value in table.items():
        kind = _FIELDS.get(field)
        if kind is None:
            raise _wrong(f"{place}.{field}", "means nothing", f"use {', '.join(_FIELDS)}")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _wrong(
                f"{place}.{field}", f"is {value!r}", f"write a {'whole number' if kind is int else 'text'} there"
            )
    if "level" not in table:
        raise _wrong(f"{place}.level", "is missing", "write a whole number there: the cheapest tier has the lowest")
    return Tier(name, table["level"], table.get("provider", ""), table.get("model", ""), table.get("for", ""))


def _wrong(place: str, what: str, hint: str) -> FleetError:
    return FleetError("bad_config", f"{place} {what}", hint=hint)
