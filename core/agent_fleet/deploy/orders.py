"""Work orders: which items a task works on, for whom and how, in a file beside the queue that is there before the task is.

`.agents/deployments/<id>/orders/<task>.json`. A task without one is no part of a deployment, whatever it says of itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agent_fleet.deploy.values import Item
from agent_fleet.errors import FleetError
from agent_fleet.queue import names
from agent_fleet.queue.files import FEW, BadFileError, read_json, sync_file_system, write_whole
from agent_fleet.queue.store import Queue

FOLDER = "deployments"
MOST_BYTES = 4 << 20  # of one order: it goes into a prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The exclusive scope of one task.

    `part` is the partition of which these items are, `round` how often what was left of it has been given out again, and `of`
    the task whose remainder this is. `tier` is `climb` tiers above the one that the part began with. One that `checks` has
    answers of others as its items. `contract` is a JSON Schema for each item's value; `tools` are names of MCP servers and
    `servers` their settings, in which `${NAME}` stands for a variable: these and no others.
    """

    deployment: str
    part: int
    items: tuple[Item, ...]
    title: str = ""
    instruction: str = ""
    touches: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    servers: Mapping[str, Any] = field(default_factory=dict)
    tier: str = ""
    contract: Mapping[str, Any] = field(default_factory=dict)
    round: int = 0
    of: str = ""
    checks: bool = False
    climb: int = 0


def remainder(order: Order, settled: Collection[str], *, of: str) -> Order | None:
    """The order for the items that are not settled by id, to be given out again; None if none is left."""
    left = tuple(item for item in order.items if item.id not in settled)
    return replace(order, items=left, round=order.round + 1, of=of) if left else None


def directory(queue: Queue, deployment: str) -> str:
    return queue.path(FOLDER, deployment, "orders")


def write(queue: Queue, orders: Mapping[str, Order]) -> None:
    """Write the orders of these tasks, all of one deployment, durably. Raises OSError."""
    many = len(orders) > FEW
    place = ""
    for task, order in orders.items():
        place = directory(queue, order.deployment)
        write_whole(os.path.join(place, f"{task}.json"), encoded(order), durable=not many)
    if many:
        sync_file_system(place)


def encoded(order: Order) -> bytes:
    """An order as it stands in its file."""
    return json.dumps({"v": 1, **asdict(order)}, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def of_task(queue: Queue, deployment: str, task: str) -> Order | None:
    """The order of a task of this deployment; None if there is none. Raises BadFileError for a file that cannot be one."""
    if not is_id(deployment) or not names.is_id(task):
        return None
    try:
        return _order(read_json(os.path.join(directory(queue, deployment), f"{task}.json")))
    except FileNotFoundError:
        return None


def all_of(queue: Queue, deployment: str) -> Iterator[tuple[str, Order]]:
    """Every order of a deployment whose file can be read, by task, in the order of their numbers; others are noticed."""
    tasks = [name.removesuffix(".json") for name in queue.listing(FOLDER, deployment, "orders")]
    for task in sorted(filter(names.is_id, tasks), key=names.number_of):
        try:
            order = of_task(queue, deployment, task)
        except BadFileError as error:
            queue.notices.append(f"the work order of {task} cannot be read: {error}")
            continue
        if order is not None:
            yield task, order


def is_id(text: str) -> bool:
    """Whether a text is the name of a deployment: `d` and a number."""
    return len(text) < 12 and text[:1] == "d" and text[1:].isascii() and text[1:].isdigit() and text[1] != "0"


def items_from(value: object) -> tuple[Item, ...]:
    """Items as they stand in a file. Raises BadFileError."""
    if not isinstance(value, list):
        raise BadFileError("its items are no list")
    try:
        return tuple(Item(id=_str(each["id"]), value=each["value"], weight=float(each["weight"])) for each in value)
    except (KeyError, TypeError, ValueError):
        raise BadFileError("one of its items is none") from None


def _order(found: Mapping[str, Any]) -> Order:
    try:
        return Order(
            deployment=_str(found["deployment"]),
            part=int(found["part"]),
            items=items_from(found["items"]),
            title=_str(found["title"]),
            instruction=_str(found["instruction"]),
            touches=tuple(map(_str, found["touches"])),
            tools=tuple(map(_str, found["tools"])),
            servers=_tables(found.get("servers", {})),
            tier=_str(found["tier"]),
            contract=dict(found["contract"]),
            round=int(found["round"]),
            of=_str(found["of"]),
            checks=found.get("checks") is True,
            climb=int(found.get("climb", 0)),
        )
    except (KeyError, TypeError, ValueError):
        raise BadFileError("it is no work order") from None


def servers_of(queue: Queue, deployment: str, task: str) -> Mapping[str, Mapping[str, Any]] | None:
    """The MCP servers that a task of a deployment may use; None for a task without an order. Raises `corrupt`."""
    try:
        order = of_task(queue, deployment, task)
    except BadFileError as error:
        raise FleetError(
            "corrupt", f"the work order of {task} cannot be read: {error}", hint="restore it, or deploy again"
        ) from None
    return None if order is None else order.servers


def _tables(value: object) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        raise TypeError(value)
    return value


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
