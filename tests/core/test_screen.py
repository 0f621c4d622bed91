"""What was sent to a terminal, as text: nothing of it can move the cursor of the one that shows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fleet.screen import plain, rows


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("plain text\r\n", ["plain text"]),
        ("\x1b[1;31mred\x1b[0m and \x1b]8;;https://x.example\x1b\\a link\x1b]8;;\x1b\\", ["red and a link"]),
        ("\x1b]0;a title\x07at 10 %\rat 100 %\r\n", ["at 100 %"]),
        ("one\x1b[3Ctwo", ["one   two"]),
        ("\x1b[?1049h\x1b[2J\x1b[1;1Htop\x1b[5;3Hbelow\x1b[K\x1b[?25l", ["top", "below"]),
        ("lss\b \b -l", ["ls -l"]),
        ("", [""]),
        ("\x1b[2Jcleared", ["cleared"]),
    ],
)
def test_sequences_go_and_what_was_painted_stays(sent: str, shown: list[str]) -> None:
    assert rows(sent) == shown


pieces = st.lists(
    st.text(max_size=8)
    | st.sampled_from(["\x1b", "\x1b[", "\x9b", "\r", "\b", "\x1b]0;", "\x07", "5;3H", "\x1b[9999C", "m"]),
    max_size=12,
)


@given(pieces)
def test_no_control_character_is_ever_left(sent: list[str]) -> None:
    for row in [*rows("".join(sent)), plain("".join(sent))]:
        assert not any((ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160 for c in row)
        row.encode()
