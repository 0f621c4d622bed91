"""What an agent has returned for its items: read line by line, held to the contract, never taken on trust. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from agent_fleet.deploy.contract import Contract
from agent_fleet.deploy.objects import objects
from agent_fleet.deploy.orders import Order

Kind = Literal["answered", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of one item: its value, or the class of its failure and why, or why it was skipped.

    `confidence` is None where the agent said nothing of it.
    """

    item: str
    kind: Kind
    value: Any = None
    confidence: float | None = None
    fault: str = ""
    why: str = ""


def read(order: Order, text: str, contract: Contract) -> dict[str, Answer]:
    """The answers in a text, by item. Of several for one item the last that is valid counts.

    An item whose only answers break the contract has failed with the class `invalid`; one without a line has no answer.
    """
    known = {item.id for item in order.items}
    found: dict[str, Answer] = {}
    for each in _lines(objects(text)):
        item = each.get("item")
        if not isinstance(item, str) or item not in known:
            continue
        answer = _answer(item, each, contract)
        if answer.fault == "invalid" and item in found:
            continue
        found[item] = answer
    return found


def _lines(found: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """The objects that may be answers; an agent may wrap them all in one."""
    for each in found:
        inner = each.get("results", each.get("items"))
        if "item" not in each and isinstance(inner, list):
            yield from (one for one in inner if isinstance(one, dict))
        else:
            yield each


def _answer(item: str, told: dict[str, Any], contract: Contract) -> Answer:
    if "value" in told:
        fault = contract.fault(told["value"])
        if fault:
            return Answer(item=item, kind="failed", fault="invalid", why=fault)
        return Answer(item=item, kind="answered", value=told["value"], confidence=_confidence(told.get("confidence")))
    if "failed" in told:
        return Answer(item=item, kind="failed", fault=_word(told["failed"]), why=_text(told.get("why")))
    if why := _text(told.get("skipped")).strip():
        return Answer(item=item, kind="skipped", why=why)
    return Answer(item=item, kind="failed", fault="invalid", why="it has neither a value nor a reason for none")


def _confidence(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)


def _word(value: object) -> str:
    """A class of failure as a short word, so that classes can be counted."""
    text = "-".join(str(value).lower().split())[:40] if isinstance(value, str) else ""
    return "".join(sign for sign in text if sign.isalnum() or sign in "-_") or "failed"


def _text(value: object) -> str:
    return value[:2000] if isinstance(value, str) else ""
