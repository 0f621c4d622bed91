"""What has become of every item of a deployment, from the queue and its records alone: answered, failed, skipped, or open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from agent_fleet.deploy import answers, orders
from agent_fleet.deploy.answers import Answer
from agent_fleet.deploy.contract import VERDICT, Contract
from agent_fleet.deploy.orders import Order
from agent_fleet.deploy.record import Deployment
from agent_fleet.deploy.values import Item
from agent_fleet.queue import lease, names, records
from agent_fleet.queue.store import Queue
from agent_fleet.text import count

UNANSWERED = "unanswered"
_ENDED = ("done", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What has become of one item, by which task, and who worked on it. `open` items may still be answered: `holder` is who
    works on it now.
    """

    item: Item
    kind: Literal["answered", "failed", "skipped", "open"]
    task: str = ""
    value: Any = None
    confidence: float | None = None
    fault: str = ""
    why: str = ""
    provider: str = ""
    model: str = ""
    account: str = ""
    holder: str = ""


class Given(NamedTuple):
    """One order that was given out: its task, the state of that, the answers so far, the last outcome, and who works on it now."""

    task: str
    order: Order
    state: str
    answers: Mapping[str, Answer]
    last: Mapping[str, Any]
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Counts over all items: what was asked for, and what became of it; failures by class, open ones by why they are."""

    asked: int
    answered: int
    skipped: int
    failed: Mapping[str, int]
    open: Mapping[str, int]

    @property
    def share(self) -> float:
        """The part of the items that is answered, from 0 to 1. One that was skipped is not: its agent's word is all there is."""
        return self.answered / self.asked if self.asked else 0.0

    def __str__(self) -> str:
        parts = [f"{self.answered:,} of {count(self.asked, 'item')} answered"]
        parts += [f"{self.skipped:,} skipped"] if self.skipped else []
        parts += [f"{number:,} failed ({name})" for name, number in sorted(self.failed.items())]
        parts += [f"{number:,} open ({name})" for name, number in sorted(self.open.items())]
        return ", ".join(parts)


def given(queue: Queue, deployment: Deployment) -> list[Given]:
    """Every order of a deployment whose task was added, in the order in which they were."""
    checked = Contract(VERDICT if deployment.second else None)
    made = Contract(deployment.contract)
    holders = {task: owner for task, _, owner, _, _ in queue.active()}
    states = {**_waiting(queue), **dict.fromkeys(holders, "active"), **_settled(queue)}
    found = []
    for task, order in orders.all_of(queue, deployment.id):
        state = states.get(task) or state_of(queue, task)
        if state:  # else its batch never became part of the queue
            each = given_as(queue, task, order, state, checked if order.checks else made)
            holder = lease.owner(queue, holders[task]) if state == "active" and task in holders else None
            found.append(each if holder is None else each._replace(holder=holder.agent))
    return found


def state_of(queue: Queue, task: str) -> str:
    """Where a task is; empty if it never became part of the queue."""
    place = queue.find(task)
    return place.state if place else "set aside" if queue.set_aside(task) else ""


def given_as(queue: Queue, task: str, order: Order, state: str, contract: Contract) -> Given:
    """One order that was given out, with what its task came to by its records."""
    outcomes = records.outcomes(queue, task)
    got: dict[str, Answer] = {}
    for outcome in outcomes:
        got |= answers.read(order, str(outcome.get("result") or ""), contract)
    return Given(task, order, state, got, outcomes[-1] if outcomes else {})


def fates(deployment: Deployment, orders_given: list[Given]) -> list[Fate]:
    """What has become of each item, in the order of the input."""
    found: dict[str, Fate] = {}
    for each in orders_given:
        if each.order.checks:
            continue
        for item in each.order.items:
            before = found.get(item.id)
            if before is None or not is_settled(before) or (before.kind == "failed" and each.order.climb):
                found[item.id] = _fate(item, each)
    return [found.get(item.id) or Fate(item=item, kind="open", why="not given out") for item in deployment.items]


def is_settled(fate: Fate) -> bool:
    """Whether nobody needs to be asked again: an answer, a reason for none, or a failure in the agent's own words."""
    return fate.kind in ("answered", "skipped") or (fate.kind == "failed" and fate.fault not in ("invalid", UNANSWERED))


def coverage(found: list[Fate]) -> Coverage:
    failed: dict[str, int] = {}
    waiting: dict[str, int] = {}
    for fate in found:
        if fate.kind == "failed":
            failed[fate.fault] = failed.get(fate.fault, 0) + 1
        elif fate.kind == "open":
            waiting[fate.why] = waiting.get(fate.why, 0) + 1
    return Coverage(
        asked=len(found),
        answered=sum(fate.kind == "answered" for fate in found),
        skipped=sum(fate.kind == "skipped" for fate in found),
        failed=failed,
        open=waiting,
    )


def left(each: Given, *, most: int) -> Order | None:
    """What is to be given out again of an order whose task has ended: what nobody answered, unless that was done `most` times.

    A task that was given up for another reason than its budget was tried often enough; its items have failed.
    """
    if each.order.round >= most or not _may_go_on(each):
        return None
    settled = {item.id for item in each.order.items if is_settled(_fate(item, each))}
    return orders.remainder(each.order, settled, of=each.task)


def _may_go_on(each: Given) -> bool:
    return each.state == "done" or (each.state == "failed" and each.last.get("outcome") == "budget")


def worker(each: Given) -> dict[str, str]:
    """Who worked on an order last, as far as the records tell: `provider`, `model` and `account`."""
    usage = each.last.get("usage")
    models = usage.get("models") if isinstance(usage, dict) else None
    return {
        "provider": str(each.last.get("provider") or ""),
        "model": " + ".join(map(str, models)) if isinstance(models, list) else "",
        "account": str(each.last.get("account") or ""),
    }


def _fate(item: Item, each: Given) -> Fate:
    about: dict[str, Any] = {"item": item, "task": each.task, "holder": each.holder, **worker(each)}
    answer = each.answers.get(item.id)
    if answer is not None and (answer.fault != "invalid" or each.state in _ENDED):
        return Fate(
            **about,
            kind=answer.kind,
            value=answer.value,
            confidence=answer.confidence,
            fault=answer.fault,
            why=answer.why,
        )
    if each.state in _ENDED:
        outcome = str(each.last.get("outcome") or "unknown")
        fault = UNANSWERED if _may_go_on(each) else outcome
        return Fate(**about, kind="failed", fault=fault, why=str(each.last.get("reason") or "there is no line for it"))
    why = {"inbox": "not started", "active": "at work"}.get(each.state, each.state)
    return Fate(**about, kind="open", why=why)


def _waiting(queue: Queue) -> dict[str, str]:
    """Which tasks wait, by a look at whole directories; one that moves meanwhile may be missing."""
    return {task: "inbox" for task, _, _, _ in queue.waiting()}


def _settled(queue: Queue) -> dict[str, str]:
    """Which tasks have ended and how, in the same way."""
    return {task: state for state in names.SETTLED for task, _, _ in queue.settled(state)}
