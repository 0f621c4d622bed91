"""`fleet blocked`: what waits for a person, grouped by reason."""

from __future__ import annotations

from typing import Any

from agent_fleet.commands import Shared, command
from agent_fleet.queue import records
from agent_fleet.queue.store import Queue
from agent_fleet.text import line


@command("blocked", help="Show what waits for a person, grouped by reason.")
def command_line(shared: Shared) -> None:
    groups = grouped(shared.queue)
    shared.emit({"groups": groups}, lambda: _text(groups))


def grouped(queue: Queue) -> list[dict[str, Any]]:
    """Blocked tasks by the wall that stopped them, largest group first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for task, generation, path in queue.settled("blocked"):
        body = queue.body(path, task)
        if body is None:
            continue
        outcome = records.outcome(queue, task, generation) or {}
        reason = str(outcome.get("reason") or "no reason was recorded")
        groups.setdefault(_wall(reason), []).append(
            {"id": task, "title": body.get("title") or body["target"], "reason": reason}
        )
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [{"wall": wall, "count": len(tasks), "tasks": tasks} for wall, tasks in ordered]


def _wall(reason: str) -> str:
    """The part of a reason that tasks share: `login required: example.com` as a whole, but every question is its own."""
    kind, _, rest = reason.partition(":")
    return reason if kind in ("login required", "captcha", "2fa") and rest else kind


def _text(groups: list[dict[str, Any]]) -> str:
    if not groups:
        return "nothing waits for you"
    rows = []
    for group in groups:
        rows.append(f"{line(group['wall'])} ({group['count']})")
        rows += [
            f"  {task['id']:>6}  {line(task['title'], 50)}\n          {line(task['reason'], 200)}"
            for task in group["tasks"]
        ]
    rows.append("go on with: fleet unblock ID --answer 'text', or fleet unblock --all")
    return "\n".join(rows)
