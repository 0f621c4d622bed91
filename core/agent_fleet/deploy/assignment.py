"""Work orders for agents that are no program of their own: what one is told, how what it says is read, where its remainder goes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from agent_fleet.deploy import answers, dispatch, orders, record, telling
from agent_fleet.deploy.answers import Answer
from agent_fleet.deploy.contract import Contract
from agent_fleet.deploy.orders import Order
from agent_fleet.deploy.record import Deployment
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import Habits


class Reading(NamedTuple):
    """What an agent's text holds: answers by item, the items without one, and what to tell the agent of faults."""

    answers: Mapping[str, Answer]
    missing: tuple[str, ...]
    advice: str


class Assignment:
    """One order as its agent sees it."""

    def __init__(self, instruction: str, model: str, order: Order, contract: Contract) -> None:
        self.order = order
        self.model = model
        self._instruction = instruction
        self._contract = contract

    @property
    def prompt(self) -> str:
        """All that the agent is told: the instruction, what to return, its items as data."""
        return f"{self._instruction}\n\n{telling.partition(self.order)}"

    @property
    def servers(self) -> Mapping[str, Mapping[str, Any]]:
        """The tools that it has, as MCP servers by name."""
        return self.order.servers

    def read(self, text: str) -> Reading:
        """What is answered in all that the agent has written so far. Half a line at the end is no answer."""
        found = answers.read(self.order, text, self._contract)
        valid = {item: answer for item, answer in found.items() if answer.fault != "invalid"}
        missing = tuple(item.id for item in self.order.items if item.id not in valid)
        faults = [f"{item}: {answer.why}" for item, answer in found.items() if answer.fault == "invalid"]
        return Reading(valid, missing, "\n".join(faults[:20]))


class Assignments:
    """The orders of one queue's tasks."""

    def __init__(self, queue: Queue, habits: Habits) -> None:
        self._queue = queue
        self._habits = habits
        self._deployment = lru_cache(maxsize=64)(self._read)

    def of(self, task: Mapping[str, Any]) -> Assignment | None:
        """The order of a task's body; None if it has none. Raises FleetError for one that cannot be read."""
        order = self._order(task)
        if order is None:
            return None
        return Assignment(task["target"], str(task.get("model", "")), order, self._deployment(order.deployment)[1])

    def pass_on(self, task: Mapping[str, Any], _generation: int, settled: Mapping[str, Any]) -> str:
        """Make the items without an answer a new task, and return its id; empty if it was passed on too often already."""
        order = self._order(task)
        if order is None:
            return ""
        deployment = self._deployment(order.deployment)[0]
        return dispatch.pass_on(self._queue, deployment, task["id"], settled, self._habits)

    def _order(self, task: Mapping[str, Any]) -> Order | None:
        try:
            return orders.of_task(self._queue, str(task.get("run", "")), str(task.get("id", "")))
        except BadFileError as error:
            raise FleetError(
                "corrupt", f"the work order of {task.get('id')} cannot be read: {error}", hint="deploy again"
            ) from None

    def _read(self, name: str) -> tuple[Deployment, Contract]:
        deployment = record.read(self._queue, name)
        return deployment, Contract(deployment.contract)
