"""What processes hold of the money of a project beside what is on record: how it is kept, and what is left for others. Pure.

A holding is of one process (its calls over an API) or of one attempt (a program of its own, of which fleet sees only what it
says). `staked` is the most that what is on its way may cost, `spent` what calls that are over have cost without being on record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, NamedTuple

from agent_fleet.ledger import day_of

FORMAT: Final = 1
EVERYTHING: Final = math.inf  # the stake of an attempt of which nobody can say what it may cost
_DUST = 1e-9  # US dollars that are the rounding of sums

Kind = Literal["calls", "attempt", "lost"]


@dataclass(slots=True, kw_only=True)
class Holding:
    """`owner` is the identity of the process that answers for it, `worker` the session, `task` and `generation` the attempt whose
    end the journal will tell; `at` is when it last changed (seconds). `lives` is false once its owner is known to be gone.
    """

    kind: Kind
    owner: str = ""
    run: str = ""
    deployment: str = ""
    worker: str = ""
    task: str = ""
    generation: int = 0
    staked: float = 0.0
    spent: float = 0.0
    at: float = 0.0
    lives: bool = True

    @property
    def amount(self) -> float:
        return self.staked + self.spent

    @property
    def is_nothing(self) -> bool:
        return self.amount < _DUST


class Fund(NamedTuple):
    """One ceiling of money, in US dollars: of a `run`, a `deployment` or a `day`; `scope` says which."""

    name: Literal["run", "deployment", "day"]
    scope: str
    limit: float

    def covers(self, held: Holding) -> bool:
        """Whether a holding counts under it. What is alive will be on record today."""
        if self.name == "run":
            return held.run == self.scope
        if self.name == "deployment":
            return held.deployment == self.scope
        return (held.lives and held.kind != "lost") or day_of(held.at) == self.scope


class Room(NamedTuple):
    """What of a fund is left: `now`, and `later`, should everything that is staked come to nothing."""

    fund: Fund
    now: float
    later: float

    @property
    def used(self) -> float:
        """What is used up for certain."""
        return self.fund.limit - self.later


def room(fund: Fund, recorded: float, held: Collection[Holding]) -> Room:
    """What is left of a fund of which so much is on record."""
    mine = [each for each in held if fund.covers(each)]
    certain = recorded + sum(each.spent + (0.0 if each.lives else each.staked) for each in mine)
    staked = sum(each.staked for each in mine if each.lives)
    return Room(fund, fund.limit - certain - staked, fund.limit - certain)


def bury(held: dict[str, Holding], name: str) -> None:
    """Count what a dead process had as spent, for good: with what other dead ones of the same run and day had."""
    gone = held.pop(name)
    if gone.is_nothing:
        return
    grave = f"lost {gone.run} {gone.deployment} {day_of(gone.at)}"
    lost = held.setdefault(
        grave, Holding(kind="lost", run=gone.run, deployment=gone.deployment, at=gone.at, lives=False)
    )
    lost.spent += gone.amount


def written(held: Mapping[str, Holding]) -> bytes:
    """The text of the file."""
    told = {name: {key: value for key, value in asdict(each).items() if key != "lives"} for name, each in held.items()}
    return json.dumps({"format": FORMAT, "holdings": told}, sort_keys=True).encode() + b"\n"


def parsed(found: Mapping[str, Any]) -> dict[str, Holding]:
    """The holdings of a file. Raises ValueError for one that cannot be read: then nobody knows what was set aside."""
    told = found.get("holdings")
    if found.get("format") != FORMAT or not isinstance(told, dict):
        raise ValueError("it holds no holdings")
    return {name: _holding(each) for name, each in told.items()}


def _holding(told: object) -> Holding:
    if not isinstance(told, dict) or told.get("kind") not in ("calls", "attempt", "lost"):
        raise ValueError("one of its holdings is none")
    values: dict[str, Any] = {}
    for each in fields(Holding):
        if each.name == "lives":
            continue
        value = told.get(each.name)
        if each.type == "float":
            is_right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
        elif each.type == "int":
            is_right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        else:
            is_right = isinstance(value, str)
        if not is_right:
            raise ValueError(f"{each.name} of one of its holdings is none")
        values[each.name] = value
    return Holding(**values, lives=values["kind"] != "lost")
