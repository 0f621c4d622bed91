"""The labelled texts, and how well a grouping of them does. tests/data/README.md says how they were written."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import NamedTuple

from agent_fleet.aggregate.arbitration import Arbiter
from agent_fleet.aggregate.duplicates import Sample, group
from agent_fleet.aggregate.likeness import Bounds
from agent_fleet.protocols import Embedder

DATA = Path(__file__).parents[1] / "data"
HARD = {"opposite", "number", "direction"}
FREE = ("services", "security", "research", "measurement", "interfaces")
"""The freely worded texts that rules may be set by."""


class Labelled(NamedTuple):
    text: str
    cluster: str
    family: str
    kind: str


class Figures(NamedTuple):
    precision: float
    recall: float
    wrong: list[tuple[Labelled, Labelled]]

    @property
    def hard(self) -> list[tuple[Labelled, Labelled]]:
        """The wrong pairs that nobody may join: opposites, other numbers, another direction."""
        return [pair for pair in self.wrong if {row.kind for row in pair} & HARD]

    @staticmethod
    def families(pairs: list[tuple[Labelled, Labelled]]) -> list[str]:
        """Where pairs are from: what a failing test may print of texts that nobody is to look at."""
        return sorted({row.family for pair in pairs for row in pair})


def labelled(part: str) -> list[Labelled]:
    lines = (DATA / f"duplicates-{part}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Labelled(each["text"], each["cluster"], each["family"], each["kind"]) for each in map(json.loads, lines)]


def figures(
    part: str,
    embedder: Embedder | None,
    bounds: Bounds,
    sets: str | tuple[str, ...] = "",
    arbiter: Arbiter | None = None,
) -> Figures:
    rows = [row for row in labelled(part) if row.family.startswith(sets)]
    found = group([Sample(f"{place:04}", row.text) for place, row in enumerate(rows)], bounds, embedder, arbiter)
    right = missed = 0
    wrong = []
    for one, two in itertools.combinations(range(len(rows)), 2):
        same, merged = rows[one].cluster == rows[two].cluster, found.first[one] == found.first[two]
        right += same and merged
        missed += same and not merged
        if merged and not same:
            wrong.append((rows[one], rows[two]))
    return Figures(right / (right + len(wrong)), right / (right + missed), wrong)


def freely(name: str) -> list[Labelled]:
    """The freely worded texts on one subject: blocks of lines, of which each names its cluster and the first of one its kind."""
    rows: list[Labelled] = []
    kinds: dict[str, str] = {}
    for family, block in enumerate((DATA / "free" / f"{name}.txt").read_text(encoding="utf-8").split("\n\n")):
        kinds.clear()
        for line in block.splitlines():
            mark, _, text = line.partition(" ")
            letter, _, kind = mark.partition(":")
            kinds.setdefault(letter, kind or "base")
            rows.append(Labelled(text, f"{name}-{family}-{letter}", f"{name}-{family}", kinds[letter]))
    return rows
