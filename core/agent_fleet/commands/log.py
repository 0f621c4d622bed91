"""`fleet log`: what a task's last attempt printed."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from io import TextIOWrapper

import click

from agent_fleet.commands import Shared, command, tell
from agent_fleet.errors import FleetError
from agent_fleet.queue.store import Queue
from agent_fleet.run import logs, roster, transcript
from agent_fleet.run.transcript import Log, Transcript
from agent_fleet.text import printable

_PAUSE = 0.2  # seconds between two looks at a log that grows
_PIECE = 500  # lines that are made readable at a time


@command("log", help="Show what the last attempt at task ID printed, as text.")
@click.argument("task", metavar="ID")
@click.option("--attempt", "--generation", "number", type=int, metavar="N", help="The attempt under lease N.")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Only the last N lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the attempt has ended.")
@click.option("--raw", is_flag=True, help="The log as it is, with whatever the agent sends to a terminal.")
def command_line(shared: Shared, task: str, number: int | None, tail: int | None, follow: bool, raw: bool) -> None:
    if follow and shared.format != "human":
        raise FleetError(
            "usage", "--follow shows text as it comes, not one object", hint="leave out --follow, or --json"
        )
    log = transcript.find(shared.queue, task, number)
    with logs.open_log(log.path) as file:
        pieces = _pieces(file, _life(shared.queue, log) if follow else lambda: False)
        if not raw:
            readable = Transcript(shared.queue, shared.plugins, log)
            pieces = (readable.rows(piece) for piece in pieces)
        if shared.format != "human":
            shown = list(_last(pieces, tail))
            shared.emit({"id": task, "generation": log.generation, "path": log.path, "lines": shown}, str)
        else:
            _show(pieces, tail, raw=raw, follow=follow)


def _show(pieces: Iterator[list[str]], tail: int | None, *, raw: bool, follow: bool) -> None:
    put = _put_raw if raw else _put
    if tail and not follow:
        put(list(_last(pieces, tail)))
        return
    for count, piece in enumerate(pieces):
        put(piece[-tail:] if tail and not count else piece)


def _last(pieces: Iterator[list[str]], tail: int | None) -> deque[str]:
    return deque((row for piece in pieces for row in piece), maxlen=tail)


def _put(rows: list[str]) -> None:
    if rows:
        tell(printable("\n".join(rows)))


def _put_raw(rows: list[str]) -> None:
    if rows and sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(("\n".join(rows) + "\n").encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _pieces(file: TextIOWrapper, lives: Callable[[], bool]) -> Iterator[list[str]]:
    """The lines of a log, some at a time, until its end; while `lives()`, what has no line end yet is waited for."""
    rest = ""
    while True:
        goes_on = lives()  # asked before the look, so that nothing is written behind the last one
        found = (rest + file.read(1 << 20)).split("\n")
        rest = found.pop()
        for start in range(0, len(found), _PIECE):
            yield found[start : start + _PIECE]
        if len(rest) > 1 << 22:
            yield [rest]
            rest = ""
        if found:
            continue
        if not goes_on:
            break
        time.sleep(_PAUSE)
    if rest:
        yield [rest]


def _life(queue: Queue, log: Log) -> Callable[[], bool]:
    """Whether the attempt still runs; of a task that a crew works on, whether the crew still holds it."""

    def lives() -> bool:
        if log.attempt is not None and log.attempt.task:
            return not roster.has_ended(log.attempt)
        place = queue.find_active(log.task)
        return place is not None and place.generation == log.generation

    return lives
