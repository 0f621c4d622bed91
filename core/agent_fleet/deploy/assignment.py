"""Work orders for agents that are no program of their own: the tools that one has, and what it is told of what it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_fleet.deploy import answers, orders
from agent_fleet.deploy.contract import Contract
from agent_fleet.deploy.orders import Order
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError
from agent_fleet.queue.store import Queue

_NAMED = 20


class Assignment:
    """One order as its agent sees it. What it is to do stands in the notes of its task."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._contract = Contract(order.contract)

    @property
    def servers(self) -> Mapping[str, Mapping[str, Any]]:
        """The tools that it has, as MCP servers by name."""
        return self.order.servers

    def advice(self, text: str) -> str:
        """What to tell the agent about all that it has written: what breaks the contract, what is missing; empty if nothing is."""
        found = answers.read(self.order, text, self._contract)
        faults = [f"{item}: {answer.why}" for item, answer in found.items() if answer.fault == "invalid"]
        missing = [item.id for item in self.order.items if item.id not in found]
        told = []
        if faults:
            told.append("These lines break the contract; write them again:\n" + "\n".join(faults[:_NAMED]))
        if missing:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            told.append(f"These items have no line yet: {', '.join(missing[:_NAMED])}{more}")
        return "\n".join(told)


class Assignments:
    """The orders of one queue's tasks."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def of(self, task: Mapping[str, Any]) -> Assignment | None:
        """The order of a task's body; None if it has none. Raises FleetError for one that cannot be read."""
        name = str(task.get("id", ""))
        try:
            order = orders.of_task(self._queue, str(task.get("run", "")), name)
        except BadFileError as error:
            raise FleetError(
                "corrupt", f"the work order of {name} cannot be read: {error}", hint="restore it, or deploy again"
            ) from None
        return None if order is None else Assignment(order)
