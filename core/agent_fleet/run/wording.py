"""What a run says when something has ended: one line each."""

from __future__ import annotations

from agent_fleet.run.deeds import Deed
from agent_fleet.run.disband import Disbanded
from agent_fleet.run.settle import Settled
from agent_fleet.text import count, duration, line

_LONGEST = 140


def of_task(found: Settled) -> tuple[str, str]:
    """(the line, what was said in it) of a dispatched attempt."""
    outcome = found.outcome
    cost = "" if found.state in ("done", "blocked") else ", charged" if found.charged else ", not charged"
    kind = "" if outcome.kind == found.state else f" ({outcome.kind}{cost})"
    said = line(outcome.result if outcome.kind == "done" else outcome.reason, _LONGEST)
    return f"{found.attempt.task}  {found.state}{kind} after {duration(found.seconds)}: {said}", said


def of_deed(deed: Deed, record: dict[str, object]) -> tuple[str, str]:
    """(the line, what was said in it) of a task that a crew has reported."""
    said = line(str(record.get("result" if deed.state == "done" else "reason") or ""), _LONGEST)
    return f"{deed.task}  {deed.state} by {deed.worker}: {said}", said


def of_crew(found: Disbanded, moved: int) -> str:
    """The line of a session that is over."""
    outcome = found.outcome
    back = f", {', '.join(found.returned)} returned" if found.returned else ""
    said = line(outcome.reason or outcome.result, _LONGEST)
    return (
        f"{found.attempt.id}  session over ({outcome.kind}) after {duration(found.exit.seconds)}:"
        f" {count(moved, 'task')} reported{back}{': ' if said else ''}{said}"
    )
