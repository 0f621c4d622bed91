"""What Codex itself has written down of its conversations: one file a thread, a line for each answer of the model.

The events of `codex exec --json` tell the use of a thread only when its turn is complete, and never that of subagents. The
rollout files (0.171: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl` below the home, lines of the type `token_usage_record`)
tell both, and answer by answer, so that an attempt that was ended, or that met a limit, does not seem to have cost nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, NamedTuple

from agent_fleet.api import Usage
from agent_fleet_providers._figures import added, count, table

HEAD = 300  # bytes; the type of a line stands within them
RECORD, CONTEXT = b'"type":"token_usage_record"', b'"type":"turn_context"'


def use(figures: object, model: str = "", turns: int = 0) -> Usage:
    """The use in Codex's own terms: its input holds what was read from and written to the cache, its output the reasoning."""
    given = table(figures)
    total, read, written = (
        count(given.get(name)) for name in ("input_tokens", "cached_input_tokens", "cache_write_input_tokens")
    )
    output = count(given.get("output_tokens"))
    reasoning = min(count(given.get("reasoning_output_tokens")), output)
    read = min(read, total)
    written = min(written, total - read)
    return Usage(
        input=total - read - written,
        cache_read=read,
        cache_write=written,
        output=output - reasoning,
        reasoning=reasoning,
        turns=turns,
        models=(model,) if model else (),
    )


def path_of(sessions: str, thread: str) -> str:
    """The file of a thread, empty if there is none. A thread's id is a UUID of version 7, which holds its first day."""
    try:
        born = datetime.fromtimestamp(int(thread.replace("-", "")[:12], 16) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    for day in (born, born - timedelta(days=1), born + timedelta(days=1)):  # the folder's day is a local one
        folder = os.path.join(sessions, f"{day:%Y}", f"{day:%m}", f"{day:%d}")
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.endswith(f"-{thread}.jsonl"):
                return os.path.join(folder, name)
    return ""


def length(sessions: str, thread: str) -> int:
    """How long the file of a thread is, in bytes; 0 if there is none."""
    try:
        return os.path.getsize(path_of(sessions, thread))
    except OSError:
        return 0


class Spent(NamedTuple):
    """What a thread used before the mark, and after it by the turn of the first thread that it was for."""

    before: Usage
    after: dict[str, Usage]


class _Follower:
    """Reads one file on from where it was; a line that is not complete yet is read again."""

    def __init__(self, path: str, mark: int) -> None:
        self.path = path
        self.mark = mark
        self.before = Usage()
        self.after: dict[str, Usage] = {}
        self._offset = 0
        self._model = ""

    def read_on(self) -> None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        with open(descriptor, "rb") as file:
            try:
                file.seek(self._offset)
                for start, line in _whole_lines(file, self._offset):
                    self._offset = start + len(line)
                    self._take(line, start)
            except OSError:
                return

    def _take(self, line: bytes, start: int) -> None:
        head = line[:HEAD]
        if RECORD not in head and CONTEXT not in head:
            return
        payload = _payload(line)
        if CONTEXT in head:
            self._model = str(payload.get("model") or "")
            return
        used = use(payload.get("usage"), self._model, turns=1)
        if start < self.mark:
            self.before = added(self.before, used)
        else:
            turn = str(payload.get("root_turn_id") or payload.get("turn_id") or "")
            self.after[turn] = added(self.after.get(turn, Usage()), used)


def _whole_lines(file: BinaryIO, offset: int) -> Iterator[tuple[int, bytes]]:
    for line in file:
        if not line.endswith(b"\n"):
            return
        yield offset, line
        offset += len(line)


def _payload(line: bytes) -> dict[str, Any]:
    try:
        return dict(table(table(json.loads(line)).get("payload")))
    except (ValueError, RecursionError):
        return {}


class Threads:
    """The threads below `sessions`. `marks` says how long a thread's file was when this attempt began."""

    def __init__(self, sessions: str, marks: dict[str, int]) -> None:
        self._sessions = sessions
        self._marks = marks
        self._followers: dict[str, _Follower] = {}

    def spent(self, thread: str) -> Spent | None:
        """What the thread has used as far as its file tells; None if it has no file."""
        follower = self._followers.get(thread)
        if follower is None:
            path = path_of(self._sessions, thread)
            if not path:
                return None
            follower = self._followers[thread] = _Follower(path, self._marks.get(thread, 0))
        follower.read_on()
        return Spent(follower.before, follower.after)
