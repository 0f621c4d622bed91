from __future__ import annotations

import pytest

from agent_fleet.aggregate.facts import FactReader, doubt, veto

READER = FactReader()

APART = [
    ("Migrate the data from postgres to sqlite", "Migrate the data from sqlite to postgres"),
    ("postgres→sqlite", "sqlite→postgres"),
    ("postgres -> sqlite", "sqlite -> postgres"),
    ("Fixed issue 1234 in the importer", "Fixed issue 1235 in the importer"),
    ("The tests pass", "The tests fail"),
    ("All tests pass", "Not all tests pass"),
    ("Enable the cache", "Disable the cache"),
    ("The feature is enabled", "The feature is not enabled"),
    ("It takes 5 s", "It takes 5 ms"),
    ("It takes 5 seconds", "It takes 5 minutes"),
    ("It needs 3 GB", "It needs 3 GiB"),
    ("Upgrade to 1.2.3", "Upgrade to 1.2.4"),
    ("Valid until 2027-01-02", "Valid until 2027-02-01"),
    ("The value is -5", "The value is 5"),
    ("Three users are missing", "Four users are missing"),
    ("The second attempt fails", "The third attempt fails"),
    ("See src/a/main.py", "See src/b/main.py"),
    ("Call `open_file` first", "Call `close_file` first"),
    ("Use --force here", "Use --dry-run here"),
    ("Set API_KEY", "Set API_URL"),
    ("The parser imports the lexer", "The lexer imports the parser"),
    ("Alpha must be built before Beta", "Beta must be built before Alpha"),
    ("Alice reported it to Bob", "Alice reported it to Carol"),
    ("Memory grows without bound", "Memory is bounded"),
    ("Access was granted to the guest", "Access was revoked from the guest"),
    ("Prices rose by 3 percent while costs fell", "Prices fell by 3 percent while costs rose"),
    ("The input is validated", "The input is unvalidated"),
    ("The header is missing", "The header is present"),
    ("Nothing imports this file", "Everything imports this file"),
]

TOGETHER = [
    ("It takes 5 seconds", "It takes 5000 ms"),
    ("It takes 1,000 requests", "It takes 1000 requests"),
    ("The cost is 5 percent", "The cost is 5%"),
    ("Valid until 2 January 2027", "Valid until 2027-01-02"),
    ("Valid until January 2, 2027", "Valid until 2027-01-02"),
    ("See src/a/main.py", "See main.py"),
    ("Call `open_file` first", "Call open_file() first"),
    ("The websocket is not closed", "The websocket stays open"),
    ("**Result:** it works", "It works."),
    ("After the deploy, the cache is empty", "The cache is empty after the deploy"),
    ("The lexer is called by the parser", "The parser calls the lexer"),
    ("Unless it is renewed, it ends", "It ends if it is not renewed"),
    ("Two users are missing", "2 users are missing"),
]


@pytest.mark.parametrize(("one", "two"), APART)
def test_texts_whose_facts_differ_are_kept_apart_or_shown_to_a_person(one: str, two: str) -> None:
    mine, other = READER.read(one), READER.read(two)
    assert veto(mine, other) or doubt(mine, other)


@pytest.mark.parametrize(("one", "two"), TOGETHER)
def test_the_same_fact_in_another_form_is_no_veto(one: str, two: str) -> None:
    mine, other = READER.read(one), READER.read(two)
    assert veto(mine, other) == ""


@pytest.mark.parametrize(("one", "two"), [*APART, *TOGETHER])
def test_it_does_not_matter_which_text_comes_first(one: str, two: str) -> None:
    mine, other = READER.read(one), READER.read(two)
    assert veto(mine, other) == veto(other, mine)
    assert doubt(mine, other) == doubt(other, mine)
    assert veto(mine, READER.read(one)) == doubt(mine, READER.read(one)) == ""


def test_a_boilerplate_around_them_hides_no_difference() -> None:
    around = "Please look at this carefully and report what you did in the usual form. {} Thank you for your help."
    for one, two in APART[:9]:
        mine, other = READER.read(around.format(one + ".")), READER.read(around.format(two + "."))
        assert veto(mine, other) or doubt(mine, other), (one, two)
