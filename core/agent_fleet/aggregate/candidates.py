"""Which pairs are worth a look: found without comparing every text with every other. Pure.

By words: two sets that share `least` of all their words share one of the rarest (1 − least) of either, so only texts with a rare
word in common are compared (prefix filtering; Chaudhuri et al., 2006). By vectors: blocks of one matrix product, the nearest few.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agent_fleet.aggregate.facts import overlap

if TYPE_CHECKING:
    import numpy

CROWD = 64
NEAREST = 16
BLOCK = 1024


def by_words(sets: Sequence[frozenset[str]], least: float) -> Iterator[tuple[int, int]]:
    """Pairs of places, the smaller first, whose sets may share at least that share of their words.

    A word that more than `CROWD` texts have as a rare one brings each of them together with the last `CROWD` before it only.
    """
    often = Counter(word for each in sets for word in each)
    holders: dict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(sets):
        rare = sorted(each, key=lambda word: (often[word], word))[: len(each) - math.ceil(least * len(each)) + 1]
        seen: set[int] = set()
        for word in rare:
            seen.update(holders[word][-CROWD:])
            holders[word].append(place)
        for other in sorted(seen):
            if overlap(sets[other], each) >= least:
                yield other, place


def by_vectors(vectors: numpy.ndarray[Any, Any], least: float) -> Iterator[tuple[int, int, float]]:
    """Pairs of places, the smaller first, with their cosine: of each text the `NEAREST` that reach `least`."""
    import numpy

    count = len(vectors)
    for start in range(0, count, BLOCK):
        table = vectors[start : start + BLOCK] @ vectors.T
        rows = numpy.arange(len(table))
        table[rows, rows + start] = -1.0
        if count > NEAREST:
            columns = numpy.argpartition(-table, NEAREST, axis=1)[:, :NEAREST]
        else:
            columns = numpy.broadcast_to(numpy.arange(count), (len(table), count))
        for row, near in enumerate(columns):
            for column in near[table[row, near] >= least]:
                one, two = sorted((start + row, int(column)))
                yield one, two, float(table[row, column])
