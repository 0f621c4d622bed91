"""Whether the `fleet` that a person and their agents type is the one that asks here."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable

from agent_fleet.api import Check, Finding, hookimpl

NAME = "fleet"
_HEAD = 4096  # bytes of a script in which its interpreter and its import stand


class Program:
    """Looks along `path` (the environment's own by default) for the command of the Python at `interpreter`."""

    name = "program"

    def __init__(self, path: str | None = None, interpreter: str = sys.executable) -> None:
        self._path = path
        self._interpreter = interpreter

    def run(self, root: str) -> Iterable[Finding]:
        """One finding. Nothing that is found is run: it may be anything."""
        del root
        found = shutil.which(NAME, path=self._path)
        home = os.path.dirname(self._interpreter)
        if found is None:
            text = f"no `{NAME}` is on the path; workers of a run get this one all the same"
            yield Finding(level="warning", text=text, hint=f"add {home} to PATH")
            return
        head = self._head(found)
        hint = f"put {home} before {os.path.dirname(found)} in PATH, or remove the other"
        if os.path.dirname(os.path.abspath(found)) == home or self._interpreter.encode() in head:
            yield Finding(level="ok", text=f"`{NAME}` on the path is this one: {found}")
        elif b"agent_fleet" in head:
            text = f"`{NAME}` on the path is another installation of agent-fleet: {found}"
            yield Finding(level="warning", text=text, hint=hint)
        else:
            text = f"`{NAME}` on the path is another program, and agents would report to it: {found}"
            yield Finding(level="fault", text=text, hint=hint)

    @staticmethod
    def _head(path: str) -> bytes:
        try:
            with open(path, "rb") as file:
                return file.read(_HEAD)
        except OSError:
            return b""


@hookimpl
def fleet_checks() -> Iterable[Check]:
    yield Program()
