"""`fleet blocked`: what waits for a person, by wall: the question in its context, the way back, and the command that answers."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from typing import Any

import click

from agent_fleet import walls
from agent_fleet.commands import Shared, command
from agent_fleet.errors import FleetError
from agent_fleet.plugins import LANES, PROVIDERS, Plugins
from agent_fleet.protocols import Lane, Resumes, Visible
from agent_fleet.queue import parked
from agent_fleet.queue.parked import Group, Parked
from agent_fleet.queue.store import Queue
from agent_fleet.run import roster, transcript
from agent_fleet.run.roster import Attempt
from agent_fleet.text import count, duration, line, printable

_AFTERWARDS = 5.0  # seconds of a session's output after its report that may still be about it
_CONTEXT = 6  # rows of what the agent said before it stopped
_WIDTH = 160
_IN_FULL = 3  # tasks of one wall whose context is shown to people; the others are named
_READ = 60  # tasks whose context is looked up for people, of all walls together
_FEW = 6  # tasks that a command names one by one


@command("blocked", help="Show what waits for a person, by wall, with the way back and the command that answers.")
@click.option("--show", metavar="ID", help="Bring the window of the worker that met this wall before you, if it lives.")
def command_line(shared: Shared, show: str | None) -> None:
    if show is not None:
        _bring(shared, show)
        return
    found, _ = parked.parked(shared.queue)
    # a program gets everything; nobody reads hundreds of contexts, and each is read from a log
    left = None if shared.format != "human" else _READ
    groups = []
    for group in parked.groups(found):
        shown = len(group.tasks) if left is None else min(left, _IN_FULL, len(group.tasks))
        left = None if left is None else left - shown
        groups.append(_payload(shared.queue, shared.plugins, group, shown))
    shared.emit({"groups": groups}, lambda: _text(groups))


def _payload(queue: Queue, plugins: Plugins, group: Group, shown: int) -> dict[str, Any]:
    return {
        "wall": str(group.wall),
        "kind": group.wall.kind,
        "about": group.wall.what,
        "count": len(group.tasks),
        "answer": answer_to(group),
        "tasks": [_task(queue, plugins, task) for task in group.tasks[:shown]],
        "others": [task.task for task in group.tasks[shown:]],
    }


def answer_to(group: Group) -> str:
    """The command that lets all tasks of a group go on."""
    of_a_host = group.wall.kind in walls.OF_A_HOST
    name = str(group.wall)
    by_name = of_a_host or (len(group.tasks) > _FEW and len(name) <= _WIDTH and name.isprintable())
    which = f"--wall {shlex.quote(name)}" if by_name else " ".join(task.task for task in group.tasks)
    return f"fleet unblock {which}" + ("" if of_a_host else " --answer 'your answer'")


def _task(queue: Queue, plugins: Plugins, task: Parked) -> dict[str, Any]:
    record = task.record
    attempt = transcript.attempt_of(queue, task.task, task.generation)
    log, said, session = _said(queue, plugins, task)
    if attempt is not None and attempt.is_crew and _has_gone_on(attempt, record):
        said = []
    session = str(record.get("session") or session)
    provider = str(record.get("provider") or (attempt.provider if attempt else ""))
    lives = attempt is not None and not roster.has_ended(attempt)
    return {
        "id": task.task,
        "title": task.title,
        "reason": str(record.get("said") or task.wall),
        "since": record.get("ended"),
        "said": said,
        "log": log,
        "provider": provider or None,
        "session": session or None,
        "resume": _resume(plugins, provider, session),
        "directory": (attempt.cwd if attempt is not None else "") or os.path.dirname(queue.dir),
        "worker": attempt.id if attempt is not None and lives else None,
        "lane": attempt.lane if attempt is not None and lives else None,
    }


def _has_gone_on(attempt: Attempt, record: Mapping[str, Any]) -> bool:
    """Whether what a session said last is about something else than the task that it parked before."""
    ended = record.get("ended")
    try:
        return isinstance(ended, int | float) and os.stat(attempt.log).st_mtime > ended + _AFTERWARDS
    except OSError:
        return False


def _said(queue: Queue, plugins: Plugins, task: Parked) -> tuple[str | None, list[str], str]:
    """Where its log is, the last rows that the agent said before it stopped, and the conversation they belong to."""
    rows = [row for row in str(task.record.get("result") or "").splitlines() if row.strip()]
    try:
        log = transcript.find(queue, task.task, task.generation)
    except FleetError:
        return None, rows[-_CONTEXT:], ""
    if rows:
        return log.path, rows[-_CONTEXT:], ""
    said, session = transcript.last_words(queue, plugins, log, _CONTEXT)
    return log.path, said, session


def _resume(plugins: Plugins, provider: str, session: str) -> str | None:
    """The command that opens the conversation again, as text for the person."""
    if not provider or not session:
        return None
    try:
        offer = plugins.offer(PROVIDERS, provider)
        words = plugins.ask(offer, lambda found: found.resume(session) if isinstance(found, Resumes) else ())
    except FleetError:
        return None
    return shlex.join(words) if words else None


def _bring(shared: Shared, task: str) -> None:
    place = shared.queue.require(task)
    attempt = transcript.attempt_of(shared.queue, task, place.generation)
    if attempt is None or roster.has_ended(attempt):
        raise FleetError("not_found", f"the worker of {task} has ended", hint=f"read `fleet log {task}` instead")
    why = _show(shared.plugins, attempt)
    if why:
        raise FleetError(
            "unusable", f"the window of {task} cannot be shown: {why}", hint=f"`fleet log {task}` shows it"
        )
    shared.emit({"id": task, "worker": attempt.id}, lambda: f"{attempt.id} is before you")


def _show(plugins: Plugins, attempt: Attempt) -> str | None:
    def show(lane: Lane) -> str | None:
        return lane.show(attempt.worker) if isinstance(lane, Visible) else f"lane {attempt.lane} has no windows"

    return plugins.ask(plugins.offer(LANES, attempt.lane), show)


# --------------------------------------------------------------------------------------------------------- for people


def _text(groups: list[dict[str, Any]]) -> str:
    if not groups:
        return "nothing waits for you"
    return "\n\n".join("\n".join(_group_rows(group)) for group in groups)


def _group_rows(group: dict[str, Any]) -> list[str]:
    head = group["wall"] if group["kind"] != "suspicious content" else group["kind"]
    rows = [f"{line(head, _WIDTH)}  ({count(group['count'], 'task')})"]
    for task in group["tasks"]:
        rows += _task_rows(task, quoted=group["kind"] == "suspicious content")
    if group["others"]:
        rows.append(f"  {'and ' if group['tasks'] else ''}{line(', '.join(group['others']), _WIDTH)}")
    return [*rows, f"  {_what_to_do(group['kind'])}: {printable(group['answer'])}"]


def _task_rows(task: dict[str, Any], *, quoted: bool) -> list[str]:
    rows = [f"  {task['id']}  {line(task['title'], 70)}{_since(task['since'])}"]
    rows += [f"      > {line(row, _WIDTH)}" for row in task["said"]]
    if quoted:
        rows.append("      what the worker quotes from outside; it is data, do not follow it:")
    if quoted or line(task["reason"], _WIDTH) != task["reason"]:
        # whatever stands in it, no row of it can pass for one of ours
        rows += [f"      | {printable(row)}" for row in task["reason"].splitlines()]
    if task["worker"]:
        rows.append(
            f"      its session is open: {task['worker']} in lane {task['lane']}; fleet blocked --show {task['id']}"
        )
    if task["log"]:
        rows.append(f"      log: fleet log {task['id']}")
    if task["resume"]:
        rows.append(f"      talk to it, in {printable(task['directory'])}: {printable(task['resume'])}")
    return rows


def _since(ended: object) -> str:
    if not isinstance(ended, int | float):
        return ""
    return f"  (waits {duration(max(0.0, time.time() - ended))})"


def _what_to_do(kind: str) -> str:
    if kind in walls.OF_A_HOST:
        return "pass it yourself, then"
    return "look at it, then" if kind == "suspicious content" else "then" if kind == walls.OTHER else "answer"
