"""The middle band put to somebody who can read: which pairs are asked, and which texts are one by what was said. Pure.

Nobody is asked about what a fact forbids or what follows from what is known, and no two groups are joined of which a fact, or an
answer, keeps any two members apart. One answer alone joins single texts; where more pairs of two groups are alike a second
one has to say the same, because a wrong join of two groups is wrong for each of their pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from agent_fleet.aggregate.grouping import MOST_KINDS
from agent_fleet.aggregate.likeness import Likeness

Pair = tuple[int, int]
Ruling = Literal["same", "different", "unsure"]

LIKELY = 0.25  # from this strength on an answer is likely to settle other pairs as well
AT_ONCE = 5  # pairs of one group in a round, below that
ROUND = 20  # pairs that are asked about together in any case
STEP = 4.0  # how much stronger the strongest pair of a round is than the weakest, at most
ENOUGH = 2  # answers that join two groups, where so many of their pairs are alike
TRIES = 2  # pairs of two groups of which nothing valid was said, until they are left to a person


class Arbiter(Protocol):
    """Who is asked whether two texts say the same."""

    @property
    def name(self) -> str:
        """Who that is, for the report."""
        ...

    @property
    def why(self) -> str:
        """Why pairs were not asked about, in words; empty if none was left out."""
        ...

    def rule(self, pairs: Sequence[tuple[str, str]]) -> Sequence[Ruling | None]:
        """What is said of each pair, the strongest pair first; `unsure` without a valid answer, None if it was not asked."""
        ...


class Docket(NamedTuple):
    """What is known before anybody is asked. `found` are the pairs that may be the same, by places of their kinds, `roots` the
    group of each place, `kinds` the kinds of each group; `vetoed` says that two kinds are never one, `doubtful` that a look
    is needed before they are.
    """

    found: Mapping[Pair, Likeness]
    roots: Sequence[int]
    kinds: Mapping[int, frozenset[int]]
    vetoed: Callable[[int, int], bool]
    doubtful: Callable[[int, int], bool]


class Arbitration:
    """Asks round by round, in which each group takes part once, and joins what was agreed on."""

    def __init__(self, docket: Docket, ask: Callable[[Sequence[Pair]], Sequence[Ruling | None]]) -> None:
        self.rulings: dict[Pair, Ruling | None] = {}
        self._docket = docket
        self._ask = ask
        self._pairs = sorted(docket.found, key=lambda pair: (-strength(docket.found[pair]), pair))
        self._group = {root: root for root in docket.roots}
        self._roots = {root: [root] for root in self._group}
        self._kinds = dict(docket.kinds)

    def settle(self) -> list[int]:
        """Ask until nothing is left to ask; for each place the group that it is in then.

        Where a whole round brings nothing, nobody is there to answer but a record, and the rest is looked up at once.
        """
        self._join()
        all_at_once = False
        while wanted := self._wanted(all_at_once):
            said = self._ask(wanted)
            self.rulings.update(zip(wanted, said, strict=True))
            all_at_once = not any(said)
            self._join()
        return [self._group[root] for root in self._docket.roots]

    def is_apart(self, one: int, two: int) -> bool:
        """Whether something was said by which two groups are different."""
        return any(self.rulings.get(pair) == "different" for pair in self._across(one, two))

    def is_unsure(self, one: int, two: int) -> bool:
        """Whether somebody who was asked about two groups could not tell."""
        return any(self.rulings.get(pair) == "unsure" for pair in self._across(one, two))

    def _join(self) -> None:
        moved = {-1}
        while moved:
            moved = set()
            for (one, two), pairs in self._between().items():
                if one not in moved and two not in moved and self._standing(one, two, pairs) is None:
                    self._merge(one, two)
                    moved |= {one, two}

    def _wanted(self, all_at_once: bool) -> list[Pair]:
        """What is asked next: of the strongest pairs, so that a limit is spent on these, and weak ones may follow by then."""
        busy: Counter[int] = Counter()
        found: list[Pair] = []
        least = 0.0
        for (one, two), pairs in self._between().items():
            weight = strength(self._docket.found[pairs[0]])
            is_later = (weight < least and len(found) >= ROUND) or max(busy[one], busy[two]) >= _often(weight)
            if is_later and not all_at_once:
                continue
            wanted = self._standing(one, two, pairs)
            if wanted:
                busy.update((one, two))
                found += wanted
                least = max(least, weight / STEP)
        return found

    def _standing(self, one: int, two: int, pairs: Sequence[Pair]) -> list[Pair] | None:
        """What is to be asked of two groups before they are joined; None if they can be, empty if they are not."""
        across = self._across(one, two)
        if len(self._kinds[one]) + len(self._kinds[two]) > MOST_KINDS:
            return []
        if any(self.rulings.get(pair) == "different" or self._docket.vetoed(*pair) for pair in across):
            return []
        said = [self.rulings[pair] for pair in pairs if pair in self.rulings]
        is_open = None not in said and said.count("unsure") < TRIES
        following = [pair for pair in pairs if pair not in self.rulings][:1] if is_open else []
        agreed = sum(self.rulings.get(pair) == "same" for pair in across)
        if not agreed:
            return following
        doubts = [pair for pair in across if self.rulings.get(pair) != "same" and self._docket.doubtful(*pair)]
        if doubts:
            return [] if any(pair in self.rulings for pair in doubts) else doubts
        return None if agreed >= min(ENOUGH, len(pairs)) else following

    def _between(self) -> dict[Pair, list[Pair]]:
        """The pairs of each two groups; both in the order of their strength."""
        found: dict[Pair, list[Pair]] = {}
        roots, group = self._docket.roots, self._group
        for pair in self._pairs:
            one, two = group[roots[pair[0]]], group[roots[pair[1]]]
            if one != two:
                found.setdefault((min(one, two), max(one, two)), []).append(pair)
        return found

    def _across(self, one: int, two: int) -> list[Pair]:
        return [(min(a, b), max(a, b)) for a in sorted(self._kinds[one]) for b in sorted(self._kinds[two])]

    def _merge(self, one: int, two: int) -> None:
        self._kinds[one] |= self._kinds.pop(two)
        moved = self._roots.pop(two)
        self._roots[one] += moved
        self._group.update(dict.fromkeys(moved, one))


def _often(weight: float) -> int:
    """In how many pairs of a round a group takes part: one where its answer may settle others, more where it hardly will."""
    return 1 if weight >= LIKELY else AT_ONCE


def strength(found: Likeness) -> float:
    """What is asked first: what is most probably the same, as far as anybody can tell without reading it."""
    return found.score if found.likely is None else found.likely
