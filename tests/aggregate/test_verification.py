from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from agent_fleet.aggregate.outputs import Output
from agent_fleet.aggregate.pipeline import Settings, aggregate
from agent_fleet.aggregate.sampling import rank
from agent_fleet.aggregate.verification import Inspection, Opinion, Terms
from agent_fleet.errors import FleetError

SECOND = ("other", "model", "account")
TERMS = Terms(confidence=0.95, tolerated=0.05, found=0.2)


class Second:
    """A pool that knows the answers."""

    maker = SECOND

    def __init__(self, wrong: set[str], silent: bool = False) -> None:
        self.wrong = wrong
        self.silent = silent
        self.seen: list[str] = []

    def check(self, outputs: Iterable[Output]) -> Iterable[Opinion]:
        for output in outputs:
            self.seen.append(output.task)
            yield Opinion(output.key, None if self.silent else output.task not in self.wrong, "by the key")


def outputs(count: int) -> list[Output]:
    return [Output(task=f"t{number}", value=f"answer {number}", provider="first") for number in range(count)]


def standings(count: int, share: float, seeds: int) -> list[str]:
    """What is said of a pool in which that share is wrong, over many seeds."""
    made = outputs(count)
    keys = {output.key: number < share * count for number, output in enumerate(made)}
    found: list[str] = []
    for seed in range(seeds):
        inspection = Inspection(Terms(seed=str(seed)), SECOND)
        for output in made:
            inspection.offer(output, output.key)
        found.append(inspection.weigh([Opinion(key, not keys[key]) for key in inspection.sample()]).standing)
    return found


def test_a_pool_with_a_fifth_wrong_is_found_as_surely_as_promised() -> None:
    said = standings(300, 0.2, 400)
    assert said.count("failed") >= 0.95 * 400 - 3 * (400 * 0.95 * 0.05) ** 0.5


def test_a_pool_within_what_is_tolerated_is_blamed_as_seldom_as_promised() -> None:
    said = standings(300, 0.05, 400)
    assert said.count("failed") <= 0.05 * 400 + 3 * (400 * 0.95 * 0.05) ** 0.5


def test_a_failed_check_stops_the_run_and_no_verdict_is_clean() -> None:
    made = outputs(200)
    second = Second({f"t{number}" for number in range(0, 200, 3)})
    report = aggregate(made, None, Settings(terms=TERMS), checker=second)
    assert report.verification.stops
    assert not report.clean
    assert report.verdict.startswith("not clean")
    assert report.verification.least <= 67 / 200 <= report.verification.most
    assert len(second.seen) < 200


def test_a_good_pool_passes_and_the_same_seed_asks_for_the_same() -> None:
    first, again = Second(set()), Second(set())
    report = aggregate(outputs(200), None, Settings(terms=TERMS), checker=first)
    aggregate(reversed(outputs(200)), None, Settings(terms=TERMS), checker=again)
    assert report.clean
    assert first.seen == again.seen
    other = Second(set())
    aggregate(outputs(200), None, Settings(terms=Terms(seed="other")), checker=other)
    assert other.seen != first.seen


def test_a_pool_never_checks_what_it_made() -> None:
    own = [
        Output(task=f"o{n}", value=f"own {n}", provider="other", model="model", account="account") for n in range(50)
    ]
    second = Second(set())
    aggregate([*own, *outputs(50)], None, Settings(), checker=second)
    assert not any(task.startswith("o") for task in second.seen)
    alone = aggregate(own, None, Settings(), checker=Second(set()))
    assert alone.verification.standing == "not checked"
    assert not alone.clean


def test_a_checker_that_cannot_tell_proves_nothing() -> None:
    report = aggregate(outputs(100), None, Settings(), checker=Second(set(), silent=True))
    assert report.verification.standing == "not checked"
    assert report.verification.rate is None
    assert (report.verification.least, report.verification.most) == (0.0, 1.0)
    assert not report.clean


def test_opinions_on_what_was_not_asked_do_not_count() -> None:
    inspection = Inspection(TERMS, SECOND)
    for output in outputs(30):
        inspection.offer(output, output.key)
    said = [Opinion(key, True) for key in inspection.sample()] + [Opinion("no such key", False)] * 50
    assert inspection.weigh(said).wrong == 0


@pytest.mark.parametrize(
    "terms", [Terms(tolerated=0.3), Terms(confidence=1.0), Terms(found=1.2), Terms(tolerated=-0.1)]
)
def test_terms_that_no_sample_can_meet_are_refused(terms: Terms) -> None:
    with pytest.raises(FleetError):
        Inspection(terms, SECOND)


@pytest.mark.parametrize("seed", range(40))
def test_a_check_that_is_said_to_fail_fails_however_the_rest_comes_out(seed: int) -> None:
    """Over any end that the work may still take: which of the others are answered, and that all of these are right."""
    dice = random.Random(seed)
    asked = dice.randint(5, 150)
    names = [f"i{number}" for number in range(asked)]
    wrong = set(dice.sample(names, round(asked * dice.random())))
    places = {name: place for place, name in enumerate(sorted(names, key=lambda name: rank("one", name)), 1)}
    dice.shuffle(names)
    answered = names[: dice.randint(1, asked)]
    seen = [name for name in answered if name in wrong]
    inspection = Inspection(Terms(seed="one"), SECOND)
    is_lost = inspection.fails([places[name] for name in seen], len(answered), asked)
    for _ in range(10):
        rest = [name for name in names if name not in answered]
        end = answered + dice.sample(rest, dice.randint(0, len(rest)))
        final = Inspection(Terms(seed="one"), SECOND)
        for name in end:
            final.offer(Output(task="t", items=(name,), provider="one", value=name), name)
        standing = final.weigh(Opinion(key, key not in seen) for key in final.sample()).standing
        assert not is_lost or standing == "failed"
    if len(answered) == asked:
        assert is_lost == (standing == "failed"), "once all is answered the two are the same"


def test_what_is_drawn_does_not_depend_on_what_is_answered() -> None:
    def sample(word: str, count: int) -> list[str]:
        inspection = Inspection(Terms(seed="one"), SECOND)
        for number in range(count):
            inspection.offer(Output(task=word, items=(f"i{number}",), value=word), f"{word}.{number}")
        return [key.partition(".")[2] for key in inspection.sample()]

    assert sample("right", 300) == sample("wrong", 300)
    assert set(sample("right", 299)) - set(sample("right", 300)) <= {sample("right", 299)[-1]}
