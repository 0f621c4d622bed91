"""Asking a program on this machine one thing: it gets a deadline and a limit, and is ended with all that it started.

What it writes to its standard error is thrown away: programs quote there what they were given.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

MOST = 1 << 20  # bytes of an answer


def ask(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    said: bytes,
    wanted: Callable[[bytes], T | None],
    deadline: float,
) -> T | None:
    """The first thing that `wanted` finds in what the program has printed so far; None if there is none within the deadline.

    `said` goes to its standard input, which stays open until then: closing it would end a server.
    """
    with _started(argv, env, cwd) as process:
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            process.stdin.write(said)
            process.stdin.flush()
        except OSError:  # it did not read, and may have answered all the same
            pass
        output = b""
        for part in _parts(process.stdout.fileno(), time.monotonic() + deadline):
            output += part
            found = wanted(output)
            if found is not None:
                return found
            if len(output) > MOST:
                return None
        return None


def output_of(argv: Sequence[str], *, env: Mapping[str, str], cwd: str, deadline: float) -> bytes | None:
    """All that a program prints, whatever its status; None if it is too long, too slow or cannot be started."""
    with _started(argv, env, cwd) as process:
        if process is None or process.stdin is None or process.stdout is None:
            return None
        process.stdin.close()
        end = time.monotonic() + deadline
        output = b""
        for part in _parts(process.stdout.fileno(), end):
            output += part
            if len(output) > MOST:
                return None
        return output if time.monotonic() < end else None


@contextmanager
def _started(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> Iterator[subprocess.Popen[bytes] | None]:
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError):
        yield None
        return
    try:
        yield process
    finally:
        try:
            os.killpg(
                process.pid, signal.SIGKILL
            )  # a group of its own, and not waited for yet: the number is still its
        except OSError:
            pass
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass
        process.wait()


def _parts(descriptor: int, end: float) -> Iterator[bytes]:
    """What can be read, until there is no more or the time is over."""
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], left)
        if not ready:
            return
        part = os.read(descriptor, 1 << 16)
        if not part:
            return
        yield part
