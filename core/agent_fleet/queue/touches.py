"""Whether two sets of declared paths can overlap. Pure, and on the safe side: in doubt they do.

Paths are as in glob(7) with `**` for any number of parts, relative to the project or absolute. Whatever a shell or a tool
may read as a pattern counts as any text: a bracket expression, which may as well be a directory's real name; `?`, because
one character of one spelling is two of another; a brace, which may hold slashes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

EVERYTHING = "**"
_ANY = "*"
_EXTENDED = ("?(", "*(", "+(", "@(", "!(")


def normal(path: str) -> str:
    """A path without `.` and empty parts. Raises ValueError for one that leaves the project, or may do so."""
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if not parts or "**" in parts[-1] or "{" in "/".join(parts):
                raise ValueError(f"{path!r} lies outside the project, or may do so")
            parts.pop()
        else:
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts) or EVERYTHING


def inside(path: str, roots: Iterable[str] = ()) -> str:
    """A path relative to the project, whose root goes by the absolute paths `roots`. Raises ValueError for any other place."""
    if path == "~" or path.startswith("~/"):
        raise ValueError(f"{path!r} lies outside the project: no shell has read it")
    found = normal(path)
    if not found.startswith("/"):
        return found
    for root in roots:
        above = normal(root).rstrip("/")
        if found == above or found.startswith(above + "/"):
            return found[len(above) + 1 :] or EVERYTHING
    raise ValueError(f"{path!r} lies outside the project")


def overlap(first: Iterable[str], second: Iterable[str]) -> bool:
    """Whether some path of `first` can be, contain or lie in some path of `second`.

    Neither letter case nor the way a character is composed counts. An absolute path may be one of the project's own.
    """
    theirs = [_split(path) for path in second]
    return any(_meet(_split(path), other) for path in first for other in theirs)


def _split(path: str) -> list[str]:
    """The parts of a path; an absolute one begins with an empty part."""
    found: list[str] = []
    for part in unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold()).split("/"):
        if "{" in part:
            return [*found, EVERYTHING]
        found.append(part)
    return found


def _meet(a: list[str], b: list[str]) -> bool:
    """Walk both paths part by part, `**` standing for any number of parts; one that ends is a directory holding the other."""
    if (a[0] == "") != (b[0] == ""):
        return True
    reached = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        i, j = todo.pop()
        if i == len(a) or j == len(b):
            return True
        steps = []
        if EVERYTHING in (a[i], b[j]):
            steps = [(i + 1, j), (i, j + 1)]
        elif _part_meets(a[i], b[j]):
            steps = [(i + 1, j + 1)]
        for step in steps:
            if step not in reached:
                reached.add(step)
                todo.append(step)
    return False


def _part_meets(a: str, b: str) -> bool:
    """Whether some name matches both patterns."""
    if a == b:
        return True
    left, right = _tokens(a), _tokens(b)
    if _ANY not in left and _ANY not in right:
        return left == right
    reached = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        i, j = todo.pop()
        if i == len(left) and j == len(right):
            return True
        for step in _steps(left, right, i, j):
            if step not in reached:
                reached.add(step)
                todo.append(step)
    return False


def _steps(left: list[str], right: list[str], i: int, j: int) -> Iterable[tuple[int, int]]:
    if i < len(left) and left[i] == _ANY:
        yield i + 1, j
        if j < len(right):
            yield i, j + 1
    if j < len(right) and right[j] == _ANY:
        yield i, j + 1
        if i < len(left):
            yield i + 1, j
    if i < len(left) and j < len(right) and left[i] == right[j] != _ANY:
        yield i + 1, j + 1


def _tokens(part: str) -> list[str]:
    """The characters of a part, `*` standing for any text."""
    if "\\" in part or any(sign in part for sign in _EXTENDED):
        return [_ANY]
    found: list[str] = []
    i = 0
    while i < len(part):
        close = part.find("]", i + 2) if part[i] == "[" else -1
        found.append(_ANY if part[i] in "*?" or close > 0 else part[i])
        i = close + 1 if close > 0 else i + 1
    return found
