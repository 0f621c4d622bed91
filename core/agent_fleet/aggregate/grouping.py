"""Pairs to groups: the strongest first, and none across a veto. Pure; the same pairs give the same groups in any order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

MOST_KINDS = 24


def groups(
    count: int, pairs: Iterable[tuple[float, int, int]], kind: Callable[[int], K], apart: Callable[[K, K], bool]
) -> list[int]:
    """For each place the smallest place of its group.

    Two groups are joined by their strongest pair unless a kind of the one must stay apart from a kind of the other. A group
    with more than `MOST_KINDS` kinds is joined no further, so that one crowd cannot cost the square of its size.
    """
    root = list(range(count))
    kinds: dict[int, frozenset[K]] = {}

    def find(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    for _, one, two in sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2])):
        first, second = sorted((find(one), find(two)))
        if first == second:
            continue
        mine = kinds.get(first) or frozenset((kind(first),))
        other = kinds.get(second) or frozenset((kind(second),))
        if len(mine | other) > MOST_KINDS or any(apart(here, there) for here in mine for there in other):
            continue
        root[second] = first
        kinds[first] = mine | other
        kinds.pop(second, None)
    return [find(place) for place in range(count)]
