"""Answers that say the same. The labelled texts lie in tests/data; README.md there says how they were written and what may see which."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from agent_fleet_embedders.wordllama import WordLlama
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.aggregate.duplicates import LONGEST, Sample, group
from agent_fleet.aggregate.facts import FactReader, doubt, veto
from agent_fleet.aggregate.likeness import Bounds
from agent_fleet.protocols import Embedder

DATA = Path(__file__).parents[1] / "data"
HARD = {"opposite", "number", "direction"}


class Labelled(NamedTuple):
    text: str
    cluster: str
    family: str
    kind: str


class Figures(NamedTuple):
    precision: float
    recall: float
    wrong: list[tuple[Labelled, Labelled]]


def labelled(part: str) -> list[Labelled]:
    lines = (DATA / f"duplicates-{part}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Labelled(each["text"], each["cluster"], each["family"], each["kind"]) for each in map(json.loads, lines)]


def figures(part: str, embedder: Embedder | None) -> Figures:
    rows = labelled(part)
    found = group([Sample(f"{place:04}", row.text) for place, row in enumerate(rows)], Bounds(), embedder)
    right = missed = 0
    wrong = []
    for one, two in itertools.combinations(range(len(rows)), 2):
        same, merged = rows[one].cluster == rows[two].cluster, found.first[one] == found.first[two]
        right += same and merged
        missed += same and not merged
        if merged and not same:
            wrong.append((rows[one], rows[two]))
    return Figures(right / (right + len(wrong)), right / (right + missed), wrong)


@pytest.fixture(scope="module")
def embedder() -> WordLlama:
    return WordLlama()


def test_the_labelled_texts_are_many_and_no_part_knows_the_other() -> None:
    tuning, final = labelled("tuning"), labelled("final")
    assert len(tuning) + len(final) >= 400
    assert len(final) >= 200
    assert {row.text for row in tuning}.isdisjoint(row.text for row in final)
    kinds = Counter(row.kind for row in final)
    assert kinds.keys() >= {
        "base",
        "near",
        "paraphrase",
        "opposite",
        "number",
        "direction",
        "path",
        "code",
        "different",
        "single",
    }


def test_on_texts_that_nothing_was_set_by_few_are_merged_wrongly(embedder: WordLlama) -> None:
    found = figures("final", embedder)
    assert found.precision >= 0.98, found
    assert found.recall >= 0.80, found.recall
    assert [pair for pair in found.wrong if {row.kind for row in pair} & HARD] == []


def test_words_alone_merge_as_surely_and_find_less() -> None:
    found = figures("final", None)
    assert found.precision >= 0.98, found
    assert found.recall >= 0.5, found.recall
