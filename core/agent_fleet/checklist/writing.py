"""Ticks and log lines as the new bytes of a note. Pure; every other byte stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent_fleet.checklist.identity import digests
from agent_fleet.checklist.item import Entry, entries
from agent_fleet.checklist.outline import Outline, outline
from agent_fleet.queue.task import bad


class Writing(NamedTuple):
    """The note's new bytes, and the digests of the items that were ticked."""

    data: bytes
    ticked: Sequence[str]


def reopened(note: Outline, logs: Mapping[str, Sequence[str]]) -> set[str]:
    """The digests of items whose every log line is in the note: what is open of them, the person has opened again."""
    written = set(note.lines)
    return {digest for digest, lines in logs.items() if lines and written.issuperset(lines)}


def written(data: bytes, logs: Mapping[str, Sequence[str]]) -> Writing:
    """The note with the items of `logs` ticked and their lines in the log. What is ticked already gets no line.

    Raises FleetError where the lines would land inside a block that is not closed.
    """
    note = outline(data)
    found = entries(note)
    marks = digests(found)
    again = reopened(note, logs)
    due = [
        (entry, mark)
        for entry, mark in zip(found, marks, strict=True)
        if entry.item.is_open and mark in logs and mark not in again
    ]
    if not due:
        return Writing(data, [])
    there = set(note.lines)
    lines = [line for _, mark in due for line in logs[mark] if line not in there]
    changed = _spliced(data, [*((*entry.item.box, b"x") for entry, _ in due), _log(note, data, lines)])
    _check(changed, found, {entry.line for entry, _ in due}, lines[-1])
    return Writing(changed, [mark for _, mark in due])


def _log(note: Outline, data: bytes, lines: Sequence[str]) -> tuple[int, int, bytes]:
    """Where the lines go, and how: below what the log has, else in a log of their own at the end."""
    end = _line_end(data)
    rows = [line.encode() for line in lines]
    if note.log is None:
        at = len(data)
        rows = [b"", b"## Log", b"", *rows]
    else:
        first, last = note.log
        at = note.ends[last]
        rows = [b"", *rows] if first == last else rows
    has_end = at == 0 or data[at - 1 : at] in (b"\n", b"\r")
    block = end.join(rows)
    return at, at, block + end if has_end else end + block


def _line_end(data: bytes) -> bytes:
    """The line end that the note uses most."""
    both = data.count(b"\r\n")
    counts = {b"\n": data.count(b"\n") - both, b"\r\n": both, b"\r": data.count(b"\r") - both}
    return max(counts, key=lambda end: counts[end])


def _spliced(data: bytes, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
    parts = []
    done = 0
    for start, end, new in sorted(changes):
        parts += [data[done:start], new]
        done = end
    return b"".join([*parts, data[done:]])


def _check(changed: bytes, before: Sequence[Entry], ticked: set[int], last: str) -> None:
    """Read the new bytes as anybody would, and see that they say what was meant."""
    note = outline(changed)
    expected = [entry.item.is_open and entry.line not in ticked for entry in before]
    found = entries(note)
    same = [entry.text for entry in found] == [entry.text for entry in before]
    if (
        not same
        or [entry.item.is_open for entry in found] != expected
        or note.log is None
        or note.lines[note.log[1]] != last
    ):
        raise bad(
            "a code block or comment is open where the log would be written, so nothing was written",
            "close it in the note, then run the same command again",
        )
