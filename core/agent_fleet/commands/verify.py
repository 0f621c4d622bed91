"""`fleet verify`: replay the journal against the directories."""

from __future__ import annotations

import click

from agent_fleet.commands import Shared, command
from agent_fleet.errors import FleetError
from agent_fleet.queue.verify import verify


@command("verify", help="Replay the journal against the directories and name every disagreement.")
@click.option("--notes", is_flag=True, help="Also show the gaps that crashes explain.")
def command_line(shared: Shared, notes: bool) -> None:
    queue = shared.queue
    report = verify(queue)
    queue.notices.clear()
    if report.faults:
        raise FleetError(
            "corrupt",
            f"{len(report.faults)} disagreements between the journal and the directories",
            hint="keep a copy of the queue directory, then look at each task with `fleet show ID`",
            details=tuple(report.faults[:50]),
        )
    told = {"tasks": report.tasks, "lines": report.lines, "faults": [], "notes": report.notes}
    extra = "".join(f"\n  {note}" for note in report.notes) if notes else ""
    seen = f", {len(report.notes)} gaps that a crash explains (--notes)" if report.notes else ""
    shared.emit(told, lambda: f"clean: {report.tasks} tasks agree with {report.lines} journal lines{seen}{extra}")
