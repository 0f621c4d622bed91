"""What happened to a task, beside its immutable body: the outcome of each lease, and a person's answers."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from agent_fleet.queue import names
from agent_fleet.queue.files import BadFileError, drop_draft, read_json, sync_directory, sync_file, write_draft
from agent_fleet.queue.store import Queue


def outcome_path(queue: Queue, task: str, generation: int) -> str:
    return queue.path("records", names.bucket_of(task), names.entry_name(task, generation))


def write_outcome(queue: Queue, task: str, generation: int, record: dict[str, Any], *, late: bool = False) -> str:
    """Put the outcome of one lease on record, durably; returns its path.

    `late` keeps what a worker reported after it had lost its lease, out of the way of the truth.
    """
    path = outcome_path(queue, task, generation)
    if late:
        path = path.removesuffix(".json") + ".late.json"
    _write(queue, path, record)
    return path


def draft(queue: Queue, path: str, record: dict[str, Any]) -> str:
    """Write a record beside its place, to be made durable and then put there; returns where it is."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        queue.clear_way(directory)
        sync_directory(os.path.dirname(directory))
    return write_draft(path, json.dumps(record, ensure_ascii=True).encode() + b"\n")


def put(queue: Queue, drafted: str, path: str) -> None:
    """Give a draft its place; the name is durable once the directory is."""
    try:
        os.rename(drafted, path)
    except IsADirectoryError:
        queue.quarantine(path, "a file belongs in its place")
        os.rename(drafted, path)


def set_aside_late(path: str) -> str:
    """Turn an outcome that came too late into one that is only kept beside the truth."""
    late = path.removesuffix(".json") + ".late.json"
    os.rename(path, late)
    return late


def _write(queue: Queue, path: str, record: dict[str, Any]) -> None:
    drafted = draft(queue, path, record)
    try:
        sync_file(drafted)
        put(queue, drafted, path)
    except BaseException:
        drop_draft(drafted)
        raise
    sync_directory(os.path.dirname(path))


def outcome(queue: Queue, task: str, generation: int) -> dict[str, Any] | None:
    try:
        return read_json(outcome_path(queue, task, generation))
    except FileNotFoundError:
        return None
    except BadFileError as error:
        queue.quarantine(outcome_path(queue, task, generation), str(error))
        return None


def outcomes(queue: Queue, task: str) -> list[dict[str, Any]]:
    """The outcomes of every lease of a task, first lease first, each with its `generation`."""
    found = []
    for generation in sorted(_numbered(queue, task, ".g")):
        record = outcome(queue, task, generation)
        if record is not None:
            found.append({**record, "generation": generation})
    return found


def earlier(queue: Queue, task: str) -> list[str]:
    """What came of the attempts whose failure the next worker should know, first one first."""
    return [
        f"{record.get('outcome')}: {record.get('reason')}"
        for record in outcomes(queue, task)
        if record.get("outcome") in ("failed", "crashed", "timeout", "refused") and record.get("reason")
    ]


def charged(queue: Queue, task: str) -> int:
    """How many attempts this task has been charged for."""
    return sum(1 for record in outcomes(queue, task) if record.get("charged"))


def add_answer(queue: Queue, task: str, text: str, *, by: str = "") -> None:
    """Keep a person's answer for the next worker of this task, with who gave it and when."""
    number = max(_numbered(queue, task, ".a"), default=0) + 1
    record = {"answer": text, "by": by, "at": round(time.time(), 3)}
    _write(queue, queue.path("records", names.bucket_of(task), f"{task}.a{number}.json"), record)


def answers(queue: Queue, task: str) -> list[str]:
    """What a person answered to this task's questions, first answer first."""
    return [record["answer"] for record in answered(queue, task)]


def answered(queue: Queue, task: str) -> list[dict[str, Any]]:
    """The answers with who gave each (`by`) and when (`at`), where that is on record."""
    found = []
    for number in sorted(_numbered(queue, task, ".a")):
        path = queue.path("records", names.bucket_of(task), f"{task}.a{number}.json")
        try:
            record = read_json(path)
        except FileNotFoundError:
            continue
        except BadFileError as error:
            queue.quarantine(path, str(error))
            continue
        if isinstance(record.get("answer"), str):
            found.append(record)
    return found


def _numbered(queue: Queue, task: str, kind: str) -> list[int]:
    prefix = task + kind
    found = []
    for name in queue.listing("records", names.bucket_of(task)):
        if name.startswith(prefix) and name.endswith(".json"):
            digits = name[len(prefix) : -5]
            if digits.isascii() and digits.isdigit() and len(digits) <= 15:
                found.append(int(digits))
    return found
