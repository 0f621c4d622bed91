"""`fleet to-note`: what is done is ticked in the checklist that it came from, with what was observed in its log."""

from __future__ import annotations

from typing import Any

import click

from agent_fleet.checklist import page
from agent_fleet.checklist.identity import digests
from agent_fleet.checklist.item import entries
from agent_fleet.checklist.origin import Origin, log_line, logs, origins
from agent_fleet.checklist.outline import outline
from agent_fleet.checklist.writing import reopened, written
from agent_fleet.commands import Shared, command
from agent_fleet.queue.store import Queue
from agent_fleet.text import count, line


@command("to-note", help="Tick in a checklist what is done with evidence, and log one line for each.")
@click.argument("file", required=False)
def command_line(shared: Shared, file: str | None) -> None:
    note = page.find(shared.root, named=file, configured=shared.config.get("checklist.file"))
    update = _Update(shared.queue, [origin for origin in origins(shared.queue, note.file) if origin.state == "done"])
    page.change(note, update.edit)
    answer = {"file": note.file, **update.answer}
    shared.emit(answer, lambda: _text(answer))


class _Update:
    """The edit of one note; `answer` says what its last call did."""

    def __init__(self, queue: Queue, done: list[Origin]) -> None:
        self._queue = queue
        self._done = done
        self.answer: dict[str, Any] = {}

    def edit(self, data: bytes) -> bytes:
        note = outline(data)
        found = entries(note)
        marks = digests(found)
        present = set(marks)
        waiting = {mark for entry, mark in zip(found, marks, strict=True) if entry.item.is_open}
        due = [origin for origin in self._done if origin.digest in waiting]
        told = {origin.task: log_line(self._queue, origin) for origin in due}
        lines = logs(told, due)
        writing = written(data, lines)
        ticked = set(writing.ticked)
        again = reopened(note, lines)
        old = set(note.lines)
        self.answer = {
            "ticked": [
                {"id": origin.task, "target": origin.text}
                for origin in due
                if origin.digest in ticked and told[origin.task] not in old
            ],
            "reopened": [origin.task for origin in due if origin.digest in again],
            "unproved": [origin.task for origin in due if not told[origin.task]],
            "gone": [origin.task for origin in self._done if origin.digest not in present],
        }
        return writing.data


def _text(answer: dict[str, Any]) -> str:
    rows = [f"{count(len(answer['ticked']), 'item')} ticked in {answer['file']}"]
    rows += [f"{each['id']:>8}  {line(each['target'], 80)}" for each in answer["ticked"]]
    for name, what in (
        ("reopened", "opened again by you, so not ticked again"),
        ("unproved", "done without a result on record, so not ticked"),
    ):
        if answer[name]:
            rows.append(f"{what}: {', '.join(answer[name])}")
    return "\n".join(rows)
