"""JSON with comments and trailing commas, as editors keep it: read without losing a byte of where things stand."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_SKIPPED = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[\]}])')
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


class Place(NamedTuple):
    """Where something is put: the offset just behind an opening bracket, and whether anything follows before the closing one."""

    offset: int
    is_empty: bool


def plain(text: str) -> str:
    """The same text as strict JSON: what JSON does not know is blank, and every other character stands where it stood."""
    text = _SKIPPED.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0]), text)
    return _TRAILING.sub(lambda found: " " if found[0] == "," else found[0], text)


def parse(text: str) -> Any:
    """The value. Raises ValueError."""
    return json.loads(plain(text).removeprefix("\ufeff"))


def place_in(text: str, key: str) -> Place | None:
    """The place at the start of the array that a top-level key has, or None if there is no such key; text that `parse` takes."""
    strict = plain(text)
    depth, last = 0, ""
    tokens = list(_TOKEN.finditer(strict))
    for here, token in enumerate(tokens):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        elif token[0] == ":" and depth == 1 and last == json.dumps(key):
            opening = tokens[here + 1]
            return Place(opening.end(), tokens[here + 2][0] == "]")
        last = token[0]
    return None


def place_at_top(text: str) -> Place:
    """The place at the start of the object that the whole text is."""
    tokens = list(_TOKEN.finditer(plain(text).replace("\ufeff", " ")))
    return Place(tokens[0].end(), tokens[1][0] == "}")
