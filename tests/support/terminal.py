"""A program on a pseudo-terminal of its own: enough of a terminal for a full-screen program to start and take its prompt."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path


class Terminal:
    """What runs there, and all that it has printed so far."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self.printed = b""
        self._descriptor = descriptor

    def until(self, holds: Callable[[], object], seconds: float = 60.0) -> bool:
        """Play the terminal until it holds; False if it does not within these seconds."""
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                return False
            self._serve()
        return True

    def type(self, text: bytes) -> None:
        os.write(self._descriptor, text)

    def _serve(self) -> None:
        ready, _, _ = select.select([self._descriptor], [], [], 0.05)
        if not ready:
            return
        try:
            part = os.read(self._descriptor, 1 << 16)
        except OSError:
            return
        self.printed += part
        if b"\x1b[6n" in part:  # where is the cursor
            self.type(b"\x1b[1;1R")
        if b"\x1b[c" in part:  # what kind of terminal is this
            self.type(b"\x1b[?62c")


@contextmanager
def terminal(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Iterator[Terminal]:
    pid, descriptor = pty.fork()
    if pid == 0:
        try:
            os.chdir(cwd)
            os.execve(argv[0], list(argv), {**env, "TERM": "xterm-256color"})
        finally:
            os._exit(127)
    ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    try:
        yield Terminal(pid, descriptor)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(descriptor)
