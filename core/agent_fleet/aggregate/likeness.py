"""How alike two texts are: by their words, and by vectors where there are some; and what that allows. Pure.

The bounds below were set on the tuning part of tests/data/duplicates.jsonl alone; the other part only judges them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agent_fleet.aggregate.facts import Facts, doubt, overlap, veto
from agent_fleet.aggregate.wording import stem
from agent_fleet.protocols import Embedder

if TYPE_CHECKING:
    import numpy

Verdict = Literal["same", "ask", "apart"]
MATCH = 0.45


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """From where on two texts are the same, and from where on a person is asked.

    `words` is the share of common stems, `cosine` that of the raw vectors, `score` the calibrated probability.
    Pairs below the cosine `near` are not looked at for their meaning.
    """

    words: float = 0.7
    cosine: float = 0.95
    score: float = 0.75
    ask_words: float = 0.45
    ask_score: float = 0.4
    near: float = 0.6


@dataclass(frozen=True, slots=True)
class Likeness:
    """What was found of a pair: how alike, by which measure, what follows, and why if a fact or a doubt decided."""

    score: float
    by: str
    verdict: Verdict
    why: str = ""


class Judge:
    """Judges pairs of texts by their facts; `vectors` gives the vectors of words, if there are any."""

    def __init__(self, bounds: Bounds, embedder: Embedder | None) -> None:
        self._bounds = bounds
        self._embedder = embedder
        self._words: dict[str, numpy.ndarray[Any, Any]] = {}

    def learn(self, facts: Iterable[Facts]) -> None:
        """Get the vectors of all words of these texts at once."""
        if self._embedder is not None and self._embedder.calibration is not None:
            new = sorted({word for each in facts for word in each.meaning} - self._words.keys())
            self._words.update(zip(new, self._embedder.embed(new), strict=True) if new else ())

    def judge(self, mine: Facts, other: Facts, cosine: float | None) -> Likeness:
        """What follows for this pair; `cosine` is None where there are no vectors."""
        found = [("words", overlap(mine.stems, other.stems), self._bounds.words, self._bounds.ask_words)]
        if cosine is not None:
            found.append(("cosine", cosine, self._bounds.cosine, self._bounds.cosine))
            likely = self._probability(mine, other, cosine)
            if likely is not None:
                found.append(("score", likely, self._bounds.score, self._bounds.ask_score))
        reached = [(score, by) for by, score, bound, _ in found if score >= bound]
        score, by = max(reached or [(score, by) for by, score, _, ask in found if score >= ask] or [(0.0, "words")])
        if not score:
            return Likeness(score, by, "apart")
        against = veto(mine, other)
        if against:
            return Likeness(score, by, "apart", against)
        unsure = doubt(mine, other)
        if unsure or not reached:
            return Likeness(score, by, "ask", unsure)
        return Likeness(score, by, "same")

    def _probability(self, mine: Facts, other: Facts, cosine: float) -> float | None:
        if self._embedder is None or self._embedder.calibration is None or not mine.meaning or not other.meaning:
            return None
        on_cosine, on_matched, on_unmatched, constant = self._embedder.calibration
        matched, unmatched = matches(mine.meaning, other.meaning, self._words.__getitem__)
        return 1 / (1 + math.exp(-(on_cosine * cosine + on_matched * matched + on_unmatched * unmatched + constant)))


def matches(
    mine: Sequence[str], other: Sequence[str], vector: Callable[[str], numpy.ndarray[Any, Any]]
) -> tuple[float, int]:
    """How well the words of the text with fewer matches find one in the other, and how many find none on both sides."""
    import numpy

    table = numpy.stack([vector(word) for word in mine]) @ numpy.stack([vector(word) for word in other]).T
    roots = [stem(word) for word in other]
    for row, word in enumerate(mine):
        root = stem(word)
        for column, each in enumerate(roots):
            if root == each:
                table[row, column] = 1.0
    here, there = table.max(1), table.max(0)
    return float(min(here.mean(), there.mean())), int(min((here < MATCH).sum(), (there < MATCH).sum()))
