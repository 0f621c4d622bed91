"""Where answers lie until the report is written: in memory, or in a file that nobody else can read."""

from __future__ import annotations

import json
import tempfile
from typing import Any, Protocol

from agent_fleet.aggregate.outputs import Output, as_json, from_json
from agent_fleet.errors import from_os_error


class Shelf(Protocol):
    """Keeps outputs by their key."""

    def put(self, key: str, output: Output) -> None:
        """Keep one; the same key again is the same output."""
        ...

    def get(self, key: str) -> Output:
        """The output of a key that was put."""
        ...

    def __contains__(self, key: object) -> bool: ...


class MemoryShelf:
    """In memory."""

    def __init__(self) -> None:
        self._kept: dict[str, Output] = {}

    def put(self, key: str, output: Output) -> None:
        self._kept[key] = output

    def get(self, key: str) -> Output:
        return self._kept[key]

    def __contains__(self, key: object) -> bool:
        return key in self._kept


class FileShelf:
    """In a temporary file without a name, in `directory` or where the system keeps such files; memory holds two numbers an output.

    It is a context manager: what was put can be had until its end, so a report is written within it.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._file: Any = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115  # closed by `__exit__`
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0

    def put(self, key: str, output: Output) -> None:
        if key in self._places:
            return
        line = json.dumps(as_json(output)).encode()
        try:
            self._file.seek(self._end)
            self._file.write(line)
        except OSError as error:
            raise from_os_error(error, "keeping an answer") from error
        self._places[key] = (self._end, len(line))
        self._end += len(line)

    def get(self, key: str) -> Output:
        place, length = self._places[key]
        self._file.seek(place)
        return from_json(json.loads(self._file.read(length)))

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __enter__(self) -> FileShelf:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
