"""A text that is near two which contradict each other: it is joined to the one only if it is plainly nearer to that. Pure.

Most words of a statement and of its opposite are the same, so a text near the one is near the other, in forms that no list knows.
But the two themselves differ in little, and that is seen; so the question which of them the third repeats is asked openly.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping

from agent_fleet.aggregate.facts import Facts
from agent_fleet.aggregate.likeness import Likeness

Pair = tuple[int, int]

# Set by the tuning part of tests/data alone, with folds by family: the advantage in logits, and what a whole frame is worth.
ADVANTAGE = 0.4
FRAME = 8.0
_WINDOW = 2
_SURE = 0.995
_PARTNERS = 24
WHY = "one of them is as near to another that contradicts the other"


def contested(
    judged: Mapping[Pair, Likeness], facts: Mapping[int, Facts], apart: Callable[[int, int], bool]
) -> set[Pair]:
    """The pairs joined by their score in which one text is about as near to another that `apart` keeps from its partner."""
    frames = _Frames(facts)
    near: dict[int, list[int]] = defaultdict(list)
    strength = {pair: _strength(found, frames.common(*pair)) for pair, found in judged.items() if found.likely}
    for one, two in strength:
        near[one].append(two)
        near[two].append(one)
    lost = set()
    for text, others in near.items():
        nearest = sorted(others, key=lambda other: (-strength[_pair(text, other)], other))[:_PARTNERS]
        for other in nearest:
            pair = _pair(text, other)
            if judged[pair].verdict == "same" and judged[pair].by == "score":
                side = [each for each in nearest if each == other or _same(judged, each, other)]
                best = max(strength[_pair(text, each)] for each in side)
                rivals = (each for each in nearest if best - strength[_pair(text, each)] < ADVANTAGE)
                if any(each != other and apart(each, other) for each in rivals):
                    lost.add(pair)
    return lost


class _Frames:
    """The pairs of content words that stand close together in each text, made once for each."""

    def __init__(self, facts: Mapping[int, Facts]) -> None:
        self._facts = facts
        self._known: dict[int, frozenset[tuple[str, str]]] = {}

    def common(self, one: int, two: int) -> float:
        """The share of close words of the shorter text that are close in the other too, from 0 to 1."""
        here, there = self._of(one), self._of(two)
        return len(here & there) / max(1, min(len(here), len(there)))

    def _of(self, place: int) -> frozenset[tuple[str, str]]:
        if place not in self._known:
            self._known[place] = frozenset(
                (min(word, after), max(word, after))
                for clause in self._facts[place].clauses
                for start, word in enumerate(clause)
                for after in clause[start + 1 : start + 1 + _WINDOW]
            )
        return self._known[place]


def _strength(found: Likeness, frame: float) -> float:
    likely = min(max(found.likely or 0.0, 1 - _SURE), _SURE)
    return math.log(likely / (1 - likely)) + FRAME * frame


def _same(judged: Mapping[Pair, Likeness], one: int, two: int) -> bool:
    found = judged.get(_pair(one, two))
    return found is not None and found.verdict == "same"


def _pair(one: int, two: int) -> Pair:
    return (one, two) if one < two else (two, one)
