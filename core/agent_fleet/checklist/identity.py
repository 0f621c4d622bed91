"""By what an item is known again, and which item a word of `needs` means. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent_fleet.checklist.item import Entry, bare, normal
from agent_fleet.queue import names
from agent_fleet.queue.task import bad

_DIGITS = 16


def digests(found: Sequence[Entry]) -> list[str]:
    """A digest of each item: of its text, and its position among the items with the same text."""
    seen: Counter[str] = Counter()
    answer = []
    for entry in found:
        text = normal(entry.text)
        seen[text] += 1
        whole = f"{text}\0{seen[text]}".encode("utf-8", "surrogateescape")
        answer.append(hashlib.sha256(whole).hexdigest()[:_DIGITS])
    return answer


def source(file: str, digest: str) -> str:
    """What a task remembers of its item."""
    return f"{file}#{digest}"


def digest_in(text: str, file: str) -> str:
    """The digest in a task's source if it came from this file, else an empty text."""
    name, _, digest = text.rpartition("#")
    return digest if name == file and len(digest) == _DIGITS else ""


class Names(NamedTuple):
    """The items of a note by the names that `needs` may use: a `ref:`, or the text. Items are numbered by their place."""

    refs: Mapping[str, int]
    texts: Mapping[str, Sequence[int]]

    def meant(self, entry: Entry, value: str) -> list[int | str]:
        """The items, and the ids of tasks, that one `needs:` line names. Raises FleetError for a name that is none."""
        whole = self._one(entry, value)
        if whole is not None:
            return [whole]
        found = []
        for part in value.split(","):
            one = self._one(entry, part) if part.strip() else None
            if one is None and part.strip():
                raise bad(
                    f"line {entry.line}: {entry.text[:60]!r} needs {part.strip()[:100]!r}, which is no item and no task",
                    "write the item's text, a `ref:` that stands inside it, or an id from `fleet list`",
                )
            found += [] if one is None else [one]
        return found

    def _one(self, entry: Entry, word: str) -> int | str | None:
        name = bare(word)
        if names.is_id(name):
            return name
        if name in self.refs:
            return self.refs[name]
        same = self.texts.get(normal(name), ())
        if len(same) > 1:
            raise bad(
                f"line {entry.line}: {name[:60]!r} is the text of {len(same)} items",
                "give the one that is meant a `ref:` of its own",
            )
        return same[0] if same else None


def names_of(found: Sequence[Entry], refs: Sequence[str]) -> Names:
    """The names of all items. Raises FleetError for a `ref` that two items have."""
    by_ref: dict[str, int] = {}
    by_text: dict[str, list[int]] = {}
    for at, (entry, ref) in enumerate(zip(found, refs, strict=True)):
        by_text.setdefault(normal(entry.text), []).append(at)
        if ref in by_ref:
            raise bad(f"line {entry.line}: the ref {ref[:60]!r} is given twice", "give every item its own")
        if ref:
            by_ref[ref] = at
    return Names(by_ref, by_text)
