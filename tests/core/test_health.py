"""Who is taken out, who is blamed for what, and how one comes back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.config import Config
from agent_fleet.health import ACCOUNTS, WORKERS, Attempt, Fitness, Part, Rules, may_work, observed, observed_all, rules
from agent_fleet.model import OutcomeKind

RULES = Rules()
SLOT, ACCOUNT, NODE = Part("slot", "s"), Part("account", "a"), Part("node", "n")
KINDS: list[OutcomeKind] = [
    "done", "blocked", "failed", "limit", "auth", "overload", "budget", "timeout", "crashed", "refused", "unknown",
]  # fmt: skip


def row(kind: OutcomeKind, count: int, *, start: float = 0.0, task: str = "") -> list[Attempt]:
    return [Attempt(start + n, kind, task or f"t{n}", "s", "a", "n", 5.0) for n in range(count)]


def may(health: dict[Part, Fitness], now: float, **busy: int) -> bool:
    running = {Part("slot", "s"): busy.get("slot", 0)}
    return may_work(health, now, running, slot="s", account="a", node="n")


def test_the_fourth_failure_in_a_row_takes_out_and_the_third_does_not() -> None:
    assert may(observed_all(RULES, row("crashed", 3)), 3.0)
    health = observed_all(RULES, row("crashed", 4))
    assert not may(health, 4.0)
    assert health[SLOT].state(4.0) == health[NODE].state(4.0) == "out" and ACCOUNT not in health


def test_a_success_between_them_breaks_the_row() -> None:
    assert may(observed_all(RULES, [*row("failed", 3), *row("done", 1), *row("failed", 3)]), 9.0)


def test_limits_and_logins_blame_the_account_whatever_node_they_meet() -> None:
    for kind in sorted(ACCOUNTS):
        attempts = [Attempt(n, kind, f"t{n}", f"s{n % 2}", "a", f"n{n % 2}") for n in range(20)]  # type: ignore[arg-type]  # of the set
        health = observed_all(RULES, attempts)
        assert set(health) == {ACCOUNT} and health[ACCOUNT].out
        assert may_work(health, 21.0, {}, slot="s0", account="b", node="n0")


def test_one_task_that_breaks_every_worker_blames_none() -> None:
    assert may(observed_all(RULES, row("crashed", 50, task="t9")), 60.0)


def test_what_is_about_the_task_blames_nobody() -> None:
    for kind in ("budget", "refused"):
        assert observed_all(RULES, row(kind, 9)) == {}


def test_rest_probation_and_return() -> None:
    health = observed_all(RULES, row("timeout", 4))
    assert not may(health, 62.9) and health[SLOT].state(63.0) == "probation"
    assert may(health, 63.0) and not may(health, 63.0, slot=1)
    again = observed_all(RULES, [*row("timeout", 4), *row("crashed", 1, start=70.0, task="x")])
    assert not may(again, 189.0) and may(again, 190.0)
    back = observed(again, RULES, Attempt(195.0, "done", "y", "s", "a", "n", 1.0))
    assert back[SLOT].state(195.0) == "in" and may(back, 195.0, slot=7)
    assert back[SLOT].times == 2
    assert observed_all(RULES, [*row("timeout", 4), *row("done", 10, start=70.0)])[SLOT].times == 0


def test_one_that_was_on_its_way_is_no_failed_probation() -> None:
    health = observed_all(RULES, [*row("crashed", 4), *row("crashed", 6, start=5.0)])
    assert health[SLOT].rests == 63.0 and health[SLOT].times == 1
    late = observed(health, RULES, Attempt(20.0, "done", "z", "s", "a", "n"))
    assert late[SLOT].state(20.0) == "out"


def test_rate_and_time_are_of_the_last_attempts() -> None:
    found = observed_all(RULES, [*row("crashed", 1), *row("done", 3)])[SLOT]
    assert found.failure_rate == 0.25 and found.response == 5.0
    assert Fitness().failure_rate is None and Fitness().response is None
    assert observed_all(RULES, row("crashed", 2))[SLOT].response is None


def test_the_settings_are_the_rules() -> None:
    assert rules(Config("", "")) == RULES


ATTEMPTS = st.lists(
    st.builds(
        Attempt,
        at=st.floats(0, 1e5),
        kind=st.sampled_from(KINDS),
        task=st.sampled_from(["", "t1", "t2", "t3", "t4", "t5", "t6"]),
        slot=st.sampled_from(["", "s"]),
        account=st.sampled_from(["", "a"]),
        node=st.sampled_from(["", "n"]),
        seconds=st.one_of(st.none(), st.floats(0, 1e4)),
    ),
    max_size=80,
)


@settings(deadline=None)
@given(ATTEMPTS, st.integers(1, 5))
def test_nothing_is_out_for_good_and_nobody_is_blamed_for_what_is_not_theirs(
    attempts: list[Attempt], most: int
) -> None:
    attempts.sort(key=lambda attempt: attempt.at)
    terms = Rules(failures=most)
    health = observed_all(terms, attempts)
    end = attempts[-1].at if attempts else 0.0
    assert all(fitness.rests <= end + terms.longest for fitness in health.values())
    assert may_work(health, end + terms.longest, {}, slot="s", account="a", node="n")
    assert not any(part.name == "" for part in health)
    kinds = {attempt.kind for attempt in attempts}
    if not kinds & WORKERS:
        assert not any(fitness.out for part, fitness in health.items() if part.kind != "account")
    if not kinds & ACCOUNTS:
        assert not any(fitness.out for part, fitness in health.items() if part.kind == "account")
