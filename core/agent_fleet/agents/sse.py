"""Server-sent events, from bytes as they come. Pure. (HTML Living Standard, 9.2; line ends are LF or CR LF.)"""

from __future__ import annotations

from collections.abc import Iterator

from agent_fleet.agents.dialect import Fault

_LONGEST = 1 << 24  # bytes of one line; a server that sends more is not one that we know


class Events:
    """Cuts a stream into events."""

    __slots__ = ("_data", "_event", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        """The (event, data) pairs that this chunk completes. Raises Fault for a line without an end."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _LONGEST:
            raise Fault("failed", "the server sent a line without an end")
        for each in lines:
            line = each.removesuffix(b"\r")
            if not line:
                if self._data:
                    yield self._event, "\n".join(self._data)
                self._event, self._data = "", []
                continue
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            elif name == b"event":
                self._event = value.removeprefix(b" ").decode("utf-8", "replace")
