"""A task's body as the value that the upper floors work with."""

from __future__ import annotations

from typing import Any

from agent_fleet.model import Budget, Task

_TEXTS = ("title", "notes", "kind", "lane", "host", "check", "provider", "pool", "model", "run")


def task_from(body: dict[str, Any]) -> Task:
    """The `Task` in a body that the queue has accepted."""
    budget = body.get("budget", {})
    return Task(
        id=body["id"],
        target=body["target"],
        need=body["need"],
        priority=body["priority"],
        touches=tuple(body.get("touches", ())),
        needs=tuple(body.get("needs", ())),
        writes=bool(body.get("writes")),
        budget=Budget(
            tokens=budget.get("tokens"),
            money=budget.get("money"),
            turns=budget.get("turns"),
            seconds=budget.get("seconds"),
        ),
        source=body.get("source", "person"),
        trust=body.get("trust", "person"),
        created=body.get("created", 0.0),
        **{name: body.get(name, "") for name in _TEXTS},
    )
