"""Whether a JSON object can be the body of a task, so that nothing a stranger wrote steers a path or a traceback. Pure."""

from __future__ import annotations

from typing import Any

from agent_fleet.queue import names

_TEXTS = ("target", "title", "notes", "kind", "host", "check", "pool", "model", "source", "trust", "run")
_FLAGS = ("writes",)


def fault(body: dict[str, Any], task: str) -> str:
    """What is wrong with the body of this task, in words; empty if nothing is."""
    if body.get("id") != task:
        return f"its id is {str(body.get('id'))[:40]!r}, its name says {task}"
    if body.get("need") not in names.NEEDS or not isinstance(body.get("target"), str):
        return "it is not the body of a task"
    priority = body.get("priority")
    if isinstance(priority, bool) or not isinstance(priority, int) or not 1 <= priority <= 9:
        return "its priority is not 1 to 9"
    for name in _TEXTS:
        if not isinstance(body.get(name, ""), str):
            return f"its {name} is not a text"
    for name in ("lane", "provider"):
        wish = body.get(name, "")
        if wish != "" and not (isinstance(wish, str) and names.is_label(wish)):
            return f"its {name} is not a name"
    if not names.is_gate(body.get("gate", names.FREE)):
        return "its gate is not one"
    return _lists(body)


def _lists(body: dict[str, Any]) -> str:
    for name in ("touches", "needs"):
        found = body.get(name, [])
        if not isinstance(found, list) or not all(isinstance(part, str) for part in found):
            return f"its {name} is not a list of texts"
    if not all(names.is_id(needed) for needed in body.get("needs", ())):
        return "it needs something that is not a task"
    if not isinstance(body.get("budget", {}), dict):
        return "its budget is not a table"
    if not all(isinstance(body.get(name, False), bool) for name in _FLAGS):
        return "a flag of it is neither true nor false"
    return ""
