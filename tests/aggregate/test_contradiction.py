"""What two texts contradict each other in beyond doubt, and what rules only suspect; numbers in every form that people write."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.aggregate.contradiction import certain, frame_of, suspicion
from agent_fleet.aggregate.facts import FactReader, Facts, doubt, overlap, veto
from agent_fleet.aggregate.numerals import digits
from agent_fleet.aggregate.quantities import UNITS
from support.labelled import FREE, HARD, Labelled, freely, labelled

READER = FactReader()

CERTAIN = [
    ("Fixed issue 1234 in the importer", "Fixed issue 1235 in the importer"),
    ("The upload stops after 5 seconds", "The upload stops after 5 minutes"),
    ("The upload stops after half a minute", "The upload stops after 40 s"),
    ("Upgrade the client to 1.2.3 soon", "Upgrade the client to 1.2.4 soon"),
    ("The licence is valid until 2027-01-02", "The licence is valid until 2 February 2027"),
    ("Three of the 8 tests are slow", "Five of the 8 tests are slow"),
    ("Twenty-three accounts have no owner", "Twenty-four accounts have no owner"),
    ("The slow query is in src/a/main.py", "The slow query is in src/b/main.py"),
    ("Call `open_file` before the loop", "Call `close_file` before the loop"),
    ("The table `orders` has no index", "The table `invoices` has no index"),
    ("Migrate the data from postgres to sqlite", "Migrate the data from sqlite to postgres"),
    ("All the tests of the parser pass", "All the tests of the parser fail"),
]

SUSPECTED = [
    ("The defendant did not want a jury trial", "A jury trial was waived by the defendant"),
    ("Cheap cables break early, expensive ones late", "Of all cables the expensive ones last, not the cheap ones"),
    ("Postgres drops the index of the old table", "PostgreSQL drops the index of the old table"),
    (
        "The delete path is not safe against power loss; the write path is",
        "Safe against power loss: write path yes, delete path no",
    ),
]

NEITHER = [
    ("The upload stops after half a minute", "The upload stops after 30 s"),
    ("Twenty-three accounts have no owner", "23 accounts have no owner"),
    ("The index has 3.2 million rows", "The index has 3,200,000 rows"),
    ("Keys live for a fortnight", "Keys live for 14 days"),
    ("The grant ends on 15 Sept", "The grant ends on 15 September"),
    ("One in five uploads fails", "20 % of the uploads fail"),
    ("Three quarters of the uploads fail", "3 of 4 uploads fail"),
    ("Every tenth upload fails", "10 % of the uploads fail"),
    ("Logs are kept for 12 months", "Logs are kept for one year"),
    ("Writes lose 4 % by encryption", "Writes: -4 % by encryption"),
    ("The worker crashed at 03:12", "The worker crashed at 3:12"),
    ("Users in Madrid wait", "Madrid's users wait"),
]


def read(pair: tuple[str, str]) -> tuple[str, str]:
    one, two = (READER.read(each) for each in pair)
    assert certain(one, two) == certain(two, one)
    assert bool(suspicion(one, two)) == bool(suspicion(two, one))
    assert certain(one, READER.read(pair[0])) == ""
    return certain(one, two), veto(one, two) or doubt(one, two)


@pytest.mark.parametrize("pair", CERTAIN)
def test_a_value_that_differs_in_the_same_sentence_is_beyond_appeal(pair: tuple[str, str]) -> None:
    assert read(pair)[0]


@pytest.mark.parametrize("pair", SUSPECTED)
def test_what_rules_only_suspect_keeps_texts_apart_but_can_be_asked(pair: tuple[str, str]) -> None:
    sure, suspected = read(pair)
    assert (sure, bool(suspected)) == ("", True)


@pytest.mark.parametrize("pair", NEITHER)
def test_one_value_in_two_forms_is_no_contradiction(pair: tuple[str, str]) -> None:
    assert read(pair)[0] == ""


def test_a_number_that_the_other_text_may_have_reckoned_is_not_beyond_appeal_in_another_sentence() -> None:
    pair = ("The loop runs 37 of the 40 seeds to the end", "Of all 40 seeds 3 do not reach the end of the loop")
    assert read(pair)[0] == ""
    pair = (
        "The build takes 8 minutes, 3 minutes of which are tests",
        "Of 8 minutes of compiling tests account for 5 minutes",
    )
    assert read(pair)[0] == "", "the rest"
    pair = (
        "The build takes 8 minutes, 3 minutes of which are tests",
        "Of 8 minutes of compiling tests account for 7 minutes",
    )
    assert read(pair)[0], "nothing comes to that"


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("three hundred and forty files", "340 files"),
        ("10k rows", "10000 rows"),
        ("EUR 14m lost", "EUR 14000000 lost"),
        ("half a dozen users", "6 users"),
        ("two dozen users", "24 users"),
        ("an hour and a half", "1.5 hour"),
        ("three-quarters of an hour", "0.75 hour"),
        ("one two three", "one two three"),
        ("a third of all", "a third of all"),
        ("two users", "two users"),
    ],
)
def test_numbers_in_words_are_read_as_digits(told: str, found: str) -> None:
    assert digits(told, frozenset(UNITS)) == found


PIECES = st.sampled_from(
    [
        *"0 1 0th 1/0 9999999999999999999999 ٣ ½ every each in of a an half third and hundred thousand million k M m".split(),
        *"% - . , : / ` -x $ € months years s twenty-".split(),
        "9" * 400,
        "out of",
    ]
)


@given(one=st.lists(PIECES, max_size=14), two=st.lists(PIECES, max_size=14))
@settings(max_examples=150, deadline=None)
def test_no_text_is_too_odd_to_be_read(one: list[str], two: list[str]) -> None:
    read((" ".join(one) + " of the same thing", " ".join(two) + " of the same thing"))


def test_on_the_tuning_part_what_is_certain_costs_no_true_pair_and_finds_nearly_all_numbers_paths_and_names_of_code() -> (
    None
):
    rows = [row for row in labelled("tuning") if row.kind in HARD | {"base", "near", "paraphrase", "path", "code"}]
    facts = {row.text: READER.read(row.text) for row in rows}
    families: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        families.setdefault(row.family, []).append(place)
    kinds = {row.cluster: row.kind for row in reversed(rows)}
    true, hit, found = 0, 0, {"number": [0, 0], "path": [0, 0], "code": [0, 0]}
    for members in families.values():
        for one, two in ((rows[a], rows[b]) for a in members for b in members if a < b):
            sure = bool(certain(facts[one.text], facts[two.text]))
            if one.cluster == two.cluster:
                true, hit = true + 1, hit + sure
            elif one.kind == "base" and kinds[two.cluster] in found and two.kind == kinds[two.cluster]:
                found[two.kind][0] += 1
                found[two.kind][1] += sure
    assert true > 1000
    assert hit <= 0.01 * true
    assert all(hits >= 0.8 * pairs for pairs, hits in found.values()), found


def test_of_freely_worded_texts_what_is_certain_takes_hardly_a_true_pair_and_most_numbers_in_one_sentence() -> None:
    true = hit = numbers = found = 0
    for rows in map(freely, FREE):
        families: dict[str, list[tuple[Labelled, Facts]]] = {}
        for row in rows:
            families.setdefault(row.family, [])
        drawn = set(random.Random(20).sample(sorted(families), 120))
        for row in rows:
            if row.family in drawn:
                families[row.family].append((row, READER.read(row.text)))
        for (one, mine), (two, other) in (pair for each in families.values() for pair in combinations(each, 2)):
            sure = bool(certain(mine, other))
            if one.cluster == two.cluster:
                true, hit = true + 1, hit + sure
            elif (one.kind, two.kind) == ("base", "number") and overlap(frame_of(mine), frame_of(other)) >= 0.6:
                numbers, found = numbers + 1, found + sure
    assert true > 3000
    assert numbers > 200
    assert hit <= 0.01 * true
    assert found >= 0.85 * numbers
