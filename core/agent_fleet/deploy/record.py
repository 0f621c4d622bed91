"""A deployment on disk: what was asked, how it was taken apart, with which settings. Written once, before its first task.

`.agents/deployments/<id>/record.json`, and beside it `parts.json` with the items and scopes. One without a record never was.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from agent_fleet.aggregate.verification import Terms
from agent_fleet.deploy.orders import FOLDER, Order, is_id, items_from
from agent_fleet.deploy.values import Item, Scope
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, make_directory, read_json, sync_directory, write_whole
from agent_fleet.queue.store import Queue

REMOVED = "removed.json"  # what is left of one that was taken away


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a deployment is worked: at most `agents` at once, each with `tokens`, `seconds` and `turns` at most, all of it for
    `money` US dollars (0: no limit). What is left of a part is given out again `redispatch` times, and
    what a tier was not able to do goes `escalate` tiers up at most.
    """

    agents: int = 1
    tokens: int = 0
    turns: int = 0
    seconds: float = 0.0
    money: float = 0.0
    need: str = "agent"
    provider: str = ""
    lane: str = ""
    model: str = ""
    pool: str = ""
    check: str = ""
    redispatch: int = 2
    coverage: float = 1.0
    escalate: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """The second pool: agents of this provider, model and pool of accounts, in this lane, who check a sample of the answers.

    Where one is wished for, what is empty is left open.
    """

    provider: str = ""
    model: str = ""
    pool: str = ""
    lane: str = ""
    terms: Terms = field(default_factory=Terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What was asked. `source` tells where the items come from, `digest` is of all of them, `repeated` how often more than once
    an item was given, by its id; `planning` is what taking it apart has cost,
    `servers` the MCP servers of each part, by its number, `tiers` the `provider` and `model` of each tier,
    `second` who checks a sample of the answers (None: nobody).
    """

    id: str
    instruction: str
    decomposer: str
    source: str
    digest: str
    items: tuple[Item, ...]
    scopes: tuple[Scope, ...]
    settings: Settings
    created: float = 0.0
    contract: Mapping[str, Any] = field(default_factory=dict)
    repeated: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    planning: Mapping[str, Any] = field(default_factory=dict)
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tiers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    second: Second | None = None

    def above(self, tier: str) -> str:
        """The tier next above; empty if there is none."""
        names = list(self.tiers)
        place = names.index(tier) + 1 if tier in self.tiers else len(names)
        return names[place] if place < len(names) else ""

    def way(self, tier: str) -> tuple[str, str]:
        """The provider and the model of work of a tier; empty: as configured for all."""
        told = self.tiers.get(tier, {})
        return self.settings.provider or told.get("provider", ""), self.settings.model or told.get("model", "")

    def ways(self) -> set[tuple[str, str]]:
        """Of everyone who may be given a part, or what others could not do of one."""
        found = set()
        for scope in self.scopes:
            tier = scope.tier
            found.add(self.way(tier))
            for _ in range(self.settings.escalate):
                tier = self.above(tier)
                found |= {self.way(tier)} if tier else set()
        return found

    def orders(self) -> list[Order]:
        """The first work order of each part."""
        known = {item.id: item for item in self.items}
        return [
            Order(
                deployment=self.id,
                part=number,
                items=tuple(known[item] for item in scope.items),
                title=scope.title,
                instruction=scope.instruction,
                touches=scope.touches,
                tools=scope.tools,
                servers=self.servers.get(str(number), {}),
                tier=scope.tier,
                contract=self.contract,
            )
            for number, scope in enumerate(self.scopes, 1)
        ]


def digest(items: tuple[Item, ...]) -> str:
    """A digest of all items, their ids and their order."""
    told = json.dumps([[item.id, item.value] for item in items], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()


def reserve(queue: Queue) -> str:
    """A new id, which nobody else gets: what is spent before there is a record is spent under it. Raises OSError."""
    base = queue.path(FOLDER)
    make_directory(base)
    number = max((int(name[1:]) for name in os.listdir(base) if is_id(name)), default=0) + 1
    while True:
        try:
            os.mkdir(os.path.join(base, f"d{number}"))
            return f"d{number}"
        except FileExistsError:
            number += 1


def create(queue: Queue, deployment: Deployment) -> Deployment:
    """Put a deployment on record under the id that was reserved for it, else a new one, which stands in the value that is returned.

    Raises OSError.
    """
    base = queue.path(FOLDER)
    name = deployment.id if is_id(deployment.id) else reserve(queue)
    found = replace(deployment, id=name, created=round(time.time(), 3), digest=digest(deployment.items))
    place = os.path.join(base, name)
    os.mkdir(os.path.join(place, "orders"))
    told = asdict(found)
    parts = {"v": 1, "items": told.pop("items"), "scopes": told.pop("scopes")}
    write_whole(os.path.join(place, "parts.json"), _encoded(parts))
    sync_directory(base)
    write_whole(os.path.join(place, "record.json"), _encoded({"v": 1, **told}))
    return found


def read(queue: Queue, name: str) -> Deployment:
    """The deployment of that name. Raises `not_found`, or `corrupt` for files that cannot be its record."""
    if not is_id(name):
        raise _unknown(name)
    try:
        told = read_json(queue.path(FOLDER, name, "record.json"))
        parts = read_json(queue.path(FOLDER, name, "parts.json"))
        found = _deployment(told, parts)
        if found.id != name or digest(found.items) != found.digest:
            raise BadFileError("its parts are not those that it was made with")
    except FileNotFoundError:
        if os.path.exists(queue.path(FOLDER, name, REMOVED)):
            hint = "its tasks and costs are still there: `fleet cost --run`, `fleet list`"
            raise FleetError("not_found", f"{name} was taken away by `fleet clean`", hint=hint) from None
        raise _unknown(name) from None
    except BadFileError as error:
        raise FleetError(
            "corrupt", f"the record of {name} cannot be read: {error}", hint="restore it from a copy, or deploy again"
        ) from None
    return found


def names(queue: Queue) -> list[str]:
    """Every deployment of this project that is on record, first one first."""
    there = [
        name
        for name in queue.listing(FOLDER)
        if is_id(name) and os.path.exists(queue.path(FOLDER, name, "record.json"))
    ]
    return sorted(there, key=lambda name: int(name[1:]))


def _deployment(told: Mapping[str, Any], parts: Mapping[str, Any]) -> Deployment:
    try:
        known = {each.name for each in fields(Settings)}
        return Deployment(
            id=told["id"],
            instruction=told["instruction"],
            decomposer=told["decomposer"],
            source=told["source"],
            digest=told["digest"],
            items=items_from(parts["items"]),
            scopes=tuple(_scope(each) for each in parts["scopes"]),
            settings=Settings(**{name: value for name, value in told["settings"].items() if name in known}),
            created=float(told["created"]),
            contract=dict(told["contract"]),
            repeated=dict(told["repeated"]),
            notes=tuple(told["notes"]),
            planning=dict(told["planning"]),
            servers=dict(told.get("servers", {})),
            tiers=dict(told.get("tiers", {})),
            second=_second(told.get("second")),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadFileError("it is no record of a deployment") from None


def _second(told: Mapping[str, Any] | None) -> Second | None:
    return None if told is None else Second(**{**told, "terms": Terms(**told["terms"])})


def _scope(told: Mapping[str, Any]) -> Scope:
    return Scope(
        items=tuple(map(str, told["items"])),
        title=str(told["title"]),
        instruction=str(told["instruction"]),
        touches=tuple(map(str, told["touches"])),
        tools=tuple(map(str, told["tools"])),
        tier=str(told["tier"]),
    )


def _encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _unknown(name: str) -> FleetError:
    return FleetError("not_found", f"there is no deployment {name[:80]!r}", hint="`fleet runs` lists them")
