"""An arbiter over the middle band: what it is asked, what follows, and that nothing it says joins what must stay apart."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.aggregate.arbitration import ROUND, Arbitration, Docket, Pair, Ruling
from agent_fleet.aggregate.contradiction import certain
from agent_fleet.aggregate.duplicates import Sample, group
from agent_fleet.aggregate.facts import FactReader, veto
from agent_fleet.aggregate.grouping import MOST_KINDS
from agent_fleet.aggregate.likeness import JUDGED, Bounds, Likeness
from agent_fleet.protocols import Embedder
from agent_fleet_embedders.wordllama import WordLlama
from support.labelled import Labelled, labelled

Said = Mapping[Pair, Ruling | None]


class Court:
    """An arbitration over so many texts, of which only what is told is alike, and of what was asked in it."""

    def __init__(
        self,
        alike: Sequence[Pair],
        said: Said,
        *,
        vetoed: Collection[Pair] = (),
        doubtful: Collection[Pair] = (),
        one: Collection[Collection[int]] = (),
    ) -> None:
        self.asked: list[Pair] = []
        self.rounds = 0
        roots = list(range(1 + max(itertools.chain(*alike, *one))))
        for members in one:
            for member in members:
                roots[member] = min(members)
        kinds = {root: frozenset(place for place in range(len(roots)) if roots[place] == root) for root in set(roots)}
        found = {pair: Likeness(0.9 - 0.001 * place, "words", "ask") for place, pair in enumerate(alike)}
        docket = Docket(found, roots, kinds, lambda *pair: pair in vetoed, lambda *pair: pair in doubtful)

        def ask(pairs: Sequence[Pair]) -> list[Ruling | None]:
            self.rounds += 1
            self.asked += pairs
            return [said.get(pair, "different") for pair in pairs]

        self.arbitration = Arbitration(docket, ask)
        self.groups = self.arbitration.settle()


ALL = [(0, 1), (0, 2), (1, 2)]


def agreed(pairs: Collection[Pair]) -> dict[Pair, Ruling | None]:
    return dict.fromkeys(pairs, "same")


def test_what_follows_is_not_asked() -> None:
    court = Court(ALL, agreed(ALL), one=[(0, 1)])
    assert court.groups == [0, 0, 0]
    court = Court(ALL, {})
    assert sorted(court.asked) == ALL, "nothing follows from three that are different"
    court = Court([(0, 1), (0, 2), (1, 2), (0, 3), (1, 3)], {(0, 1): "same"})
    assert court.groups == [0, 0, 2, 3]
    assert sorted(court.asked) == [(0, 1), (0, 2), (0, 3)], "one word keeps a text from a whole group"


def test_two_groups_are_joined_by_two_answers_where_more_of_their_pairs_are_alike() -> None:
    across = [(0, 2), (1, 3), (0, 3)]
    twice = Court(across, agreed(across), one=[(0, 1), (2, 3)])
    assert twice.groups == [0, 0, 0, 0]
    assert twice.asked == across[:2]
    torn = Court(across, {(0, 2): "same", (1, 3): "different", (0, 3): "same"}, one=[(0, 1), (2, 3)])
    assert torn.groups == [0, 0, 2, 2]
    assert torn.arbitration.is_apart(0, 2)
    single = Court([(0, 2)], {(0, 2): "same"}, one=[(0, 1), (2, 3)])
    assert single.groups == [0, 0, 0, 0], "there is nothing else to ask"


def test_a_veto_is_stronger_than_any_answer_and_costs_no_question() -> None:
    said = agreed(ALL)
    court = Court([(0, 1), (0, 2)], said, vetoed=[(0, 1)])
    assert court.groups == [0, 1, 0]
    assert court.asked == [(0, 2)]
    court = Court([(0, 2), (1, 2)], said, vetoed=[(0, 1)])
    assert court.groups[0] != court.groups[1], "nor does a text between the two join them"


def test_a_doubt_is_asked_before_what_it_is_about_is_joined() -> None:
    said = agreed([(0, 2), (1, 2)])
    answers: list[tuple[Ruling | None, list[int]]] = [("same", [0, 0, 0])]
    answers += [("different", [0, 0, 2]), ("unsure", [0, 0, 2]), (None, [0, 0, 2])]
    for answer, groups in answers:
        court = Court([(0, 2)], {**said, (1, 2): answer}, doubtful=[(1, 2)], one=[(0, 1)])
        assert court.groups == groups
        assert court.asked == [(0, 2), (1, 2)]


@pytest.mark.parametrize(("answer", "asked"), [("unsure", 2), (None, 1)])
def test_without_an_answer_two_groups_stay_as_they_are_for_a_person(answer: Ruling | None, asked: int) -> None:
    across = list(itertools.product((0, 1), (2, 3)))
    court = Court(across, dict.fromkeys(across, answer), one=[(0, 1), (2, 3)])
    assert court.groups == [0, 0, 2, 2]
    assert len(court.asked) == asked, "once more where something was said that is no answer"
    assert not court.arbitration.is_apart(0, 2)


def test_a_crowd_is_joined_up_to_its_limit() -> None:
    alike = list(itertools.combinations(range(MOST_KINDS + 4), 2))
    court = Court(alike, agreed(alike))
    assert max(court.groups.count(each) for each in set(court.groups)) <= MOST_KINDS
    assert court.rounds < 40
    assert len(court.asked) < len(alike) / 3


class Hashing:
    """An arbiter that says of two texts always the same, whatever that is, and remembers that."""

    name = "by hash"
    why = ""

    def __init__(self, salt: int) -> None:
        self.salt = salt
        self.said: dict[frozenset[str], Ruling | None] = {}

    def rule(self, pairs: Sequence[tuple[str, str]]) -> list[Ruling | None]:
        return [self._of(frozenset(pair)) for pair in pairs]

    def _of(self, pair: frozenset[str]) -> Ruling | None:
        value = hashlib.sha256(f"{self.salt} {sorted(pair)}".encode()).digest()[0]
        words: list[Ruling | None] = ["same", "same", "same", "different", "unsure", None]
        return self.said.setdefault(pair, words[value % len(words)])


ROWS = labelled("tuning")[:90]


@pytest.fixture(scope="module")
def embedder() -> WordLlama:
    return WordLlama()


@given(
    rows=st.lists(st.sampled_from(ROWS), max_size=30),
    chance=st.randoms(),
    salt=st.integers(0, 99),
    vectors=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_said_groups_do_not_depend_on_the_order_and_no_fact_or_answer_is_passed_over(
    embedder: WordLlama, rows: list[Labelled], chance: random.Random, salt: int, vectors: bool
) -> None:
    samples = [Sample(f"{place:03}", row.text) for place, row in enumerate(rows)]
    shuffled = samples[:]
    chance.shuffle(shuffled)
    model: Embedder | None = embedder if vectors else None
    arbiter, second = Hashing(salt), Hashing(salt)
    found, again = group(samples, JUDGED, model, arbiter), group(shuffled, JUDGED, model, second)
    assert second.said == arbiter.said
    assert sorted(map(str, found.rulings)) == sorted(map(str, again.rulings))
    named = {sample.key: samples[found.first[place]].key for place, sample in enumerate(samples)}
    assert named == {sample.key: shuffled[again.first[place]].key for place, sample in enumerate(shuffled)}
    reader = FactReader()
    facts = [reader.read(sample.text) for sample in samples]
    for one, two in itertools.combinations(range(len(samples)), 2):
        if found.first[one] == found.first[two]:
            assert facts[one] == facts[two] or not certain(facts[one], facts[two])
            assert arbiter.said.get(frozenset((samples[one].text, samples[two].text))) != "different"
    for one, two, _ in found.ask:
        assert arbiter.said.get(frozenset((samples[one].text, samples[two].text))) != "different"


class Says:
    """An arbiter with one word for everything."""

    name = "one word"
    why = ""

    def __init__(self, word: Ruling | None) -> None:
        self._word = word

    def rule(self, pairs: Sequence[tuple[str, str]]) -> list[Ruling | None]:
        return [self._word] * len(pairs)


ONE = "Memory of the importer grows without bound because parsed rows are kept in a list that is never cleared."
TWO = "A list of parsed rows that never gets cleared makes the importer's memory grow without limit."


@pytest.mark.parametrize(
    ("word", "first", "shown"), [("same", 0, 0), ("different", 1, 0), ("unsure", 1, 1), (None, 1, 1)]
)
def test_what_is_said_joins_keeps_apart_or_leaves_it_to_a_person(word: Ruling | None, first: int, shown: int) -> None:
    found = group([Sample("a", ONE), Sample("b", TWO)], JUDGED, None, Says(word))
    assert (found.first, found.asked, found.rulings) == ((0, first), shown, (word,))
    link = found.link[1]
    assert (link.by if link else "") == ("judged" if word == "same" else "")


def test_a_number_that_differs_is_not_even_asked_about() -> None:
    samples = [Sample("a", ONE + " It is 12 GB."), Sample("b", TWO + " It is 13 GB.")]
    found = group(samples, JUDGED, None, Says("same"))
    assert (found.first, found.rulings) == ((0, 1), ())


LEFT = [
    "The nightly job does not delete old rows, so the cache keeps growing.",
    "The cache keeps growing because old rows are left by the nightly job, which should delete them.",
]


@pytest.mark.parametrize(
    ("word", "first", "shown"), [("same", 0, 0), ("different", 1, 0), ("unsure", 1, 1), (None, 1, 0)]
)
def test_what_rules_only_suspect_is_asked_and_shown_to_a_person_if_who_was_asked_cannot_tell(
    word: Ruling | None, first: int, shown: int
) -> None:
    assert veto(*(FactReader().read(text) for text in LEFT))
    samples = [Sample(str(place), text) for place, text in enumerate(LEFT)]
    assert group(samples, Bounds()).first == (0, 1)
    found = group(samples, JUDGED, None, Says(word))
    assert (found.first, found.asked, found.rulings) == ((0, first), shown, (word,))


def settled(
    scores: Sequence[float], ask: Callable[[Sequence[Pair]], list[Ruling | None]], pairs: Sequence[Pair]
) -> None:
    places = range(2 * len(scores))
    found = {pair: Likeness(score, "words", "ask") for pair, score in zip(pairs, scores, strict=True)}
    kinds = {place: frozenset((place,)) for place in places}
    Arbitration(Docket(found, list(places), kinds, lambda *_: False, lambda *_: False), ask).settle()


def test_the_strongest_pairs_are_asked_about_first_and_weak_ones_once_these_are_settled() -> None:
    rounds: list[list[Pair]] = []

    def ask(pairs: Sequence[Pair]) -> list[Ruling | None]:
        rounds.append(list(pairs))
        return ["different"] * len(pairs)

    pairs = [(2 * place, 2 * place + 1) for place in range(3 * ROUND)]
    settled([0.9] * (2 * ROUND) + [0.1] * ROUND, ask, pairs)
    assert rounds == [pairs[: 2 * ROUND], pairs[2 * ROUND :]]


def test_once_nobody_answers_the_rest_is_looked_up_in_one_round() -> None:
    rounds: list[int] = []

    def ask(pairs: Sequence[Pair]) -> list[Ruling | None]:
        rounds.append(len(pairs))
        return [None] * len(pairs)

    pairs = list(itertools.combinations(range(30), 2))
    settled([0.9 - 0.001 * place for place in range(len(pairs))], ask, pairs)
    assert len(rounds) == 2
    assert sum(rounds) == len(pairs)
