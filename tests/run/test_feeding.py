"""What a reader is given of a log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent_fleet.model import Event, Exit, Outcome
from agent_fleet.run.settle import feed_all


class Counter:
    """A reader that keeps what it was fed."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def feed(self, line: str) -> Iterable[Event]:
        self.lines.append(line)
        return ()

    def outcome(self, exit: Exit) -> Outcome:
        raise AssertionError(exit)


def test_a_row_of_empty_lines_is_cut_and_nothing_else_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\n" + "\n" * 50_000 + "between\n\nlast")
    reader = Counter()
    feed_all(reader, str(log))
    assert [line for line in reader.lines if line] == ["first", "between", "last"]
    assert reader.lines.count("") == 10_000 + 1
