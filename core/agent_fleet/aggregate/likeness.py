"""How alike two texts are: by their words, and by vectors where there are some; and what that allows. Pure.

The bounds below were set on the tuning part of tests/data alone, with folds by family; the final part only judges them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agent_fleet.aggregate.contradiction import certain
from agent_fleet.aggregate.facts import Facts, doubt, overlap, veto
from agent_fleet.aggregate.wording import stem
from agent_fleet.protocols import Embedder

if TYPE_CHECKING:
    import numpy

Verdict = Literal["same", "ask", "faint", "apart"]
MATCH = 0.45


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """From where on two texts are the same, and from where on a person is asked.

    Texts that say the same word for word, but for articles and marks, are the same. `score` is the calibrated probability that two
    texts say the same in other words, and decides alone where it is known; None only asks. Of the text that has fewer of them, at
    most `unmatched` words may then find none of like meaning in the other; None sets no limit. A person is asked from the share of
    common stems `ask_words` on, the cosine of the raw vectors `ask_cosine`, or the probability `ask_score`.
    Pairs below the cosine `near` are not looked at for their meaning. With `appeal` what is only suspected to contradict is not
    kept apart at once, because somebody is there who can be asked.
    """

    score: float | None = None
    unmatched: int | None = None
    ask_words: float = 0.45
    ask_cosine: float = 0.95
    ask_score: float = 0.4
    near: float = 0.6
    appeal: bool = False


# tests/data/README.md has what each finds, and how surely, on texts that nothing was set by. A word that finds none in the other
# text may be what makes the two opposites, in a form that no list of words knows; only the second joins such texts.
BY_MEANING = Bounds(score=0.6, unmatched=0, ask_score=0.3)
LOOSELY = Bounds(score=0.6, ask_score=0.3)
# For an arbiter, to whom a question costs little: 19 of 20 true pairs of freely worded texts that no bound was set by before.
JUDGED = Bounds(ask_words=0.16, ask_score=0.005, near=0.35, appeal=True)


def compared(bounds: Bounds | None, embedder: Embedder | None, arbiter: str = "") -> str:
    """By what texts are joined under these bounds, by which vectors, and by whose judgement, in words."""
    if bounds is None:
        return "equal texts alone"
    vectors = f"vectors of {embedder.name} {embedder.version}".rstrip() if embedder is not None else ""
    if arbiter:
        return f"words; judged by {arbiter}" + (f"; {vectors} show what may be the same" if vectors else "")
    if vectors and bounds.score is not None:
        return f"{'meaning' if bounds.unmatched is not None else 'meaning, loosely'}; {vectors}"
    return f"words; {vectors} show what else may be the same" if vectors else "words"


@dataclass(frozen=True, slots=True)
class Likeness:
    """What was found of a pair: how alike, by which measure, what follows, and why if a fact or a doubt decided.

    A `faint` one is a question for an arbiter alone: too little alike for a person's time, or suspected to contradict.
    `likely` is the calibrated probability; None where there are no vectors, or no calibration.
    """

    score: float
    by: str
    verdict: Verdict
    why: str = ""
    likely: float | None = None


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
        bounds = self._bounds
        against = veto(mine, other)  # first, because it is cheap and decides most pairs
        if against and (not bounds.appeal or certain(mine, other)):
            return Likeness(0.0, "words", "apart", against)
        likely, unmatched = (None, 0) if cosine is None else self._probability(mine, other, cosine)
        found = [("words", overlap(mine.stems, other.stems), bounds.ask_words)]
        if cosine is not None:
            found.append(("cosine", cosine, bounds.ask_cosine))
        if likely is not None and bounds.score is not None:
            explained = bounds.unmatched is None or unmatched <= bounds.unmatched
            reached = [(likely, "score")] if likely >= bounds.score and explained else []
        else:
            reached = [(1.0, "words")] if mine.wording == other.wording else []
        asking = [(score, by) for by, score, ask in found if score >= ask]
        if likely is not None and likely >= bounds.ask_score:
            asking.append((likely, "score"))
        if not reached and not asking:
            return Likeness(0.0, "words", "apart")
        score, by = max(reached or asking)
        unsure = against or doubt(mine, other)
        if against or (bounds.appeal and not _is_shown(found, likely)):
            return Likeness(score, by, "faint", unsure, likely)
        return Likeness(score, by, "ask" if unsure or not reached else "same", unsure, likely)

    def _probability(self, mine: Facts, other: Facts, cosine: float) -> tuple[float | None, int]:
        """How likely both say the same, and how many words of the text with fewer such find none in the other."""
        if self._embedder is None or self._embedder.calibration is None or not mine.meaning or not other.meaning:
            return None, 0
        on_cosine, on_matched, on_unmatched, constant = self._embedder.calibration
        matched, unmatched = matches(mine.meaning, other.meaning, self._words.__getitem__)
        logit = on_cosine * cosine + on_matched * matched + on_unmatched * unmatched + constant
        return 1 / (1 + math.exp(-logit)), unmatched


def _is_shown(found: Sequence[tuple[str, float, float]], likely: float | None) -> bool:
    """Whether a person is asked about the pair where nobody else is."""
    least = Bounds()
    bounds = {"words": least.ask_words, "cosine": least.ask_cosine}
    return any(score >= bounds[by] for by, score, _ in found) or (likely or 0.0) >= least.ask_score


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
