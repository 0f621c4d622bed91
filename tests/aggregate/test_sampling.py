from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.aggregate.sampling import Sampler, at_most, interval, plan


def exact(count: int, population: int, wrong: int, size: int) -> Fraction:
    ways = sum(
        math.comb(wrong, each) * math.comb(population - wrong, size - each)
        for each in range(min(count, wrong, size) + 1)
        if size - each <= population - wrong
    )
    return Fraction(ways, math.comb(population, size))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_the_probability_is_that_of_counting_all_ways(data: st.DataObject) -> None:
    population = data.draw(st.integers(1, 60))
    wrong = data.draw(st.integers(0, population))
    size = data.draw(st.integers(0, population))
    count = data.draw(st.integers(0, size))
    assert at_most(count, population, wrong, size) == pytest.approx(
        float(exact(count, population, wrong, size)), abs=1e-9
    )


@pytest.mark.parametrize(("population", "confidence"), [(60, 0.9), (500, 0.95), (5000, 0.99)])
def test_a_plan_keeps_both_promises_by_exact_count(population: int, confidence: float) -> None:
    made = plan(population, tolerated=0.05, found=0.2, confidence=confidence)
    fine, bad = math.floor(population * 0.05), math.ceil(population * 0.2)
    assert exact(made.most, population, fine, made.size) >= confidence
    assert 1 - exact(made.most, population, bad, made.size) >= confidence
    assert made.size < population


@pytest.mark.parametrize("population", [1, 2, 5])
def test_where_no_sample_is_enough_all_are_checked(population: int) -> None:
    made = plan(population, tolerated=0.05, found=0.2, confidence=0.95)
    assert made.size == population
    assert made.most == 0


def test_an_interval_holds_the_truth_as_often_as_it_says() -> None:
    """By exact count over every number of wrong ones, not by trial."""
    population, size, confidence = 40, 12, 0.9
    bounds = [interval(population, size, wrong, confidence) for wrong in range(size + 1)]
    for truth in range(population + 1):
        held = sum(
            exact(wrong, population, truth, size) - (exact(wrong - 1, population, truth, size) if wrong else 0)
            for wrong in range(size + 1)
            if bounds[wrong][0] <= truth / population <= bounds[wrong][1]
        )
        assert held >= confidence - 1e-9


def test_checking_all_leaves_no_doubt_and_checking_none_all_of_it() -> None:
    assert interval(10, 10, 3, 0.95) == (0.3, 0.3)
    assert interval(10, 0, 0, 0.95) == (0.0, 1.0)


@given(st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=30), st.integers(0, 40), st.randoms())
@settings(max_examples=60, deadline=None)
def test_a_sample_does_not_depend_on_the_order(names: list[str], size: int, chance: random.Random) -> None:
    shuffled = names[:]
    chance.shuffle(shuffled)
    samples = []
    for order in (names, shuffled):
        sampler = Sampler("seed", size)
        for name in order:
            sampler.offer(name)
        samples.append(sampler.chosen(size))
    assert samples[0] == samples[1]
    assert len(samples[0]) == min(size, len(names))


def test_every_pair_is_drawn_about_equally_often_over_seeds() -> None:
    counts = dict.fromkeys(itertools.combinations("abcdef", 2), 0)
    for seed in range(3000):
        sampler = Sampler(str(seed), 2)
        for name in "abcdef":
            sampler.offer(name)
        counts[tuple(sorted(sampler.chosen(2)))] += 1  # type: ignore[index]
    assert min(counts.values()) > 140
    assert max(counts.values()) < 260
