"""The limit follows the stated rules and nothing else: recorded traces, a model written apart from it, and hostile clocks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.throttle.curve import SLICES, Curve, limit, observed, permits
from agent_fleet.throttle.terms import ERRORS, Ending, Observation, Terms

TERMS = Terms()
Seen = tuple[float, Ending, float | None]


def trace(seen: Iterable[Seen], terms: Terms = TERMS, *, brief: float = 0.0) -> list[tuple[float, float]]:
    """The steps of the limit: when, and to what. Each call began `brief` seconds before it ended."""
    curve = Curve()
    steps = [(0.0, limit(curve, terms))]
    for at, ending, latency in seen:
        curve = observed(curve, terms, Observation(at - brief, at, ending, latency))
        now = round(limit(curve, terms), 4)
        if now != steps[-1][1]:
            steps.append((at, now))
    return steps


def steady(begin: float, end: float, ending: Ending, latency: float | None, *, each: float = 0.1) -> list[Seen]:
    return [(begin + each * n, ending, latency) for n in range(round((end - begin) / each))]


def test_a_burst_of_429s_cuts_a_fifth_each_half_minute_and_not_more_often() -> None:
    steps = trace(steady(0, 100, "rate_limited", None))
    assert [level for _, level in steps] == [50, 40, 32, 25.6, 20.48]
    assert [round(at, 6) for at, _ in steps] == [0, 1.9, 31.9, 61.9, 91.9]  # the first of them with the 20th call


def test_a_slow_server_cuts_a_tenth_and_failures_come_first() -> None:
    slow = trace(steady(0, 100, "ok", 2.5))
    assert [level for _, level in slow] == [50, 45, 40.5, 36.45, 32.805]
    both = [(at, "server_error" if n % 10 == 0 else "ok", 9.0) for n, (at, _, _) in enumerate(steady(0, 40, "ok", 9))]
    assert [level for _, level in trace(both)] == [50, 40, 32]  # type: ignore[arg-type]  # a literal in a comprehension


def test_recovery_is_a_tenth_a_minute_up_to_the_baseline_and_stops_there() -> None:
    bad = steady(0, 62, "rate_limited", None)
    slow = steady(62, 122, "ok", 3.0)
    steps = trace([*bad, *slow, *steady(122, 1400, "ok", 0.4)])
    levels = [level for _, level in steps]
    assert levels[:6] == [50, 40, 32, 25.6, 23.04, 20.736]
    assert levels[6:10] == [22.8096, 25.0906, 27.5996, 30.3596]
    assert levels[-1] == 50.0 and levels[-2] < 50.0
    rises = [at for at, _ in steps[6:]]
    assert all(59.9 <= later - at <= 60.2 for at, later in pairwise(rises))


def test_five_percent_and_two_seconds_are_still_good() -> None:
    at_the_edge: list[Seen] = [(n * 0.125, "rate_limited" if n % 20 == 19 else "ok", 2.0) for n in range(3000)]
    assert trace(at_the_edge) == [(0.0, 50.0)]


def test_one_failure_among_few_calls_is_no_rate() -> None:
    assert trace([(0.0, "ok", 0.1), (1.0, "server_error", None), (2.0, "ok", 0.1)]) == [(0.0, 50.0)]


def test_what_is_about_the_request_or_the_key_is_no_failure_of_the_server() -> None:
    for ending in ("refused", "auth", "cancelled"):
        assert trace(steady(0, 60, ending, None)) == [(0.0, 50.0)]


def test_calls_that_began_before_a_cut_do_not_cut_again() -> None:
    curve = Curve()
    for n in range(20):
        curve = observed(curve, TERMS, Observation(n * 0.1, n * 0.1, "rate_limited"))
    assert permits(curve, TERMS) == 40
    for n in range(200):
        curve = observed(curve, TERMS, Observation(1.0, 40.0 + n * 0.1, "rate_limited"))
    assert permits(curve, TERMS) == 40


def test_silence_is_no_recovery() -> None:
    cut = steady(0, 2, "rate_limited", None)
    sparse: list[Seen] = [(100.0 + 50.0 * n, "ok", 0.1) for n in range(40)]
    assert trace([*cut, *sparse])[-1][1] == 40.0


def reference(seen: list[Observation], terms: Terms) -> list[float]:
    """The rules as a list and sums: slow, and written without the other."""
    level, cut, good, now = 1.0, -math.inf, None, 0.0
    kept: list[tuple[int, Observation]] = []
    limits = []
    width = terms.look / SLICES
    for one in seen:
        now = max(now, one.at)
        if one.began >= cut and (one.ending == "ok" or one.ending in ERRORS):
            part = int(now // width)
            kept = [(number, old) for number, old in kept if number > part - SLICES]
            good = good if kept else None
            kept.append((part, one))
            window = [old for _, old in kept]
            failed = sum(old.ending in ERRORS for old in window)
            timed = [max(0.0, old.latency) for old in window if old.ending == "ok" and old.latency is not None]
            failing, slow = failed > terms.errors * len(window), sum(timed) > terms.latency * len(timed)
            if not failing and not slow:
                if good is None:
                    good = now
                elif level < 1 and now >= good + terms.calm:
                    level, good = min(1.0, level * (1 + terms.rise)), now
            else:
                good = None
                if now >= cut + terms.look:
                    enough = failing and len(window) >= terms.sample, slow and len(timed) >= terms.sample
                    part_cut = terms.error_cut if enough[0] else terms.latency_cut if enough[1] else 0.0
                    if part_cut:
                        level, cut, kept = max(1 / terms.calls, level * (1 - part_cut)), now, []
        limits.append(min(float(terms.calls), max(1.0, level * terms.calls)))
    return limits


EIGHTHS = st.integers(0, 40).map(lambda n: n / 8)  # their sums are exact, in whatever order they are added
OBSERVED = st.builds(
    lambda at, long, ending, latency: Observation(at - long, at, ending, latency),
    st.one_of(st.floats(0, 400), st.floats(-1e6, 1e6)),
    st.floats(0, 60),
    st.sampled_from(["ok", "ok", "ok", "rate_limited", "overloaded", "server_error", "timeout", "refused"]),
    st.one_of(st.none(), EIGHTHS),
)
ANY_TERMS = st.builds(
    Terms,
    calls=st.integers(1, 200),
    sample=st.integers(1, 5),
    look=st.floats(1, 60),
    calm=st.floats(0, 90),
    errors=st.floats(0, 1),
    error_cut=st.floats(0, 0.99),
    latency=EIGHTHS,
    latency_cut=st.floats(0, 0.99),
    rise=st.floats(0, 2),
)


@settings(deadline=None)
@given(st.lists(OBSERVED, max_size=120), ANY_TERMS)
def test_whatever_comes_the_limit_stays_between_one_and_the_baseline(seen: list[Observation], terms: Terms) -> None:
    """Moments jump back and forth, also by days."""
    curve = Curve()
    newest = 0.0
    for one in seen:
        curve = observed(curve, terms, one)
        newest = max(newest, one.at)
        assert 1 <= limit(curve, terms) <= terms.calls and 1 <= permits(curve, terms) <= terms.calls
        assert curve.at == newest
        assert len(curve.slices) <= SLICES


@settings(deadline=None)
@given(st.lists(OBSERVED, max_size=120), ANY_TERMS, st.booleans())
def test_it_is_the_model(seen: list[Observation], terms: Terms, in_order: bool) -> None:
    seen = sorted(seen, key=lambda one: one.at) if in_order else seen
    curve = Curve()
    limits = []
    for one in seen:
        curve = observed(curve, terms, one)
        limits.append(limit(curve, terms))
    expected = reference(seen, terms)
    assert all(math.isclose(got, wanted) for got, wanted in zip(limits, expected, strict=True))


@settings(deadline=None)
@given(st.lists(OBSERVED, min_size=1, max_size=60), st.floats(0, 1e7))
def test_a_clock_that_steps_forward_changes_nothing_of_the_rules(seen: list[Observation], step: float) -> None:
    """One step of all later moments: never more than one rise, and no cut without calls after it."""
    curve = Curve()
    for one in sorted(seen, key=lambda one: one.at):
        curve = observed(curve, TERMS, one)
    before = limit(curve, TERMS)
    at = curve.at + step
    after = limit(observed(curve, TERMS, Observation(at, at, "ok", 0.1)), TERMS)
    assert before <= after <= before * (1 + TERMS.rise) + 1e-6
