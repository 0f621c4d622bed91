"""Budgets: what breaches a limit, what does not, and what is said about it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.budget import Limits, Spent, admit, check, dollars, limits
from agent_fleet.model import Budget, Usage
from agent_fleet.prices import Meter, Money, packaged, total

AMOUNTS = st.floats(0, 1000)
MONEY = st.builds(
    lambda least, more, unknown: Money(known=least + more, least=least, unknown=unknown),
    AMOUNTS,
    AMOUNTS,
    st.sampled_from([(), ("no price is known for the model x",)]),
)
SPENT = st.builds(
    Spent,
    tokens=st.integers(0, 10**7),
    money=MONEY,
    turns=st.integers(0, 100),
    seconds=AMOUNTS,
    run_money=MONEY,
    day_money=MONEY,
    run_attempts=st.integers(0, 100),
)
OPTIONAL = st.none() | AMOUNTS
LIMITS = st.builds(
    Limits,
    tokens=st.none() | st.integers(0, 10**7),
    money=OPTIONAL,
    turns=st.none() | st.integers(0, 100),
    seconds=OPTIONAL,
    run_money=OPTIONAL,
    day_money=OPTIONAL,
    run_attempts=st.none() | st.integers(0, 100),
    unknown_price=st.sampled_from(["stop", "allow"]),
)


def more(one: Spent, other: Spent) -> Spent:
    return Spent(
        tokens=one.tokens + other.tokens,
        money=total((one.money, other.money)),
        turns=one.turns + other.turns,
        seconds=one.seconds + other.seconds,
        run_money=total((one.run_money, other.run_money)),
        day_money=total((one.day_money, other.day_money)),
        run_attempts=one.run_attempts + other.run_attempts,
    )


@settings(deadline=None)
@given(LIMITS, SPENT, SPENT)
def test_more_use_never_mends_a_breach(allowed: Limits, used: Spent, added: Spent) -> None:
    if check(allowed, used) is not None:
        assert check(allowed, more(used, added)) is not None
    if admit(allowed, used) is not None:
        assert admit(allowed, more(used, added)) is not None


@settings(deadline=None)
@given(LIMITS, SPENT)
def test_what_is_beyond_a_limit_may_not_start_either(allowed: Limits, used: Spent) -> None:
    if check(allowed, used) is not None:
        assert admit(allowed, used) is not None


@settings(deadline=None)
@given(SPENT)
def test_without_limits_nothing_is_a_breach(used: Spent) -> None:
    assert admit(Limits(), used) is None


@pytest.mark.parametrize(
    "used",
    [Usage(input=101), Usage(cache_write=101), Usage(cache_read=101), Usage(output=101), Usage(reasoning=101)],
)
def test_every_class_of_tokens_counts_against_the_limit(used: Usage) -> None:
    found = check(Limits(tokens=100), Spent(tokens=used.tokens))
    assert found is not None
    assert (found.kind, found.limit, found.figure) == ("tokens", 100, 101)
    assert found.why == "101 tokens used, 100 allowed"


def test_a_task_of_five_cents_that_would_spend_a_dollar_is_stopped_while_it_streams() -> None:
    table = packaged()
    meter = Meter(table)
    allowed = limits(Budget(money=0.05), Limits())
    seen = []
    for message in range(1, 41):  # forty messages of 2.5 cents, nearly all of it cache reads
        used = Usage(cache_read=120_000 * message, output=50 * message, turns=message, models=("claude-opus-5-5",))
        money = meter.feed(used, 0.0)
        found = check(allowed, Spent(money=money, tokens=used.tokens))
        if found is not None:
            seen.append((message, found))
    assert meter.money.known == pytest.approx(1.0)
    message, found = seen[0]
    assert message == 3
    assert found.kind == "money"
    assert found.is_of_the_task
    assert found.why == f"money: $0.0750 used (price table of {table.date}), $0.0500 allowed"


def test_a_limit_that_is_reached_is_no_breach_but_nothing_more_may_start_under_it() -> None:
    cases = [
        (Limits(tokens=10), Spent(tokens=10)),
        (Limits(turns=10), Spent(turns=10)),
        (Limits(money=1.0), Spent(money=Money(known=1.0))),
        (Limits(run_attempts=3), Spent(run_attempts=3)),
    ]
    for allowed, used in cases:
        assert check(allowed, used) is None
        assert admit(allowed, used) is not None


def test_an_unknown_price_stops_a_task_with_a_limit_of_money_and_says_why() -> None:
    reason = "no price is known for the model x"
    used = Spent(money=Money(known=0.1, least=0.1, unknown=(reason,)))
    found = check(Limits(money=5.0), used)
    assert found is not None
    assert found.figure is None
    assert found.why == f"money: what was used has no known price ({reason}), $5.00 allowed"
    assert check(Limits(tokens=5), used) is None


def test_where_an_unknown_price_may_pass_the_known_part_still_counts() -> None:
    allowed = Limits(money=5.0, unknown_price="allow")
    used = Money(known=4.0, unknown=("x",))
    assert check(allowed, Spent(money=used)) is None
    assert check(allowed, Spent(money=replace(used, known=6.0))) is not None


def test_the_run_and_the_day_have_limits_of_their_own_and_the_task_is_not_at_fault() -> None:
    spent = Money(known=9.0, least=9.0, bases=("reported by the agent",))
    for kind, allowed, used in (
        ("money of the run", Limits(run_money=8.0), Spent(run_money=spent)),
        ("money of the day", Limits(day_money=8.0), Spent(day_money=spent)),
        ("attempts of the run", Limits(run_attempts=8), Spent(run_attempts=9)),
    ):
        found = check(allowed, used)
        assert found is not None
        assert found.kind == kind
        assert not found.is_of_the_task


def test_an_amount_between_two_bounds_is_shown_as_such() -> None:
    found = check(Limits(money=1.0), Spent(money=Money(known=1.5, least=0.75, bases=("a table",))))
    assert found is not None
    assert found.why == "money: between $0.7500 and $1.50 used (a table), $1.00 allowed"


def test_a_tasks_own_limit_wins_over_the_one_for_all_tasks() -> None:
    defaults = Limits(tokens=100, money=1.0, turns=5, seconds=60, run_money=7.0, unknown_price="allow")
    assert limits(Budget(), defaults) == defaults
    own = limits(Budget(tokens=200, money=2.0), defaults)
    assert own == replace(defaults, tokens=200, money=2.0)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "$0.00"), (0.05, "$0.0500"), (0.00004, "less than $0.0001"), (1, "$1.00"), (12345.678, "$12,345.68")],
)
def test_an_amount_shows_its_cents_and_below_a_dollar_two_digits_more(amount: float, text: str) -> None:
    assert dollars(amount) == text
