"""The signals of a run: counted, so that the loop can look at them when it is ready."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any


class Signals:
    """Counts SIGINT and SIGTERM for the time of a run; the loop looks at the numbers, so that no line is torn."""

    def __init__(self) -> None:
        self.interrupts = 0
        self.terms = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self.interrupts += 1
        else:
            self.terms += 1
