"""A launch that waits to be picked up by a window, and the answer of the process that became the worker."""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from agent_fleet.api import FleetError, Launch
from agent_fleet_lanes import _door

PATIENCE = 20.0  # seconds that a window may take until its worker runs
_LATE = 3.0  # seconds that a worker may come after the program that opened its window has ended


class Doorway:
    """A private directory with one launch in it; `place` is where it is to be, a new temporary one if not given.

    Raises FleetError (`busy`) if a launch waits in that place already.
    """

    def __init__(self, launch: Launch, place: str = "") -> None:
        self.launch = launch
        if place:
            try:
                os.mkdir(place, 0o700)
            except FileExistsError:
                raise FleetError("busy", "another worker is being started there", hint="try again") from None
        self.dir = place or tempfile.mkdtemp(prefix="fleet-window-")
        try:
            os.mkfifo(os.path.join(self.dir, "answer"), 0o600)
            self._pipe = os.open(os.path.join(self.dir, "answer"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._write("stdin", launch.stdin)
            fields = {"argv": launch.argv, "cwd": launch.cwd, "env": dict(launch.env), "log": launch.log}
            self._write("launch.json", json.dumps(fields).encode())
        except BaseException:
            shutil.rmtree(self.dir, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        os.close(self._pipe)
        shutil.rmtree(self.dir, ignore_errors=True)

    @property
    def argv(self) -> list[str]:
        """What a window has to run."""
        return [sys.executable, "-I", "-S", _door.__file__, self.dir]

    def wait(self, obstacle: Callable[[], str], seconds: float = PATIENCE) -> int:
        """The pid of the worker, once it runs. `obstacle` says why none will come, as far as that can be told.

        Raises FleetError: `unusable` if the worker's program cannot be started, `unavailable` if none came.
        """
        end = time.monotonic() + seconds
        said = b""
        why = ""
        while time.monotonic() < end:
            piece = self._read()
            if piece:
                said += piece
            elif piece is None and said:
                return self._answer(said)
            elif not said and not why and (why := obstacle()):
                end = min(end, time.monotonic() + _LATE)
        raise FleetError(
            "unavailable", why or f"no worker came to its window within {seconds:g} s", hint="try another form"
        )

    def _read(self) -> bytes | None:
        """What was said now; None if everybody who could say something is gone."""
        if not select.select([self._pipe], [], [], 0.1)[0]:
            return b""
        try:
            found = os.read(self._pipe, 4096)
        except BlockingIOError:
            return b""
        if not found:
            time.sleep(0.02)  # nobody has opened it yet, which looks the same and does not block
        return found or None

    def _answer(self, said: bytes) -> int:
        pid, _, trouble = said.decode("utf-8", "replace").partition("\n")
        if trouble:
            raise FleetError(
                "unusable",
                f"{self.launch.argv[0]!r} cannot be started: {trouble}",
                hint="install it, or correct its path",
            )
        return int(pid)

    def _write(self, name: str, data: bytes) -> None:
        with open(os.path.join(self.dir, name), "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(data)
