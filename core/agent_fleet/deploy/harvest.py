"""What a deployment came to, as lines that a report is made of: one JSON object for each item that has a fate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent_fleet.deploy.coverage import Fate
from agent_fleet.deploy.record import Deployment

_OUTCOMES = {"answered": "done", "skipped": "skipped"}


def asked(deployment: Deployment) -> list[str]:
    """The items that were asked for, by id."""
    return [item.id for item in deployment.items]


def rows(deployment: Deployment, found: Iterable[Fate], *, kind: str = "") -> Iterator[dict[str, Any]]:
    """One object for each item that is not open: its `task`, its id in `items`, what was answered in `value`, or why
    nothing was, and who by.

    `outcome` is `done`, `skipped` or the class of the failure, `part` the place of the item in the input, which tells the
    answers of one task apart; `kind` is the type of the work, by default the name of the decomposer.
    """
    places = {item.id: place for place, item in enumerate(deployment.items)}
    for fate in found:
        if fate.kind == "open":
            continue
        yield {
            "task": fate.task,
            "part": places[fate.item.id],
            "items": [fate.item.id],
            "kind": kind or deployment.decomposer,
            "value": fate.value if fate.kind == "answered" else fate.why or None,
            "confidence": fate.confidence,
            "provider": fate.provider,
            "model": fate.model,
            "account": fate.account,
            "outcome": _OUTCOMES.get(fate.kind, fate.fault or "failed"),
        }
