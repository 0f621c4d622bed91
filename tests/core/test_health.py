"""Who is taken out, who is blamed for what, and how one comes back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.config import Config
from agent_fleet.health import ACCOUNTS, BROKEN, Ended, Fitness, Part, Rules, observed, rules
from agent_fleet.model import OutcomeKind

RULES = Rules()
SLOT, ACCOUNT, NODE = Part("slot", "s"), Part("account", "a"), Part("node", "n")
KINDS: list[OutcomeKind] = [
    "done", "blocked", "failed", "limit", "auth", "overload", "budget", "timeout", "crashed", "refused", "unknown",
]  # fmt: skip


def observed_all(terms: Rules, attempts: list[Ended]) -> dict[Part, Fitness]:
    health: dict[Part, Fitness] = {}
    for each in attempts:
        health = observed(health, terms, each)
    return health


def row(kind: OutcomeKind, count: int, *, start: float = 0.0, task: str = "") -> list[Ended]:
    return [Ended(start + n, kind, task or f"t{start + n}", "s", "a", "n", 5.0) for n in range(count)]


def test_the_fourth_failure_in_a_row_takes_out_and_the_third_does_not() -> None:
    assert not any(found.out for found in observed_all(RULES, row("crashed", 3)).values())
    health = observed_all(RULES, row("crashed", 4))
    assert health[SLOT].state(4.0) == health[NODE].state(4.0) == "out"
    assert ACCOUNT not in health


def test_a_success_between_them_breaks_the_row() -> None:
    health = observed_all(RULES, [*row("crashed", 3), *row("done", 1, start=5), *row("crashed", 3, start=6)])
    assert not any(found.out for found in health.values())


def test_what_an_agent_reports_itself_blames_its_slot_and_no_machine() -> None:
    health = observed_all(RULES, row("failed", 9))
    assert health[SLOT].out
    assert not health[NODE].out
    assert health[NODE].failure_rate == 0.0


def test_limits_and_logins_count_against_the_account_alone_and_its_cooldown_closes_it() -> None:
    for kind in ACCOUNTS:
        health = observed_all(RULES, [Ended(n, kind, f"t{n}", "s", "a", "n") for n in range(20)])  # type: ignore[arg-type]  # of the set
        assert set(health) == {ACCOUNT}
        assert health[ACCOUNT].failure_rate == 1.0
        assert not health[ACCOUNT].out


def test_one_task_that_breaks_every_worker_blames_none() -> None:
    assert not any(found.out for found in observed_all(RULES, row("crashed", 50, task="t9")).values())


def test_what_is_about_the_task_blames_nobody() -> None:
    for kind in ("budget", "refused"):
        assert observed_all(RULES, row(kind, 9)) == {}


def test_rest_probation_and_return() -> None:
    health = observed_all(RULES, row("timeout", 4))
    assert [health[NODE].state(now) for now in (3.5, 62.9, 63.0)] == ["out", "out", "probation"]
    again = observed_all(RULES, [*row("timeout", 4), *row("crashed", 1, start=70.0, task="x")])
    assert [again[NODE].state(now) for now in (189.0, 190.0)] == ["out", "probation"]
    back = observed(again, RULES, Ended(195.0, "done", "y", "s", "a", "n", 1.0))
    assert back[NODE].state(195.0) == "in"
    assert back[NODE].times == 2
    assert observed_all(RULES, [*row("timeout", 4), *row("done", 10, start=70.0)])[NODE].times == 0


def test_one_that_was_on_its_way_is_no_failed_probation() -> None:
    health = observed_all(RULES, [*row("crashed", 4), *row("crashed", 6, start=5.0)])
    assert (health[SLOT].rests, health[SLOT].times) == (63.0, 1)
    late = observed(health, RULES, Ended(20.0, "done", "z", "s", "a", "n"))
    assert late[SLOT].state(20.0) == "out"


def test_rate_and_time_are_of_the_last_attempts() -> None:
    found = observed_all(RULES, [*row("crashed", 1), *row("done", 3, start=2)])[SLOT]
    assert (found.failure_rate, found.response) == (0.25, 5.0)
    assert (Fitness().failure_rate, Fitness().response) == (None, None)


def test_the_settings_are_the_rules() -> None:
    assert rules(Config("", "")) == RULES


ATTEMPTS = st.lists(
    st.builds(
        Ended,
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
def test_nothing_is_out_for_good_and_nobody_is_blamed_for_what_is_not_theirs(attempts: list[Ended], most: int) -> None:
    attempts.sort(key=lambda attempt: attempt.at)
    terms = Rules(failures=most)
    health = observed_all(terms, attempts)
    end = attempts[-1].at if attempts else 0.0
    assert all(fitness.rests <= end + terms.longest for fitness in health.values())
    assert not any(part.name == "" for part in health)
    kinds = {attempt.kind for attempt in attempts}
    assert not any(found.out for part, found in health.items() if part.kind == "account")
    if not kinds & {*BROKEN, "failed"}:
        assert not any(found.out for found in health.values())
    if not kinds & BROKEN:
        assert not any(found.out for part, found in health.items() if part.kind == "node")
