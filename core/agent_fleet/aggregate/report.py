"""What a run came to, as values: coverage first, then the check, then what was found, by category."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent_fleet.aggregate.coverage import Coverage, Gap
from agent_fleet.aggregate.outputs import Output
from agent_fleet.aggregate.verification import Verification


@dataclass(frozen=True, slots=True)
class Link:
    """Another answer that says the same: its key, how that was found, and how alike. `by` is `equal`, `words`, `cosine`, `score` or
    `judged`.
    """

    key: str
    by: str
    score: float


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was found: the answer that is shown, its category, and the others that say the same."""

    key: str
    kind: str
    category: str
    confidence: float | None
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """Two answers of which a person should say whether they are the same."""

    one: str
    two: str
    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that breaks its contract, kept aside."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Rate:
    """How many answers of one kind there were, and how many said what another said."""

    answers: int
    linked: int

    @property
    def share(self) -> float:
        """The share that was linked to another answer."""
        return self.linked / self.answers if self.answers else 0.0


class Cost(NamedTuple):
    """What all of it has cost: in words, as tokens, and as an amount with its basis, as in the ledger; None if unknown."""

    said: str
    tokens: int | None
    money: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What somebody said, named in `by`, who was asked of `asked` pairs whether they say the same; of `unsure` ones nothing valid
    was said. `left` were not asked about; `why` says why.
    """

    by: str
    asked: int
    same: int
    different: int
    unsure: int
    left: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole run. `output` gives the answer of a key; `asked_about` counts all questions, of which the strongest are listed;
    `compared` says by what answers were linked, with the name and version of the model; `judged` what was said by who was asked
    (None: nobody). `gaps` are items without an answer, of `lacking` in all; `name` says for a person what an item is. `cost` is
    None where nobody counts it.
    """

    title: str
    verdict: str
    clean: bool
    coverage: Coverage
    verification: Verification
    rates: Mapping[str, Rate]
    compared: str
    entries: tuple[Entry, ...]
    questions: tuple[Question, ...]
    asked_about: int
    refused: tuple[Refused, ...]
    repeated: int
    output: Callable[[str], Output]
    gaps: tuple[Gap, ...] = ()
    lacking: int = 0
    name: Callable[[str], str] = str
    judged: Judgement | None = None
    cost: Cost | None = None


def verdict(coverage: Coverage, verification: Verification, least: float) -> tuple[str, bool]:
    """The verdict in words, and whether it is clean. Nothing is clean that was not covered, or whose check did not pass."""
    answered = f"{coverage.answered:,} of {coverage.asked:,}"
    if coverage.asked == 0:
        return "no verdict: nothing was asked", False
    if coverage.share < least:
        return f"no verdict: only {answered} were answered", False
    if verification.standing == "failed":
        return f"not clean: {verification.wrong} of {verification.checked} checked answers are wrong", False
    if coverage.open:
        return f"no verdict yet: {answered} were answered, {coverage.open:,} are open", False
    if verification.standing == "unproved":
        return f"not clean: {verification.unknown} of the answers to be checked could not be judged", False
    if verification.standing == "not checked":
        return f"complete, not verified: {answered} were answered", False
    return f"clean: {answered} were answered, and the check passed", True
