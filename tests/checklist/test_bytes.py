"""Whatever a note holds, only ticks and log lines change in it, once."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.checklist.identity import digests
from agent_fleet.checklist.item import entries
from agent_fleet.checklist.outline import outline
from agent_fleet.checklist.promotion import Promotion, promotion
from agent_fleet.checklist.writing import written
from agent_fleet.errors import FleetError
from agent_fleet.queue.task import Habits
from support.notes import Note, lines_of_anything, notes

Change = Callable[[bytes], bytes]


def promoted(data: bytes, standing: dict[str, str]) -> Promotion:
    return promotion(outline(data), "TASKS.md", standing, list(standing), Habits())


def marks_of(found: Promotion) -> list[str]:
    return [body["source"].rpartition("#")[2] for body in found.bodies]


def logs_of(marks: list[str]) -> dict[str, list[str]]:
    return {mark: [f"- 2026-01-02 t{at} did it: `ok`"] for at, mark in enumerate(marks)}


def assert_only_ticks_and_lines(old: bytes, new: bytes, lines: list[str]) -> None:
    """Walk both: what differs is `x` for the blank in a box, and one block of log lines."""
    i = j = 0
    inserted = b""
    while j < len(new):
        if i < len(old) and old[i] == new[j]:
            i, j = i + 1, j + 1
            continue
        blank = next((each for each in (b" ", b"\xc2\xa0") if old[i - 1 :].startswith(b"[" + each + b"]")), b"")
        if blank and new[j : j + 2] == b"x]":
            i, j = i + len(blank), j + 1
            continue
        assert not inserted, "a second block was inserted"
        j, inserted = _after_block(old, i, new, j)
    assert i == len(old)
    told = [line for line in inserted.decode().replace("\r", "\n").split("\n") if line and line != "## Log"]
    assert told == lines


def _after_block(old: bytes, i: int, new: bytes, j: int) -> tuple[int, bytes]:
    """The end of the inserted block, by the length of the rest of both; and the block."""
    size = _length(new[j:]) - _length(old[i:])
    end = j
    while _length(new[j:end]) < size:
        end += 1
    return end, new[j:end]


def _length(data: bytes) -> int:
    """The length with every blank in a box as long as its tick."""
    return len(data) - data.count(b"[\xc2\xa0]")


@given(notes(), st.data())
def test_only_ticks_and_log_lines_change(note: Note, data: st.DataObject) -> None:
    marks = digests(entries(outline(note.data)))
    logs = logs_of(data.draw(st.lists(st.sampled_from(marks), unique=True)) if marks else [])
    now = dict(zip(marks, entries(outline(note.data)), strict=True))
    due = {mark for mark in logs if now[mark].item.is_open}
    writing = written(note.data, logs)
    assert set(writing.ticked) == due
    in_order = sorted(due, key=lambda mark: now[mark].line)
    assert_only_ticks_and_lines(note.data, writing.data, [logs[mark][0] for mark in in_order])
    assert written(writing.data, logs) == (writing.data, [])
    after = entries(outline(writing.data))
    assert [entry.text for entry in after] == [entry.text for entry in now.values()]
    assert [entry.item.is_open for entry in after] == [e.item.is_open and m not in due for m, e in now.items()]


@given(lines_of_anything(), st.data())
def test_only_ticks_and_log_lines_change_in_a_heap_of_fragments(heap: bytes, data: st.DataObject) -> None:
    marks = digests(entries(outline(heap)))
    logs = logs_of(marks)
    try:
        writing = written(heap, logs)
    except FleetError as error:
        assert error.code == "bad_input"
        return
    found = entries(outline(heap))
    assert_only_ticks_and_lines(
        heap, writing.data, [logs[m][0] for m, e in zip(marks, found, strict=True) if e.item.is_open]
    )
    assert written(writing.data, logs).data == writing.data


@given(notes())
def test_exactly_the_open_items_of_the_sections_are_taken(note: Note) -> None:
    found = [each for each in entries(outline(note.data)) if each.item.is_taken and each.item.text != "given up"]
    assert [entry.item.text for entry in found if entry.item.is_open] == [text.strip() for text in note.open]
    assert [entry.item.text for entry in found if not entry.item.is_open] == [text.strip() for text in note.ticked]


@given(notes())
def test_a_note_goes_in_once_and_comes_back_ticked(note: Note) -> None:
    first = promoted(note.data, {})
    marks = marks_of(first)
    assert len(set(marks)) == len(marks) == len(note.open) - len(first.left)
    standing = {mark: f"t{at}" for at, mark in enumerate(marks)}
    assert not promoted(note.data, standing).new
    writing = written(note.data, logs_of(marks))
    assert sorted(writing.ticked) == sorted(marks)
    again = promoted(writing.data, standing)
    assert (again.new, again.known, list(again.gone), again.left) == ([], 0, [], shifted(first, again))
    assert not promoted(writing.data, {}).new


def shifted(first: Promotion, again: Promotion) -> object:
    """What was left, at the lines of the second reading: a log above it moves it."""
    assert [(entry.text, why) for entry, why in first.left] == [(entry.text, why) for entry, why in again.left]
    return again.left


@given(notes(), st.data())
def test_ticking_and_moving_change_no_identity(note: Note, data: st.DataObject) -> None:
    marks = digests(entries(outline(note.data)))
    chosen = data.draw(st.lists(st.sampled_from(marks), unique=True)) if marks else []
    assert digests(entries(outline(written(note.data, logs_of(chosen)).data))) == marks


LOG = ["- 2026-01-02 t0 did it: `ok`"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- [ ] a\n", "- [x] a\n\n## Log\n\n+\n"),
        ("- [ ] a", "- [x] a\n\n## Log\n\n+"),
        ("- [ ] a\r\n\r\n", "- [x] a\r\n\r\n\r\n## Log\r\n\r\n+\r\n"),
        ("## Log\n# TODO\n- [ ] a\n", "## Log\n\n+\n# TODO\n- [x] a\n"),
        (
            "# TODO\n- [ ] a\n# \N{RECEIPT} LOG\n- old\n\n\n# End",
            "# TODO\n- [x] a\n# \N{RECEIPT} LOG\n- old\n+\n\n\n# End",
        ),
        ("- [ ] a\n\nLog\n---\n- old", "- [x] a\n\nLog\n---\n- old\n+"),
    ],
)
def test_the_log_lies_at_the_end_or_where_it_is_already(old: str, new: str) -> None:
    (mark,) = digests(entries(outline(old.encode())))
    assert written(old.encode(), {mark: LOG}).data.decode() == new.replace("+", LOG[0])


# ------------------------------------------------------------------------------------------------ hostile size


def calls(data: bytes) -> int:
    """How many function calls it takes to read a note and tick all of it."""
    made = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        written(data, logs_of(marks_of(promoted(data, {}))))
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize(
    "block",
    [
        "- [ ] do {}\n  more\n  needs: do 1\n",
        "- [ ] the same\n",
        "- [x] do {}\n\n```\n- [ ] x\n```\n",
        "- [ ] do {}\n  ref: r{}\n<!-- a -->\n",
        "# READY\n- [ ] do {}\n# Log\n",
        "{}. [ ] do\n   - [ ] step\n\n",
        "> - [ ] quoted\n\n",
        "- [ ] do {}\n  - [ ] needs: x\n```\n",
    ],
)
def test_the_work_grows_with_the_note_and_no_faster(block: str) -> None:
    small, large = (
        calls(("# TODO\n\n- [ ] do 1\n\n" + "".join(block.replace("{}", str(at)) for at in range(2, size))).encode())
        for size in (100, 400)
    )
    assert large < 4.6 * small


@pytest.mark.parametrize("start", ["", "! ", "!", "`", "<!--", "[", "> ", "- ", "\u00a0", "needs: ", "~ ? "])
def test_a_line_of_a_megabyte_is_an_item_like_any_other(start: str) -> None:
    text = "do" + start * (1_000_000 // max(1, len(start.encode()))) + " it"
    data = f"# TODO\r\n- [ ] {text}\r\n  {text}".encode()
    found = promoted(data, {})
    assert [body["target"] for body in found.bodies] == [text]
    assert found.bodies[0]["notes"] == text
    assert written(data, logs_of(marks_of(found))).data.startswith(b"# TODO\r\n- [x] do")


@pytest.mark.parametrize("signs", ["!" * 1_000_000, "! " * 500_000, "~?" * 500_000, "[" * 1_000_000, "#" * 1_000_000])
def test_a_megabyte_of_signs_takes_no_time_to_speak_of(signs: str) -> None:
    assert calls(f"# TODO\n- [ ] {signs}x\n{signs}\n".encode()) < 600_000


@settings(max_examples=20)
@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(data: bytes) -> None:
    note = outline(data)
    assert len(note.lines) == len(note.ends) == len(data.splitlines())
