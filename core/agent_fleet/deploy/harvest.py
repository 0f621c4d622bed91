"""What a deployment came to, as lines that a report is made of: one JSON object for each item. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent_fleet.aggregate.outputs import DONE, OPEN, SKIPPED
from agent_fleet.deploy.coverage import Fate
from agent_fleet.deploy.record import Deployment

_OUTCOMES = {"answered": DONE, "skipped": SKIPPED, "open": OPEN}


def asked(deployment: Deployment) -> list[str]:
    """The items that were asked for, by id."""
    return [item.id for item in deployment.items]


def rows(deployment: Deployment, found: Iterable[Fate], *, kind: str = "") -> Iterator[dict[str, Any]]:
    """One object for each item: its `task`, its id in `items`, what was answered in `value`, or why nothing was, and who by.

    `outcome` is `done`, `skipped`, `open` or the class of the failure, `part` the place of the item in the input, which tells
    the answers of one task apart; `kind` is the type of the work, by default the name of the decomposer. What was not given
    out yet is no task's: the deployment stands for it.
    """
    places = {item.id: place for place, item in enumerate(deployment.items)}
    for fate in found:
        yield {
            "task": fate.task or deployment.id,
            "part": places[fate.item.id],
            "items": [fate.item.id],
            "kind": kind or deployment.decomposer,
            "value": fate.value if fate.kind == "answered" else _why(fate) or None,
            "confidence": fate.confidence,
            "provider": fate.provider,
            "model": fate.model,
            "account": fate.account,
            "outcome": _OUTCOMES.get(fate.kind, fate.fault or "failed"),
        }


def _why(fate: Fate) -> str:
    """Why there is no answer; of what is open also who has it."""
    if fate.kind != "open" or not fate.task:
        return fate.why
    return f"{fate.task} is {fate.why}" + (f", with {fate.holder}" if fate.holder else "")
