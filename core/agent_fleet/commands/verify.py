"""`fleet verify`: replay the journal against the directories."""

from __future__ import annotations

import click

from agent_fleet.commands import Shared, command
from agent_fleet.errors import FleetError
from agent_fleet.queue.verify import verify
from agent_fleet.text import count


@command("verify", help="Replay the journal against the directories and name every disagreement.")
@click.option(
    "--notes", is_flag=True, help="Also show what is explained: gaps that a crash left, files that were set aside."
)
def command_line(shared: Shared, notes: bool) -> None:
    queue = shared.queue
    report = verify(queue)
    queue.notices.clear()
    if report.faults:
        raise FleetError(
            "corrupt",
            f"{count(len(report.faults), 'disagreement')} between the journal and the directories",
            hint="keep a copy of the queue directory, then look at each task with `fleet show ID`",
            details=tuple(report.faults[:50]),
        )
    told = {"tasks": report.tasks, "lines": report.lines, "faults": [], "notes": report.notes}
    extra = "".join(f"\n  {note}" for note in report.notes) if notes else ""
    seen = f", {count(len(report.notes), 'note')}{'' if notes else ' (--notes shows them)'}" if report.notes else ""
    agree = f"{count(report.tasks, 'task')}, {count(report.lines, 'journal line')}, no disagreement"
    shared.emit(told, lambda: f"clean: {agree}{seen}{extra}")
