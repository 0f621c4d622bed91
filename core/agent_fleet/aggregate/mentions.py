"""What a text mentions by name: paths, identifiers, options, addresses, and proper names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_fleet.aggregate.wording import STOP

_URL = re.compile(r"https?://[^\s<>\"')\]]+[\w/]")
_CODE = re.compile(
    r"(?<![\w/.-])(?:"
    r"--?[a-zA-Z][\w-]+"  # an option
    r"|\.?/?(?:[\w.@+~-]+/)+[\w.@+~-]*\w"  # a path with directories
    r"|/[\w.@+~-]*\w"  # one from the root
    r"|[\w-]+\.(?:[a-z]{1,4}|json|yaml|toml|html|scss|swift|proto)(?![\w.])"  # a file
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?:\(\))?"  # dotted
    r"|\.[a-z][\w-]*[a-z]"  # a class of CSS, a hidden file
    r"|[\w.-]+:\d[\w.]*"  # an image and its tag, a host and its port
    r"|[A-Za-z]\w*\([^()\s]*(?:, [^()\s]*)*\)"  # a call
    r"|[a-z0-9]+(?:_[a-z0-9]+)+|_[a-z]\w+"  # snake
    r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"  # constant
    r"|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*"  # camel
    r"|[A-Za-z]+\d\w*|\d+[A-Za-z_]\w*[a-f\d_]\w*"  # letters with digits, hashes
    r")"
)
_NOT_FILES = re.compile(
    r"(?:[eE]\.g|i\.e|a\.m|p\.m|U\.S|etc)\.?$|^\d+(?:st|nd|rd|th|ms|s|h|kb|mb|gb|kib|mib|gib|x)$|^(?:[KMGT]i?B|[kMG]Hz)$",
    re.I,
)
_PROPER = re.compile(r"(?<![\w/.-])(?:[A-ZÀ-Þ][\w’'-]*\w|[A-Z]{2,})(?!\w|[/.(]\w)")
_KINDS = re.compile(
    r"(?i:function|class|method|variable|column|table|field|flag|option|header|parameter|module|package|property|constant|enum"
    r"|library) "
    r"([A-Z]\w+|[a-z]\w*(?:-\w+)+|[a-z]\w*[a-rt-z])(?![\w-])"
)
_SENTENCE = re.compile(r"(?:^|[.!?:;]\s+|\n\s*[-*•]?\s*)\W*$")
_SPAN = re.compile(r"`[.-]{0,2}(\w[\w.-]*)`")
_SHORT = 3
_MONTHS = {
    short: month
    for month in "january february march april june july august september october november december".split()
    for short in (month[:3], month[:4])
}
_PARTS = re.compile(r"[^\W_]+", re.UNICODE)


def mentions(text: str) -> tuple[frozenset[str], str]:
    """Paths, identifiers, options and addresses of a text, as written, and the text with them blanked out."""
    found: set[str] = set()

    def take(match: re.Match[str]) -> str:
        if _NOT_FILES.search(match[0]):
            return match[0]
        found.add(match[0].removesuffix("()").rstrip("/"))
        return " "

    rest = _CODE.sub(take, _URL.sub(take, text))
    return frozenset(found), rest


def proper(text: str) -> frozenset[str]:
    """Names by their capital letter, in lower case; the first word of a sentence counts only if it is all capitals."""
    found = set()
    for match in _PROPER.finditer(text):
        name = match[0]
        if len(name) > 1 and (name.isupper() or not _SENTENCE.search(text[: match.start()])):
            found.add(name.lower())
    return frozenset(found)


def named(text: str) -> frozenset[str]:
    """Words that follow what they are: "the class Invoice", "variable total"; verbs, by their ending, are left out."""
    return frozenset(match[1].lower() for match in _KINDS.finditer(text) if match[1].lower() not in STOP)


def spans(text: str) -> frozenset[str]:
    """What is marked as code, if it is one word, in lower case."""
    return frozenset(match[1].lower() for match in _SPAN.finditer(text))


def is_said(name: str, words: frozenset[str]) -> bool:
    """Whether a name in lower case is among the words, as it is, or as one of several, as an owner, as a short month."""
    return bool(_forms(name) & words) or any(not _forms(each).isdisjoint(_forms(name)) for each in words)


def unabridged(names: frozenset[str], words: frozenset[str]) -> frozenset[str]:
    """The names that no word may be short for, and that are short for none: Postgres and PostgreSQL are, as Java and JavaScript."""
    return frozenset(
        name
        for name in names
        if not any(each.startswith(name) or name.startswith(each) for each in words if len(each) >= _SHORT)
    )


def _forms(name: str) -> frozenset[str]:
    bare = name.removesuffix("'s").removesuffix("’s")
    return frozenset((bare, bare.removesuffix("s"), _MONTHS.get(bare, bare)))


def disagreement(
    mine: Iterable[str], others: Iterable[str], my_words: frozenset[str], their_words: frozenset[str]
) -> str:
    """What each of two texts mentions that the other has nowhere, in words; empty if one mentions no more than the other."""
    left, right = frozenset(mine), frozenset(others)
    here = sorted(each for each in left if not _has(each, right, their_words))
    there = sorted(each for each in right if not _has(each, left, my_words))
    return f"{here[0]} is not {there[0]}" if here and there else ""


def _has(name: str, names: frozenset[str], plain_words: frozenset[str]) -> bool:
    """A path is the same as its own last parts; an identifier is the same as its parts said as words."""
    if any(_bare(name) == _bare(other) or _ends(name, other) or _ends(other, name) for other in names):
        return True
    parts = [part.lower() for part in _PARTS.findall(name)]
    if any(set(parts) <= {part.lower() for part in _PARTS.findall(other)} for other in names):
        return True
    return "/" not in name and len(parts) > 0 and set(parts) <= plain_words


def _bare(name: str) -> str:
    """A name without the plural of a class, the first zero of a time of day, or the sign of the folder that one is in."""
    name = name.removesuffix("s") if name[:1].isupper() and name.isalpha() else name
    return name.removeprefix("./").lstrip("0") or name


def _ends(long: str, short: str) -> bool:
    return len(long) > len(short) and long.endswith(short) and long[-len(short) - 1] in "/.:"
