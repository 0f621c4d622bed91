"""Which of many texts say the same: equal ones first, then by words, then by meaning or by what an arbiter says; facts have the
last word.

Nothing is removed here: each text gets the smallest place of its group, and pairs that a person should see are listed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent_fleet.aggregate.arbitration import Arbiter, Arbitration, Docket, Pair, Ruling
from agent_fleet.aggregate.candidates import by_vectors, by_words
from agent_fleet.aggregate.contest import WHY, contested
from agent_fleet.aggregate.contradiction import certain, suspicion
from agent_fleet.aggregate.facts import FactReader, Facts, doubt, overlap, veto
from agent_fleet.aggregate.grouping import groups
from agent_fleet.aggregate.likeness import Bounds, Judge, Likeness
from agent_fleet.aggregate.wording import plain
from agent_fleet.protocols import Embedder

# Beyond this many characters only equal texts are the same: facts of a whole document say little about it, and cost much.
LONGEST = 4000
MOST_ASKED = 200


@dataclass(frozen=True, slots=True)
class Sample:
    """A text to compare: `key` names it and decides ties; `fields` must be equal wherever both texts have one of that name."""

    key: str
    text: str
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Grouping:
    """For each sample the place of its group's first, how it came there, and the pairs to ask about: `asked` of them in all;
    and what an arbiter said of pairs, if there was one.
    """

    first: tuple[int, ...]
    link: tuple[Likeness | None, ...]
    ask: tuple[tuple[int, int, Likeness], ...]
    asked: int
    rulings: tuple[Ruling | None, ...] = ()


@dataclass
class _Distinct:
    """The different texts among the samples, in an order that depends on nothing but themselves."""

    members: list[list[int]] = field(default_factory=list)
    facts: list[Facts | None] = field(default_factory=list)
    flat: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)


EQUAL = Likeness(1.0, "equal", "same")


def digest(text: str, fields: Iterable[tuple[str, str]] = ()) -> bytes:
    """The same for texts that differ in markup and spacing alone."""
    whole = "\x00".join([plain(text), *(f"{name}\x01{value}" for name, value in sorted(fields))])
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def group(
    samples: Sequence[Sample], bounds: Bounds | None, embedder: Embedder | None = None, arbiter: Arbiter | None = None
) -> Grouping:
    """Group the samples, without bounds the equal ones alone; an arbiter is asked about pairs that are alike and not joined.

    The groups do not depend on the order of the samples.
    """
    distinct = _distinct(samples)
    judged = {} if bounds is None else _judged(distinct, Judge(bounds, embedder), bounds, embedder)
    kinds = _Kinds(distinct.facts)
    facts = {place: each for place, each in enumerate(distinct.facts) if each is not None}
    for pair in contested(judged, facts, lambda one, two: kinds.apart(kinds.of(one), kinds.of(two))):
        judged[pair] = replace(judged[pair], verdict="ask", why=WHY)
    same = [(each.score, one, two) for (one, two), each in judged.items() if each.verdict == "same"]
    roots = groups(len(distinct.members), same, kinds.of, kinds.apart)
    if arbiter is None:
        return _unfold(samples, distinct, roots, judged)
    docket = _docket(judged, roots, kinds)
    arbitration = Arbitration(
        docket, lambda pairs: arbiter.rule([(distinct.shown[one], distinct.shown[two]) for one, two in pairs])
    )
    roots = arbitration.settle()
    for pair, ruling in arbitration.rulings.items():
        if ruling == "same":
            found = judged.get(pair) or Likeness(overlap(facts[pair[0]].stems, facts[pair[1]].stems), "", "ask")
            judged[pair] = replace(found, by="judged", verdict="same", why="")
    rulings = tuple(arbitration.rulings[pair] for pair in sorted(arbitration.rulings))
    return replace(_unfold(samples, distinct, roots, judged, arbitration), rulings=rulings)


def _docket(judged: dict[Pair, Likeness], roots: Sequence[int], kinds: _Kinds) -> Docket:
    """What is open between groups, by kinds."""
    found: dict[Pair, Likeness] = {}
    for (one, two), each in judged.items():
        pair = (min(kinds.of(one), kinds.of(two)), max(kinds.of(one), kinds.of(two)))
        if roots[pair[0]] != roots[pair[1]] and (pair not in found or each.score > found[pair].score):
            found[pair] = each
    members: dict[int, set[int]] = {}
    for place, root in enumerate(roots):
        members.setdefault(root, set()).add(kinds.of(place))
    return Docket(
        found, roots, {root: frozenset(each) for root, each in members.items()}, kinds.vetoed, kinds.suspected
    )


def _distinct(samples: Sequence[Sample]) -> _Distinct:
    by_digest: dict[bytes, list[int]] = {}
    for place, sample in enumerate(samples):
        by_digest.setdefault(digest(sample.text, sample.fields), []).append(place)
    found, reader = _Distinct(), FactReader()
    for _, places in sorted(by_digest.items()):
        members = sorted(places, key=lambda place: samples[place].key)
        first = samples[members[0]]
        found.members.append(members)
        found.shown.append(first.text)
        found.flat.append(plain(first.text).lower() if len(first.text) <= LONGEST else "")
        found.facts.append(reader.read(first.text, first.fields) if len(first.text) <= LONGEST else None)
    return found


def _judged(
    distinct: _Distinct, judge: Judge, bounds: Bounds, embedder: Embedder | None
) -> dict[tuple[int, int], Likeness]:
    facts = {place: each for place, each in enumerate(distinct.facts) if each is not None and each.stems}
    comparable = list(facts)
    cosines: dict[tuple[int, int], float | None] = {}
    for one, two in by_words([each.stems for each in facts.values()], bounds.ask_words):
        cosines[comparable[one], comparable[two]] = None
    if embedder is not None and comparable:
        vectors = embedder.embed([distinct.flat[place] for place in comparable])
        row = {place: each for each, place in enumerate(comparable)}
        for one, two, cosine in by_vectors(vectors, bounds.near):
            cosines[comparable[one], comparable[two]] = cosine
        for (first, second), known in cosines.items():
            if known is None:
                cosines[first, second] = float(vectors[row[first]] @ vectors[row[second]])
    judge.learn(facts[place] for place in sorted({place for pair in cosines for place in pair}))
    judged = {pair: judge.judge(facts[pair[0]], facts[pair[1]], cosines[pair]) for pair in sorted(cosines)}
    return {pair: each for pair, each in judged.items() if each.verdict != "apart"}


class _Kinds:
    """Places with equal facts are one kind; what stands between two kinds is worked out once a pair."""

    def __init__(self, facts: Sequence[Facts | None]) -> None:
        self._facts = facts
        numbers: dict[Facts | int, int] = {}
        self._kind = [
            numbers.setdefault(each if each is not None else place, place) for place, each in enumerate(facts)
        ]
        self.vetoed = self._between(certain, unread=True)
        self.suspected = self._between(suspicion, unread=False)
        self._doubtful = self._between(lambda mine, other: veto(mine, other) or doubt(mine, other), unread=False)

    def of(self, place: int) -> int:
        """The kind of a place, which is the first place of that kind."""
        return self._kind[place]

    def apart(self, one: int, two: int) -> bool:
        """Whether two kinds are not joined while nobody was asked."""
        return self.vetoed(one, two) or self._doubtful(one, two)

    def _between(self, found: Callable[[Facts, Facts], str], *, unread: bool) -> Callable[[int, int], bool]:
        known: dict[Pair, bool] = {}

        def holds(one: int, two: int) -> bool:
            pair = (min(one, two), max(one, two))
            if pair not in known:
                mine, other = self._facts[one], self._facts[two]
                known[pair] = one != two and (unread if mine is None or other is None else bool(found(mine, other)))
            return known[pair]

        return holds


def _unfold(
    samples: Sequence[Sample],
    distinct: _Distinct,
    roots: Sequence[int],
    judged: dict[tuple[int, int], Likeness],
    arbitration: Arbitration | None = None,
) -> Grouping:
    """Groups of texts to groups of samples: the first of a group is the sample with the smallest key."""
    gathered: dict[int, list[int]] = {}
    for place, root in enumerate(roots):
        gathered.setdefault(root, []).extend(distinct.members[place])
    of = {sample: place for place, members in enumerate(distinct.members) for sample in members}
    best: dict[int, Likeness] = {}
    for (one, two), likeness in judged.items():
        if roots[one] == roots[two] and likeness.verdict == "same":
            for place in (one, two):
                if place not in best or likeness.score > best[place].score:
                    best[place] = likeness
    first, link = [0] * len(samples), [None] * len(samples)  # type: list[int], list[Likeness | None]
    for members in gathered.values():
        head = min(members, key=lambda place: samples[place].key)
        for member in members:
            first[member] = head
            if member != head:
                link[member] = EQUAL if of[member] == of[head] else best.get(of[member], EQUAL)
    asked = _asked(roots, judged, [members[0] for members in distinct.members], arbitration)
    return Grouping(tuple(first), tuple(link), tuple(asked[:MOST_ASKED]), len(asked))


def _asked(
    roots: Sequence[int],
    judged: dict[tuple[int, int], Likeness],
    head: Sequence[int],
    arbitration: Arbitration | None,
) -> list[tuple[int, int, Likeness]]:
    """The strongest pair between each two groups that a person should see, strongest first."""
    strongest: dict[tuple[int, int], tuple[int, int, Likeness]] = {}
    for (one, two), likeness in judged.items():
        between = tuple(sorted((roots[one], roots[two])))
        key = (between[0], between[1])
        is_shown = likeness.verdict != "faint" or (arbitration is not None and arbitration.is_unsure(*key))
        if is_shown and key[0] != key[1] and (key not in strongest or likeness.score > strongest[key][2].score):
            first, second = sorted((head[one], head[two]))
            strongest[key] = (first, second, likeness)
    shown = [pair for between, pair in strongest.items() if not arbitration or not arbitration.is_apart(*between)]
    return sorted(shown, key=lambda pair: (-pair[2].score, pair[0], pair[1]))
