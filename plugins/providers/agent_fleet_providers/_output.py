"""What a process printed, made safe to keep and to show: no terminal control, no lone surrogates, bounded."""

from __future__ import annotations

from collections import deque

from agent_fleet.api import Exit, plain


def one_line(text: str, most: int = 300) -> str:
    """The text on one line of at most `most` characters, for a reason or an event."""
    flat = " ".join(plain(part) for part in text[: most * 8].split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def said(kind: str, text: str) -> str:
    """The text of an event on one line: what an agent says is for people to read, what it does is only named."""
    return one_line(text, 4000 if kind in ("text", "result") else 300)


class Tail:
    """The last lines of an output of any size. `cut` says whether earlier ones were let go."""

    def __init__(self, lines: int, characters: int) -> None:
        self._kept: deque[str] = deque()
        self._lines = lines
        self._characters = characters
        self._held = 0
        self.cut = False

    def add(self, line: str) -> str:
        """Keep a line; what is kept of it is handed back."""
        if len(line) > self._characters:
            line = line[-self._characters :]
            self.cut = True
        text = plain(line)
        self._kept.append(text)
        self._held += len(text)
        while len(self._kept) > self._lines or (self._held > self._characters and len(self._kept) > 1):
            self._held -= len(self._kept.popleft())
            self.cut = True
        return text

    @property
    def lines(self) -> list[str]:
        return list(self._kept)

    @property
    def text(self) -> str:
        return "\n".join(self._kept).strip("\n")


def signal_of(ended: Exit) -> int | None:
    """The signal that ended the process; a status above 128 is how a shell, and Claude Code, reports one."""
    if ended.signal is not None:
        return ended.signal
    return ended.code - 128 if ended.code is not None and 128 < ended.code < 128 + 65 else None


def signal_name(number: int) -> str:
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
