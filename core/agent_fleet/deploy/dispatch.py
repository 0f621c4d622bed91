"""Giving a deployment's parts out: as tasks of the queue, and what is left of them again, each once whatever dies when."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from agent_fleet.deploy import checking, coverage, escalation, orders, telling
from agent_fleet.deploy.contract import Contract
from agent_fleet.deploy.coverage import Given
from agent_fleet.deploy.orders import Order
from agent_fleet.deploy.record import Deployment
from agent_fleet.queue import intake
from agent_fleet.queue.files import BadFileError
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import Habits, task_body
from agent_fleet.text import line

KIND = "deploy"
_LOOKS = 12  # at all answers, while a deployment is worked


def give_out(queue: Queue, deployment: Deployment, habits: Habits) -> list[str]:
    """Add a task for each part that has none, and for what was left of those that ended; their ids.

    Called again after a crash it adds what is missing and nothing twice. Raises FleetError and OSError; then nothing was added.
    """
    with DirLock(orders.directory(queue, deployment.id)):
        intake.recover(queue)  # a batch whose adder died counts: its tasks are there once it is moved in
        todo = due(queue, deployment)
        return _add(queue, deployment, todo, habits)


def due(queue: Queue, deployment: Deployment) -> list[Order]:
    """The orders that are to be given out now: what is open, and what of the answers is to be checked.

    Once it is certain that the check fails nothing is.
    """
    given = coverage.given(queue, deployment)
    if checking.is_lost(deployment, coverage.fates(deployment, given), given):
        return []
    started = {each.order.part for each in given}
    followed = {(each.order.of, each.order.tier) for each in given}
    todo = [order for order in deployment.orders() if order.part not in started]
    todo += [order for each in given for order in _again(deployment, each) if (order.of, order.tier) not in followed]
    return todo + checking.due(deployment, given, more=bool(todo))


def _again(deployment: Deployment, each: Given) -> list[Order]:
    """What is to be given out again of an order whose task has ended: what is left of it, and what a dearer model is to try."""
    again = (coverage.left(each, most=deployment.settings.redispatch), escalation.raised(deployment, each))
    return [order for order in again if order is not None]


class Succession:
    """Gives out what is left of a task as soon as it has ended, and what is to be checked, while the others go on.

    One a driver: it reads each order once, and everything a dozen times. `is_lost` says that it is certain that the check fails.
    """

    def __init__(self, queue: Queue, deployment: Deployment, habits: Habits) -> None:
        self._queue = queue
        self._deployment = deployment
        self._habits = habits
        self._contract = Contract(deployment.contract)
        self._orders: dict[str, Order] = {}
        self._ended = 0
        self.is_lost = False

    def follow(self, ended: Collection[str]) -> list[str]:
        """Add a task for what is to be given out again of each of these that has ended and is followed by none; their ids.

        It is what `give_out` would add, under the same lock. Raises FleetError and OSError; then nothing was added.
        """
        if self.is_lost:
            return []
        if self._deployment.second is not None and self._is_time(len(ended)):
            given = coverage.given(self._queue, self._deployment)
            self.is_lost = checking.is_lost(self._deployment, coverage.fates(self._deployment, given), given)
            return [] if self.is_lost else give_out(self._queue, self._deployment, self._habits)
        if not any(self._again(task) for task in ended):
            return []
        with DirLock(orders.directory(self._queue, self._deployment.id)):
            intake.recover(self._queue)
            self._read()
            of = [(task, order) for task, order in self._orders.items() if order.of in ended]
            followed = {(order.of, order.tier) for task, order in of if coverage.state_of(self._queue, task)}
            todo = [order for task in ended for order in self._again(task) if (order.of, order.tier) not in followed]
            return _add(self._queue, self._deployment, todo, self._habits)

    def _is_time(self, ended: int) -> bool:
        """Whether so many tasks have ended that all answers are to be looked at, for which everything is read."""
        self._ended += ended
        if self._ended * _LOOKS < len(self._deployment.scopes):
            return False
        self._ended = 0
        return True

    def _again(self, task: str) -> list[Order]:
        order = self._orders.get(task) or self._order(task)
        if order is None or order.checks:
            return []
        state = coverage.state_of(self._queue, task)
        return _again(self._deployment, coverage.given_as(self._queue, task, order, state, self._contract))

    def _read(self) -> None:
        """The orders that have come since the last time."""
        for name in self._queue.listing(orders.FOLDER, self._deployment.id, "orders"):
            task = name.removesuffix(".json")
            if task not in self._orders and (order := self._order(task)) is not None:
                self._orders[task] = order

    def _order(self, task: str) -> Order | None:
        try:
            return orders.of_task(self._queue, self._deployment.id, task)
        except BadFileError:
            return None  # `coverage.given` names it


def body(deployment: Deployment, order: Order, habits: Habits) -> dict[str, Any]:
    """The task of an order. Raises `bad_input` for settings that no task can have."""
    settings = deployment.settings
    number = f"{deployment.id} part {order.part} of {len(deployment.scopes)}"
    what = f": {line(order.title, 80)}" if order.title else ""
    again = f", again ({order.round})" if order.round else ""
    again += f", a tier up: {order.tier}" if order.climb else ""
    limits = {"tokens": settings.tokens, "turns": settings.turns, "seconds": settings.seconds}
    fields = {
        "target": deployment.instruction,
        "title": f"{number}{again}{what}",
        "notes": telling.partition(order),
        "kind": KIND,
        "need": settings.need,
        "run": deployment.id,
        "source": f"deployment {deployment.id}",
        "touches": list(order.touches),
        "budget": {name: amount for name, amount in limits.items() if amount},
    }
    fields |= {name: getattr(settings, name) for name in ("lane", "pool", "check")}
    fields["provider"], fields["model"] = deployment.way(order.tier)
    fields |= checking.fields(deployment, order) if order.checks else {}
    return task_body(fields, habits)


def _add(queue: Queue, deployment: Deployment, todo: Sequence[Order], habits: Habits) -> list[str]:
    """Add a task for each order; the orders are there first."""
    bodies = [body(deployment, order, habits) for order in todo]
    return intake.add(queue, bodies, before=lambda ids: orders.write(queue, dict(zip(ids, todo, strict=True))))
