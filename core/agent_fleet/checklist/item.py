"""What an item says: markers in front of its text, fields and notes in the lines inside it. Pure."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from agent_fleet.checklist.outline import Item, Outline
from agent_fleet.queue.task import bad

_SIGNS = re.compile("[!~?⇉⇒🔒\ufe0f]+|-x(?=\\s|\\Z)")
_SPACE = re.compile(r"\s*")
_ATTACHED = frozenset("?⇉⇒🔒")
_FIELD = re.compile(
    r"(?:[-*+]\s+)?\**(touches|needs|check|done[- ]when|ref)\**\s*:\**(?:\s+(.*))?\Z", re.IGNORECASE | re.DOTALL
)
_ZONE = 80  # a longer row of signs is a text of signs
_QUOTES = "`\"'"


class Marks(NamedTuple):
    """The markers of an item. `left` says why it is not for an agent, and is empty if it may be."""

    priority: int = 5
    is_serial: bool = False
    is_parallel: bool = False
    left: str = ""


class Entry(NamedTuple):
    """An item, read. `line` counts from one, for people; `item` is its place in the note."""

    item: Item
    line: int
    text: str
    marks: Marks


class Detail(NamedTuple):
    """What the lines inside an item say."""

    notes: str
    touches: Sequence[str] = ()
    needs: Sequence[str] = ()
    check: str = ""


def entries(note: Outline) -> list[Entry]:
    """Every item of a note that has a text."""
    found = []
    for item in note.items:
        marks, text = marked(item.text)
        if text:
            found.append(Entry(item, item.line + 1, text, marks))
    return found


def marked(text: str) -> tuple[Marks, str]:
    """The markers in front of a text, and the text without them.

    `!`, `!!`, `~` and `-x` count if something blank follows, since `~/notes` and `-xattr` are words; the others always do.
    """
    signs: set[str] = set()
    at = _after_space(text, 0)
    while at < _ZONE and (match := _SIGNS.match(text, at)):
        end = match.end()
        if end < len(text) and not text[end].isspace() and not _ATTACHED & set(match[0]):
            break
        signs |= {"-x"} if match[0] == "-x" else set(match[0])
        signs |= {"!!"} if "!!" in match[0] else set()
        at = _after_space(text, end)
    return _meaning(signs), text[at:].strip()


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _meaning(signs: set[str]) -> Marks:
    left = ""
    if "🔒" in signs:
        left = "🔒 it is for a person"
    elif "?" in signs:
        left = "? it needs an answer first"
    elif "-x" in signs:
        left = "-x it is to be skipped"
    priority = 1 if "!!" in signs else 2 if "!" in signs else 8 if "~" in signs else 5
    return Marks(priority, "⇒" in signs, "⇉" in signs, left)


def detail(note: Outline, entry: Entry) -> Detail:
    """The fields and notes inside an item. Raises FleetError for a field that is empty, or given twice where one counts."""
    kept: list[str] = []
    fields: dict[str, list[str]] = {}
    for at in range(entry.item.line + 1, entry.item.until):
        name, value = _field(note, at)
        if not name:
            kept.append(note.lines[at])
            continue
        if not value:
            raise bad(f"line {at + 1}: `{name}:` says nothing", "write it on the same line, or remove the word")
        if name in ("check", "ref") and name in fields:
            raise bad(
                f"line {at + 1}: an item has one {name}", "join commands by `&&`" if name == "check" else "keep one"
            )
        fields.setdefault(name, []).append(value)
    return Detail(
        textwrap.dedent("\n".join(kept)).strip("\n").rstrip(),
        _parts(fields.get("touches", ())),
        tuple(fields.get("needs", ())),
        bare("".join(fields.get("check", ()))),
    )


def ref(note: Outline, entry: Entry) -> str:
    """The name that an item gives itself for others, or an empty text."""
    fields = (_field(note, at) for at in range(entry.item.line + 1, entry.item.until))
    return next((bare(value) for name, value in fields if name == "ref"), "")


def _field(note: Outline, at: int) -> tuple[str, str]:
    """The name and value of a field in one line; two empty texts if it is none."""
    match = None if at in note.code else _FIELD.match(note.lines[at].strip())
    if match is None:
        return "", ""
    name = match[1].lower()
    return "check" if name.startswith("done") else name, (match[2] or "").strip()


def _parts(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(bare(part) for value in values for part in value.split(",") if bare(part))


def bare(text: str) -> str:
    """A text without blanks around it, and without a pair of quotes or backticks that encloses all of it."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES and text[0] not in text[1:-1]:
        return text[1:-1].strip()
    return text


def normal(text: str) -> str:
    """The text by which two spellings of one item are the same: composed, white space made one."""
    return unicodedata.normalize("NFC", " ".join(text.split()))
