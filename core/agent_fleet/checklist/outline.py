"""A note as bytes: its items, their sections, and where its log ends. Pure; the blocks are those of CommonMark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

_BOM = b"\xef\xbb\xbf"
_BLANK = " \t\u00a0"  # European keyboards give a no-break space next to a bracket
_BOX = re.compile(rf"[ \t]*(?:[-*+]|\d{{1,9}}[.)])[ \t]+\[(.)\](?:[{_BLANK}]+(.*))?\Z", re.DOTALL)
_TAKEN = ("now", "ready", "todo")


class Item(NamedTuple):
    """A member of a list with a box. `box` is the byte range of what stands in it; lines count from zero.

    The lines after its first, up to `until`, lie inside it.
    """

    line: int
    until: int
    box: tuple[int, int]
    is_open: bool
    text: str
    section: str
    is_taken: bool


class Heading(NamedTuple):
    line: int
    until: int
    level: int
    title: str

    @property
    def word(self) -> str:
        """The letters of the title alone: no emoji, no colon, no emphasis."""
        return "".join(re.findall(r"[^\W_]+", self.title)).casefold()


class Outline(NamedTuple):
    """`lines` are the texts without line ends, `ends` the byte offsets after them; `code` are lines that are code or comments.

    `log` is the first and last written line of the log's section, None if there is no such section.
    """

    lines: Sequence[str]
    ends: Sequence[int]
    items: Sequence[Item]
    code: frozenset[int]
    log: tuple[int, int] | None


def outline(data: bytes) -> Outline:
    """What is in a note, however it is encoded: bytes that are not UTF-8 come back as they were."""
    raw = data.splitlines(keepends=True)
    lines = [line.rstrip(b"\r\n").decode("utf-8", "surrogateescape") for line in raw]
    if data.startswith(_BOM):
        lines[0] = lines[0].removeprefix("\ufeff")
    ends: list[int] = []
    for line in raw:
        ends.append((ends[-1] if ends else 0) + len(line))
    tokens = _blocks(lines)
    headings = [
        _heading(tokens, at) for at, token in enumerate(tokens) if token.type == "heading_open" and not token.level
    ]
    spans = _joined([_span(token) for token in tokens if token.type == "list_item_open" and token.level == 1], lines)
    starts = [len(_BOM) if data.startswith(_BOM) else 0, *ends]
    items = _items(lines, starts, spans, headings)
    code = {
        line for token in tokens if token.type in ("fence", "html_block", "code_block") for line in range(*_span(token))
    }
    return Outline(lines, ends, items, frozenset(code), _log(headings, lines))


def _blocks(lines: Sequence[str]) -> list[Token]:
    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    front = _front_matter(lines)
    return parser.parse("\n".join([*[""] * front, *lines[front:]]))


def _front_matter(lines: Sequence[str]) -> int:
    """How many lines at the top are settings for other programs, between two lines `---`."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    return next((at + 1 for at, line in enumerate(lines) if at and line.rstrip() == "---"), 0)


def _span(token: Token) -> tuple[int, int]:
    first, until = token.map or (0, 0)
    return first, until


def _heading(tokens: Sequence[Token], at: int) -> Heading:
    return Heading(*_span(tokens[at]), int(tokens[at].tag[1:]), tokens[at + 1].content)


def _joined(spans: Sequence[tuple[int, int]], lines: Sequence[str]) -> list[tuple[int, int]]:
    """The spans of list members, each with all that is indented below it, even where that is too little for CommonMark."""
    found: list[tuple[int, int]] = []
    for first, end in spans:
        if found and first < found[-1][1]:
            continue
        until, most = end, _indent(lines[first]) + 1
        while until < len(lines) and (not lines[until].strip() or _indent(lines[until]) > most):
            until += 1
        found.append((first, until))
    return found


def _indent(line: str) -> int:
    expanded = line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4)
    return len(expanded)


def _items(
    lines: Sequence[str], starts: Sequence[int], spans: Sequence[tuple[int, int]], headings: Sequence[Heading]
) -> list[Item]:
    others = [heading for heading in headings if heading.word != "log"]
    is_whole = len(others) <= 1 and not any(heading.word in _TAKEN for heading in others)
    if others and spans and others[0].line > spans[0][0]:
        is_whole = False
    found = []
    coming = 0
    above: Heading | None = None
    taking: Heading | None = None
    for first, until in spans:
        while coming < len(headings) and headings[coming].line < first:
            above = headings[coming]
            taking = _taking(taking, above)
            coming += 1
        match = _BOX.match(lines[first])
        if match is None:
            continue
        is_taken = taking is not None or (is_whole and (above is None or above.word != "log"))
        box = tuple(starts[first] + _size(lines[first][: match.start(1)]) + plus for plus in (0, _size(match[1])))
        section = above.title if above else ""
        found.append(
            Item(first, until, (box[0], box[1]), match[1] in _BLANK, (match[2] or "").strip(), section, is_taken)
        )
    return found


def _taking(before: Heading | None, heading: Heading) -> Heading | None:
    """The heading whose section is taken after this one. A deeper section belongs to the one above, but not to a title."""
    if heading.word in _TAKEN:
        return heading
    return before if before is not None and heading.level > before.level > 1 and heading.word != "log" else None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _log(headings: Sequence[Heading], lines: Sequence[str]) -> tuple[int, int] | None:
    for at, heading in enumerate(headings):
        if heading.word == "log":
            until = headings[at + 1].line if at + 1 < len(headings) else len(lines)
            last = max(line for line in range(heading.line, until) if line < heading.until or lines[line].strip())
            return heading.until - 1, last
    return None
