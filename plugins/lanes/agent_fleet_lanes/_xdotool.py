"""Windows of an X11 display, looked at and activated through xdotool. Nothing here can type a text."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping

_PATIENCE = 5.0  # seconds for one look
_TICK = 0.05


class Desktop:
    """One display. A look that fails gives an empty answer: without a window manager there is no active window."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)

    def obstacle(self) -> str:
        """Why windows cannot be looked at, or an empty text."""
        return "" if shutil.which("xdotool") else "xdotool is not installed"

    def active(self) -> str:
        """The window that has the person's attention; empty if that cannot be told."""
        return self._ask("getactivewindow")

    def title(self, window: str) -> str:
        return self._ask("getwindowname", window)

    def pid(self, window: str) -> int:
        """The process that the window says it belongs to; 0 if it does not say."""
        found = self._ask("getwindowpid", window)
        return int(found) if found.isdigit() else 0

    def of_class(self, pattern: str) -> list[str]:
        """The visible windows whose class matches."""
        return self._ask("search", "--onlyvisible", "--class", pattern).split()

    def of_process(self, pid: int) -> list[str]:
        """The visible windows of one process."""
        return self._ask("search", "--onlyvisible", "--pid", str(pid)).split()

    def activate(self, window: str) -> bool:
        """Bring a window before the person; True once it is there."""
        if self.active() == window:
            return True
        self._ask("windowactivate", window)
        return _within(2.0, lambda: self.active() == window)

    def press(self, shortcut: str) -> None:
        """Press one shortcut in the active window."""
        self._ask("key", "--clearmodifiers", shortcut)

    def give_back(self, before: str, pids: Collection[int]) -> None:
        """Give the attention back to the window that had it `before`, if a window of these processes has taken it."""
        if not before:
            return
        _within(1.0, lambda: any(self.of_process(pid) for pid in pids))
        if _within(0.4, lambda: (found := self.active()) not in (before, "") and self.pid(found) in pids):
            self.activate(before)

    def _ask(self, *arguments: str) -> str:
        try:
            answer = subprocess.run(
                ["xdotool", *arguments],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return answer.stdout.decode("utf-8", "replace").strip() if answer.returncode == 0 else ""


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() >= end:
            return False
        time.sleep(_TICK)
    return True
