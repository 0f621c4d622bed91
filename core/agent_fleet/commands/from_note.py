"""`fleet from-note`: the open items of a checklist become tasks, each once."""

from __future__ import annotations

from typing import Any

import click

from agent_fleet import paths
from agent_fleet.checklist import page
from agent_fleet.checklist.identity import digests
from agent_fleet.checklist.item import entries
from agent_fleet.checklist.origin import Origin, log_line, logs, origins
from agent_fleet.checklist.outline import Outline, outline
from agent_fleet.checklist.promotion import Promotion, promotion
from agent_fleet.checklist.writing import reopened
from agent_fleet.commands import Shared, command
from agent_fleet.commands.add import habits
from agent_fleet.queue import intake
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import resolve_needs
from agent_fleet.text import count, line

_SHOWN = 50


@command("from-note", help="Add what is new in a checklist: the open items of its sections NOW, READY and TODO.")
@click.argument("file", required=False)
@click.option("--dry-run", is_flag=True, help="Only show what would be added, and what not.")
def command_line(shared: Shared, file: str | None, dry_run: bool) -> None:
    note = page.find(shared.root, named=file, configured=shared.config.get("checklist.file"))
    page.read(note)  # before a queue is made for it
    if dry_run:
        queue = shared.queue if paths.is_queue(shared.queue_dir) else None
        found, past = _look(shared, queue, note)
        _resolve(queue, found)
        ids = [""] * len(found.new)
    else:
        queue = shared.made_queue()
        with DirLock(queue.path("inbox")):  # two at once would add everything twice
            found, past = _look(shared, queue, note)
            ids = intake.add(queue, found.bodies)
    answer = _answer(note, found, past, ids)
    shared.emit({"dry_run": dry_run, **answer}, lambda: _text(answer, found, dry_run=dry_run))


def _look(shared: Shared, queue: Queue | None, note: page.Page) -> tuple[Promotion, list[Origin]]:
    past = origins(queue, note.file) if queue else []
    text = outline(page.read(note))
    standing = {origin.digest: origin.task for origin in past}
    if queue:
        for digest in _again(queue, text, past):
            del standing[digest]
    return promotion(text, note.file, standing, [origin.digest for origin in past], habits(shared)), past


def _again(queue: Queue, text: Outline, past: list[Origin]) -> set[str]:
    """The digests of items that were done and logged, and that the person has opened again."""
    found = entries(text)
    waiting = {mark for entry, mark in zip(found, digests(found), strict=True) if entry.item.is_open}
    unfinished = {origin.digest for origin in past if origin.state != "done"}
    waiting -= unfinished
    due = [origin for origin in past if origin.digest in waiting]
    return reopened(text, logs({origin.task: log_line(queue, origin) for origin in due}, due))


def _resolve(queue: Queue | None, found: Promotion) -> None:
    """Refuse in a dry run what would be refused in a real one."""
    copies = [dict(body) for body in found.bodies]
    resolve_needs(copies, [f"t{at}" for at in range(1, len(copies) + 1)], lambda task: bool(queue and queue.find(task)))


def _answer(note: page.Page, found: Promotion, past: list[Origin], ids: list[str]) -> dict[str, Any]:
    gone = set(found.gone)
    return {
        "file": note.file,
        "added": [
            {
                "id": task or None,
                "line": entry.line,
                "target": entry.text,
                "need": body["need"],
                "priority": body["priority"],
            }
            for task, entry, body in zip(ids, found.new, found.bodies, strict=True)
        ],
        "known": found.known,
        "left": [{"line": entry.line, "text": entry.text, "why": why} for entry, why in found.left],
        "elsewhere": dict(found.elsewhere),
        "gone": [
            {"id": origin.task, "state": origin.state, "target": origin.text}
            for origin in past
            if origin.digest in gone and origin.state != "done"
        ],
    }


def _text(answer: dict[str, Any], found: Promotion, *, dry_run: bool) -> str:
    added = answer["added"]
    verb = "would be added from" if dry_run else "added from"
    rows = [f"{count(len(added), 'task')} {verb} {answer['file']}" + _known(answer["known"])]
    for each, body in list(zip(added, found.bodies, strict=True))[:_SHOWN]:
        name = each["id"] or f"line {each['line']}"
        rows.append(f"{name:>8}  {each['priority']}  {each['need']:<8} {line(each['target'], 80)}")
        rows += [f"{'':>10}check: {line(body['check'], 80)}"] if body["check"] else []
        rows += [f"{'':>10}touches: {line(', '.join(body['touches']), 80)}"] if body["touches"] else []
    rows += [f"… and {len(added) - _SHOWN} more"] if len(added) > _SHOWN else []
    rows += [f"left: line {each['line']}: {line(each['text'], 60)} ({each['why']})" for each in answer["left"]]
    rows += [
        f"left alone: {count(number, 'open item')} in {'section ' + line(section, 40) if section else 'no section'}"
        for section, number in answer["elsewhere"].items()
    ]
    rows += [
        f"gone: {each['id']} ({each['state']}) came from an item that is not in the note any more: {line(each['target'], 60)}"
        for each in answer["gone"]
    ]
    return "\n".join(rows)


def _known(number: int) -> str:
    return f"; {count(number, 'open item')} {'is' if number == 1 else 'are'} in the queue already" if number else ""
