"""`fleet unblock`: blocked tasks return to the queue, with a person's answer."""

from __future__ import annotations

import click

from agent_fleet.commands import Shared, command, read_text
from agent_fleet.errors import FleetError
from agent_fleet.queue import finish, records


@command("unblock", help="Return blocked tasks to the queue; the next worker reads the answer.")
@click.argument("tasks", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Every blocked task.")
@click.option("--reason", metavar="TEXT", help="Every blocked task whose reason holds this text.")
@click.option("--answer", help="What the worker should know; `-` reads standard input.")
def command_line(
    shared: Shared, tasks: tuple[str, ...], everything: bool, reason: str | None, answer: str | None
) -> None:
    if bool(tasks) + everything + (reason is not None) != 1:
        raise FleetError(
            "usage", "name the tasks, or --all, or --reason TEXT", hint="`fleet blocked` shows what is blocked"
        )
    queue = shared.queue
    chosen = list(tasks)
    if not tasks:
        for task, generation, _ in queue.settled("blocked"):
            outcome = records.outcome(queue, task, generation) or {}
            if everything or (reason or "") in str(outcome.get("reason", "")):
                chosen.append(task)
    for task in chosen:
        place = queue.require(task)
        if place.state != "blocked":
            raise FleetError(
                "wrong_state",
                f"{task} is in {place.state}, not blocked",
                hint=f"nothing was changed; `fleet why {task}` tells more",
            )
    text = read_text(answer, "the answer") if answer is not None else ""
    for task in chosen:
        if text:
            records.add_answer(queue, task, text)
        finish.reopen(queue, task, event="unblocked", why="a person unblocked it", states=("blocked",))
    shared.emit(
        {"unblocked": chosen}, lambda: f"back in the inbox: {', '.join(chosen)}" if chosen else "nothing was blocked"
    )
