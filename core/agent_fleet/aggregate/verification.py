"""A second pool looks at a random sample of the answers; its failure rate is a figure of the report and can stop the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agent_fleet.aggregate.outputs import Output
from agent_fleet.aggregate.sampling import ENDLESS, MOST, Plan, Sampler, interval, plan, roughly
from agent_fleet.errors import FleetError

_EFFORT = 10**7  # squares of sizes of planned samples, over all of them: about two seconds

Standing = Literal["not checked", "passed", "failed", "unproved"]


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a checker says of one answer: right, wrong, or None where it could not tell."""

    key: str
    right: bool | None
    why: str = ""


class Checker(Protocol):
    """The second pool. It never judges what it made itself."""

    @property
    def maker(self) -> tuple[str, str, str]:
        """Its provider, model and account."""
        ...

    def check(self, outputs: Iterable[Output]) -> Iterable[Opinion]:
        """An opinion on each, in any order; one that is missing counts as "could not tell"."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How well a run is checked. `confidence` holds for both promises: a pool at `tolerated` is not blamed, one at `found` is."""

    seed: str = "fleet"
    confidence: float = 0.95
    tolerated: float = 0.05
    found: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found. `rate` is None if nothing was checked; the interval counts what could not be told as right, then as wrong.

    More than `allowed` wrong ones in the sample prove, by `terms`, that too many are wrong.
    """

    standing: Standing
    population: int = 0
    checked: int = 0
    wrong: int = 0
    unknown: int = 0
    rate: float | None = None
    least: float = 0.0
    most: float = 1.0
    confidence: float = 0.0
    opinions: tuple[Opinion, ...] = ()
    allowed: int = 0
    terms: Terms | None = None

    @property
    def stops(self) -> bool:
        """Whether the run should stop: too many answers are wrong, with the stated confidence."""
        return self.standing == "failed"


def promise(found: Verification) -> str:
    """What the sample can tell, in words; for a verification with terms."""
    terms, size = found.terms or Terms(), found.checked + found.unknown
    if size == found.population:
        return f"all {size:,} answers, of which {found.allowed} may be wrong"
    return (
        f"{size:,} of {found.population:,} answers, drawn by the seed {terms.seed}; with {terms.confidence:.0%} confidence, more "
        f"than {found.allowed} wrong ones say that more than {terms.tolerated:.0%} of all are wrong, and no more than that many "
        f"that fewer than {terms.found:.0%} are"
    )


class Inspection:
    """Draws the sample while answers come in, and weighs the opinions on it."""

    def __init__(self, terms: Terms, checker: tuple[str, str, str]) -> None:
        """`checker` is who will check. Raises `bad_input` for terms that no sample can meet."""
        if not (0 <= terms.tolerated < terms.found <= 1 and 0.5 <= terms.confidence < 1):
            what = "a check needs 0 ≤ tolerated < found ≤ 1 and a confidence from 0.5 to below 1"
            raise FleetError("bad_input", what, hint="change the terms of the verification")
        if roughly(terms.tolerated, terms.found, terms.confidence) > MOST:
            what = f"to tell {terms.tolerated:g} wrong from {terms.found:g} takes more than {MOST:,} answers"
            raise FleetError("bad_input", what, hint="let found be further above tolerated, or ask for less confidence")
        self._terms = terms
        self._checker = checker
        self._population = 0
        self._plans: dict[int, Plan] = {}
        self._sampler = Sampler(terms.seed, self._plan(ENDLESS).size)

    def offer(self, output: Output, key: str) -> None:
        """Consider one valid answer; what the checker made itself is left out. It is drawn by what was asked, not by what it says:
        whether an item is in the sample is known before it is answered.
        """
        if output.maker != self._checker:
            self._population += 1
            self._sampler.offer(key, "\n".join(output.items))

    def sample(self) -> tuple[str, ...]:
        """The keys of the answers to check."""
        return self._sampler.chosen(self._plan(self._population).size) if self._population else ()

    def weigh(self, opinions: Iterable[Opinion]) -> Verification:
        """What the opinions on the sample say of all answers."""
        sample = self.sample()
        if not sample:
            return Verification(standing="not checked")
        said = {key: Opinion(key, None) for key in sample}
        for opinion in opinions:
            if opinion.key in said:
                said[opinion.key] = opinion
        wrong = sum(opinion.right is False for opinion in said.values())
        unknown = sum(opinion.right is None for opinion in said.values())
        size, most = len(sample), self._plan(self._population).most
        confidence = self._terms.confidence
        standing: Standing = "failed" if wrong > most else "passed" if wrong + unknown <= most else "unproved"
        return Verification(
            standing=standing if unknown < size else "not checked",
            population=self._population,
            checked=size - unknown,
            wrong=wrong,
            unknown=unknown,
            rate=wrong / (size - unknown) if unknown < size else None,
            least=interval(self._population, size, wrong, confidence)[0],
            most=interval(self._population, size, wrong + unknown, confidence)[1],
            confidence=confidence,
            opinions=tuple(said.values()),
            allowed=most,
            terms=self._terms,
        )

    def fails(self, places: Sequence[int], answered: int, asked: int) -> bool:
        """Whether the check fails however the rest is answered and checked. `places` are those of the wrong answers in the order
        drawn over all that was `asked`, from 1; so many are `answered`, and between these and `asked` will be in the end.

        What is never answered only brings others forward, so a wrong answer is in every sample that reaches its place. Where to
        know that would take longer than a moment, it is not said.
        """
        size, most = self._plan(asked).size, self._plan(asked).most
        if sum(place <= size for place in places) <= most or (asked - answered) * size**2 > _EFFORT:
            return False
        plans = map(self._plan, range(max(1, answered), asked + 1))
        return all(sum(place <= plan.size for place in places) > plan.most for plan in plans)

    def planned(self, population: int) -> int:
        """The size of the sample of so many answers."""
        return self._plan(population).size if population else 0

    def _plan(self, population: int) -> Plan:
        if population not in self._plans:
            self._plans[population] = plan(
                population,
                tolerated=self._terms.tolerated,
                found=self._terms.found,
                confidence=self._terms.confidence,
            )
        return self._plans[population]
