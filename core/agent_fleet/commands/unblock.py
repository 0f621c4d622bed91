"""`fleet unblock`: blocked tasks return to the queue, with a person's answer."""

from __future__ import annotations

import getpass

import click

from agent_fleet import walls
from agent_fleet.commands import Shared, command, read_text
from agent_fleet.errors import FleetError
from agent_fleet.queue import finish, parked, records
from agent_fleet.queue.store import Queue


@command("unblock", help="Return blocked tasks to the queue; the next worker reads the answer.")
@click.argument("tasks", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Every blocked task.")
@click.option("--wall", metavar="WALL", help="Every task behind this wall, such as `login required: example.com`.")
@click.option("--reason", metavar="TEXT", help="Every blocked task whose reason holds this text.")
@click.option("--answer", help="What the worker should know; `-` reads standard input. Never a password.")
def command_line(
    shared: Shared,
    tasks: tuple[str, ...],
    everything: bool,
    wall: str | None,
    reason: str | None,
    answer: str | None,
) -> None:
    if shared.environ.get("FLEET_WORKER"):
        raise FleetError(
            "refused", "a worker of a fleet cannot pass a wall for itself", hint="leave the task to the person"
        )
    if bool(tasks) + everything + (wall is not None) + (reason is not None) != 1:
        raise FleetError(
            "usage",
            "name the tasks, or --all, or --wall WALL, or --reason TEXT",
            hint="`fleet blocked` shows what is blocked, and the command for each",
        )
    queue = shared.queue
    chosen = _named(queue, tasks) if tasks else _found(queue, wall, reason)
    if wall is not None and not chosen:
        raise FleetError("not_found", f"no task is behind the wall {wall!r}", hint="`fleet blocked` shows the walls")
    text = read_text(answer, "the answer") if answer is not None else ""
    who = _person()
    moved = [task for task in chosen if _return(queue, task, text, who, named=bool(tasks))]
    shared.emit(
        {"unblocked": moved}, lambda: f"back in the inbox: {', '.join(moved)}" if moved else "nothing was blocked"
    )


def _return(queue: Queue, task: str, text: str, who: str, *, named: bool) -> bool:
    """Put one task back; False if it was found by its wall and somebody else has moved it since."""
    place = queue.find(task)
    if not named and (place is None or place.state != "blocked"):
        return False
    if text:
        records.add_answer(queue, task, text, by=who)
    try:
        finish.reopen(queue, task, event="unblocked", why="a person unblocked it", states=("blocked",))
    except FleetError as error:
        if named or error.code not in ("wrong_state", "busy", "not_found"):
            raise
        return False
    return True


def _named(queue: Queue, tasks: tuple[str, ...]) -> list[str]:
    """The named tasks, each once, all of them blocked: nothing is changed if one is not."""
    for task in tasks:
        place = queue.require(task)
        if place.state != "blocked":
            raise FleetError(
                "wrong_state",
                f"{task} is in {place.state}, not blocked",
                hint=f"nothing was changed; `fleet why {task}` tells more",
            )
    return list(dict.fromkeys(tasks))


def _found(queue: Queue, wall: str | None, reason: str | None) -> list[str]:
    found, _ = parked.parked(queue)
    if wall is not None:
        wanted = walls.parse(wall).key
        return [each.task for each in found if each.wall.key == wanted]
    return [each.task for each in found if (reason or "") in str(each.record.get("reason", ""))]


def _person() -> str:
    """The name of this user, as the system knows it; empty if it knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
