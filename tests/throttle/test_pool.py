"""Gate, buckets and shares: what all processes together may do, and what one of them can never take from the others."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.throttle import bucket, closing, shares
from agent_fleet.throttle.bucket import Bucket
from agent_fleet.throttle.closing import Closing
from agent_fleet.throttle.pool import HUNG, LEASE, UNLIMITED, Grant, Pool, Report
from agent_fleet.throttle.terms import Ending, Observation, Terms, pause

TERMS = Terms()


def seen(
    at: float, ending: Ending, *, began: float | None = None, hint: float | None = None, probe: bool = False
) -> Observation:
    return Observation(at - 0.1 if began is None else began, at, ending, retry_after=hint, probe=probe)


def shut(at: float, hint: float | None = None, draw: float = 0.0, before: Closing | None = None) -> Closing:
    return closing.observed(before or Closing(), TERMS, seen(at, "rate_limited", hint=hint), "a", at, draw)


# -- the gate


def test_what_the_server_asked_for_is_kept_to_with_a_jitter_on_top() -> None:
    assert shut(10.0, 7.0).until == 17.0
    assert shut(10.0, 7.0, draw=1.0).until == 18.0
    assert shut(10.0, 568157.0).until == 10.0 + TERMS.max_wait


def test_a_hint_of_nothing_is_not_now() -> None:
    assert shut(10.0, 0.0, draw=0.5).until == 10.5
    assert shut(10.0, -3.0, draw=0.5).until == 10.5
    assert shut(10.0, math.nan, draw=0.5).until == 10.5


def test_closings_in_a_row_double_the_wait_to_a_bound() -> None:
    gate, waits = Closing(), []
    at = 0.0
    for _ in range(9):
        gate = shut(at, None, 1.0, gate) if gate.until is None else _probed(gate, at, "rate_limited")
        waits.append((gate.until or 0.0) - at)
        at = gate.until or 0.0
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def _probed(gate: Closing, at: float, ending: Ending) -> Closing:
    trying = gate._replace(prober="a")
    return closing.observed(trying, TERMS, seen(at, ending, began=at, probe=True), "a", at, 1.0)


def test_those_who_were_on_their_way_make_it_no_longer() -> None:
    gate = first = shut(10.0, None, 1.0)
    for n in range(49):
        gate = closing.observed(gate, TERMS, seen(10.0 + n / 100, "rate_limited", began=5.0), "b", 10.0, 1.0)
    assert gate == first
    later = closing.observed(gate, TERMS, seen(10.5, "rate_limited", began=5.0, hint=20.0), "b", 10.5, 0.0)
    assert later.until == 30.5 and later.strikes == 1


def test_only_the_probe_opens_it_and_not_before_its_time() -> None:
    gate = shut(10.0, 5.0)
    assert closing.observed(gate, TERMS, seen(11.0, "ok"), "a", 11.0, 0.0).until == 15.0
    forged = seen(16.0, "ok", began=15.5, probe=True)
    assert closing.observed(gate, TERMS, forged, "a", 16.0, 0.0).until == 15.0
    opened = _probed(gate, 16.0, "ok")
    assert opened.until is None and opened.opened == 16.0
    longer = closing.observed(
        gate._replace(prober="a"), TERMS, seen(16.0, "overloaded", began=9.0, hint=30.0), "b", 16.0, 0.0
    )
    assert longer.until == 46.0
    early = closing.observed(longer, TERMS, seen(17.0, "ok", began=15.0, probe=True), "a", 17.0, 0.0)
    assert early.until == 46.0 and early.prober == ""


def test_any_failures_in_a_row_close_it_and_a_success_between_them_does_not() -> None:
    gate = Closing()
    for n in range(4):
        gate = closing.observed(gate, TERMS, seen(n, "server_error"), "a", n, 0.5)
    assert gate.until is None
    assert closing.observed(gate, TERMS, seen(4, "timeout"), "a", 4, 0.5).until is not None
    gate = closing.observed(gate, TERMS, seen(4, "ok"), "a", 4, 0.5)
    assert closing.observed(gate, TERMS, seen(5, "broken"), "a", 5, 0.5).until is None


def test_a_quiet_time_forgives_and_a_short_one_does_not() -> None:
    gate = _probed(shut(0.0), 1.0, "ok")
    assert gate.strikes == 1
    assert closing.observed(gate, TERMS, seen(30.0, "ok"), "a", 30.0, 0).strikes == 1
    assert closing.observed(gate, TERMS, seen(31.0, "ok"), "a", 31.0, 0).strikes == 0


@settings(deadline=None)
@given(st.integers(-5, 10**6), st.floats(0, 1))
def test_a_pause_is_full_jitter_within_its_bound(strikes: int, draw: float) -> None:
    assert 0 <= pause(strikes, draw, TERMS) <= TERMS.longest
    assert pause(strikes, 0.0, TERMS) == 0.0


# -- the buckets


def test_debt_is_paid_back_at_the_rate() -> None:
    full = bucket.refilled(Bucket(), 500.0, 0.0)
    assert full.level == 5000.0
    owed = bucket.charged(full, 9000.0)
    assert owed.level == -4000.0 and bucket.wait(owed, 500.0, 0.0) == 8.0
    assert bucket.wait(bucket.refilled(owed, 500.0, 8.0), 500.0, 0.0) == 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e5)), max_size=50), st.floats(0.001, 1e4))
def test_a_bucket_never_gives_more_than_its_rate_and_burst(steps: list[tuple[float, float]], rate: float) -> None:
    level = bucket.refilled(Bucket(), rate, 0.0)
    used, newest, most = 0.0, 0.0, level.level or 0.0
    for at, amount in steps:
        newest = max(newest, at)
        level = bucket.refilled(level, rate, at)
        assert (level.level or 0.0) <= most + newest * rate - used + 1e-3 * (1 + used)
        level = bucket.charged(level, amount)
        used += amount


# -- the shares


@settings(deadline=None)
@given(
    st.dictionaries(st.text(max_size=3), st.integers(0, 300), min_size=1, max_size=12),
    st.integers(0, 200),
    st.floats(0, 1e6),
)
def test_shares_are_fair_and_nothing_is_left_while_somebody_wants(
    wants: dict[str, int], permits: int, now: float
) -> None:
    found = shares.fair(wants, permits, now)
    assert sum(found.values()) == min(permits, sum(wants.values()))
    assert all(0 <= found[name] <= wants[name] for name in wants)
    richest = max(found.values())
    assert all(found[name] == wanted or richest <= found[name] + 1 for name, wanted in wants.items())


def test_with_fewer_permits_than_processes_each_has_its_turn() -> None:
    wants = dict.fromkeys("abcde", 9)
    got = {name: sum(shares.fair(wants, 2, second)[name] for second in range(100)) for name in wants}
    assert min(got.values()) >= 20


# -- all of it


class Simulated:
    """Processes that do what the front does, on a clock of their own."""

    def __init__(self, terms: Terms, names: str) -> None:
        self.terms, self.pool, self.now = terms, Pool(), 100.0
        self.grants = dict.fromkeys(names, Grant(0, 0, 0.0, 0.0))
        self.flying: dict[str, list[tuple[float, bool]]] = {name: [] for name in names}
        self.started = dict.fromkeys(names, 0)
        self.replaced = 0  # probes given while one who was silent may have had the last
        self.lapsed = False  # whether somebody was silent for longer than a lease: then another may have probed too

    def ask(self, name: str, waiting: int, ended: tuple[Observation, ...] = ()) -> Grant:
        flying = self.flying[name]
        self.lapsed = self.lapsed or bool(self.pool.silent(self.now))
        report = Report(
            len(flying), len(flying) + waiting, self.started[name], ended, any(probe for _, probe in flying)
        )
        self.grants[name] = self.pool.exchange(self.terms, name, report, self.now, 0.5)
        self.started[name] = 0
        self.replaced += self.lapsed and self.grants[name].is_probe
        return self.grants[name]

    def start(self, name: str) -> bool:
        grant = self.grants[name]
        if self.now >= grant.ends or len(self.flying[name]) >= grant.permits or self.started[name] >= grant.starts:
            return False
        self.flying[name].append((self.now, grant.is_probe))
        self.started[name] += 1
        return True

    def end(self, name: str, ending: Ending) -> tuple[Observation, ...]:
        if not self.flying[name]:
            return ()
        began, probe = self.flying[name].pop(0)
        return (Observation(began, self.now, ending, 0.1, probe=probe, tokens=7),)

    def total(self) -> int:
        return sum(len(flying) for flying in self.flying.values())


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["ask", "start", "end", "end_news"]),
        st.sampled_from(["ok", "ok", "ok", "rate_limited", "server_error", "cancelled", "refused"]),
        st.floats(0, 4),
        st.integers(0, 9),
    ),
    max_size=150,
)


@settings(deadline=None)
@given(STEPS, st.integers(1, 8), st.sampled_from([0.0, 30.0]))
def test_no_more_calls_begin_than_the_limit_allows(
    steps: list[tuple[str, str, Ending, float, int]], calls: int, per_minute: float
) -> None:
    terms = Terms(calls=calls, sample=2, calls_per_minute=per_minute)
    world = Simulated(terms, "abc")
    for name, what, ending, passed, waiting in steps:
        world.now += passed
        hung = any(world.now > holder.seen + HUNG for holder in world.pool.holders.values())
        before = world.total()
        if what == "ask":
            world.ask(name, waiting)
            held = sum(max(holder.granted, holder.flying) for holder in world.pool.holders.values())
            assert hung or held <= max(calls, before + 1) + world.replaced
        elif what == "start":
            if world.start(name):
                assert hung or before < calls or world.grants[name].is_probe
        else:
            world.ask(name, waiting, world.end(name, ending))
        probing = sum(probe for flying in world.flying.values() for _, probe in flying)
        assert probing <= 1 or world.lapsed


def test_a_closed_gate_lets_exactly_one_of_all_try() -> None:
    world = Simulated(TERMS, "abc")
    for name in "abc":
        world.ask(name, 100)
    assert [world.grants[name].permits for name in "abc"] == [50, 0, 0]
    world.ask("a", 100)
    world.start("a")
    world.ask("a", 100, world.end("a", "rate_limited"))
    assert all(world.ask(name, 5).starts == 0 for name in "abc")
    world.now += 1.1
    assert [world.ask(name, 5).is_probe for name in "bac"] == [True, False, False]
    assert world.start("b") and not world.start("b") and not world.start("a")
    world.ask("b", 5, world.end("b", "ok"))
    assert world.pool.closing.until is None
    assert world.ask("c", 5).permits == 5


def test_a_prober_that_died_or_fell_silent_does_not_keep_the_gate_shut() -> None:
    for is_dead in (True, False):
        world = Simulated(TERMS, "ab")
        world.ask("a", 5)
        world.start("a")
        world.ask("a", 5, world.end("a", "rate_limited"))
        world.now += 2
        assert world.ask("a", 5).is_probe
        if is_dead:
            world.pool.forget("a")
        world.now += LEASE + 0.1
        assert world.ask("b", 5).is_probe


def test_a_process_that_comes_later_gets_its_half_as_calls_end() -> None:
    world = Simulated(TERMS, "ab")
    world.ask("a", 1000)
    while world.start("a"):
        pass
    assert world.total() == 50 and world.ask("b", 1000).permits == 0
    for _ in range(400):
        world.now += 0.01
        world.ask("a", 1000, world.end("a", "ok"))
        while world.start("a"):
            pass
        world.ask("b", 1000)
        while world.start("b"):
            pass
        assert world.total() <= 50
    assert [len(world.flying[name]) for name in "ab"] == [25, 25]


def test_who_goes_gives_all_back() -> None:
    world = Simulated(TERMS, "ab")
    world.ask("a", 50)
    world.ask("a", 0)
    assert world.pool.holders == {} and world.ask("b", 60).permits == 50


def test_a_rate_of_calls_counts_what_was_begun_and_returns_what_was_not() -> None:
    world = Simulated(Terms(calls_per_minute=60), "a")
    assert world.ask("a", 100).starts == 10
    for _ in range(4):
        assert world.start("a")
    assert world.ask("a", 100).starts == 6
    for _ in range(6):
        assert world.start("a")
    assert world.ask("a", 100).starts == 0
    world.now += 3
    assert world.ask("a", 100).starts == 3
    world.start("a")
    while world.end("a", "ok"):
        pass
    world.ask("a", 0)
    assert world.ask("a", 9).starts == 2


def test_tokens_used_are_a_debt_before_the_next_call() -> None:
    world = Simulated(Terms(tokens_per_minute=60), "a")
    assert world.ask("a", 5).starts == UNLIMITED
    world.start("a")
    world.flying["a"].clear()
    used = Observation(world.now, world.now, "ok", 0.1, tokens=40)
    assert world.ask("a", 5, (used,)).starts == 0
    world.now += 29.9
    assert world.ask("a", 5).starts == 0
    world.now += 0.2
    assert world.ask("a", 5).starts == UNLIMITED
