"""What a run shows: plain lines off a terminal, a progress bar below them on one. All of it on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from agent_fleet.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Console(Protocol):
    """Where a run says what happens."""

    def say(self, text: str) -> None:
        """One line that stays."""
        ...

    def progress(self, settled: int, total: int, running: int) -> None:
        """How far the run is: `total` counts what was there to do so far."""
        ...

    def close(self) -> None: ...


class Lines:
    """Plain lines, for pipes and logs."""

    def say(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)  # noqa: T201 -- this is the place that prints

    def progress(self, settled: int, total: int, running: int) -> None:
        """Nothing: every line already says what happened."""

    def close(self) -> None:
        """Nothing is held."""


class Bar:
    """A progress bar under the lines, for a person at a terminal."""

    def __init__(self) -> None:
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=RichConsole(stderr=True),
            transient=True,
            refresh_per_second=4,
        )
        self._bar: TaskID = self._progress.add_task("tasks", total=None)
        self._progress.start()

    def say(self, text: str) -> None:
        self._progress.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def progress(self, settled: int, total: int, running: int) -> None:
        self._progress.update(self._bar, completed=settled, total=total, description=f"{running} at work")

    def close(self) -> None:
        self._progress.stop()


def open_console() -> Console:
    """A bar on a terminal, lines elsewhere."""
    return Bar() if sys.stderr is not None and sys.stderr.isatty() else Lines()
