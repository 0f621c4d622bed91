"""What was asked and what became of it, told before anything else. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_fleet.aggregate.outputs import DONE, OPEN, SKIPPED, Output
from agent_fleet.text import line

INVALID = "invalid"
MISSING = "missing"
_LONGEST = 300  # characters of a reason that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Items by what became of them; each is counted once. `failed` is by class, `open` may still be answered, `unasked` are
    answers to what nobody asked.
    """

    asked: int
    answered: int
    skipped: int
    failed: Mapping[str, int] = field(default_factory=dict)
    open: int = 0
    unasked: int = 0

    @property
    def share(self) -> float:
        """The share that was answered; of nothing asked, all."""
        return self.answered / self.asked if self.asked else 1.0

    def __str__(self) -> str:
        parts = [f"{self.answered:,} of {self.asked:,} answered"]
        parts += [f"{number:,} failed ({name})" for name, number in self.failed.items()]
        parts += [f"{self.skipped:,} skipped"] if self.skipped else []
        parts += [f"{self.open:,} open"] if self.open else []
        parts += [f"{self.unasked:,} not asked for"] if self.unasked else []
        return " · ".join(parts)


class Gap(NamedTuple):
    """An item without an answer: what became of it (a class of failure, `skipped`, `open`, `missing`), and why, as far as known."""

    item: str
    became: str
    why: str


class Tally:
    """Counts while outputs come in. An item that one output answers is answered, whatever others say of it."""

    def __init__(self, asked: Iterable[str] | None) -> None:
        """`asked` are the items of the input, or the tasks where these name no items; None takes what comes as what was asked."""
        self._asked = None if asked is None else dict.fromkeys(asked)
        self._became: dict[str, str] = {}
        self._why: dict[str, str] = {}

    def count(self, output: Output, fault: str) -> None:
        """One output, and what is wrong with it if it breaks its contract."""
        became = INVALID if output.outcome == DONE and fault else output.outcome
        why = "" if became == DONE else fault or line(output.why, _LONGEST)
        for item in output.items or (output.task,):
            known = self._became.get(item)
            if known is None or (*_rank(became), why) < (*_rank(known), self._why.get(item, "")):
                self._became[item] = became
                self._why[item] = why

    def coverage(self) -> Coverage:
        """What is known now."""
        asked = self._all()
        became = Counter(self._became.get(item, MISSING) for item in asked)
        answered, skipped, still = (became.pop(each, 0) for each in (DONE, SKIPPED, OPEN))
        unasked = sum(became == DONE and item not in asked for item, became in self._became.items())
        failed = dict(sorted(became.items()))
        return Coverage(
            asked=len(asked), answered=answered, skipped=skipped, failed=failed, open=still, unasked=unasked
        )

    def gaps(self) -> Iterator[Gap]:
        """What has no answer: the failed before the skipped before the open, each in the order in which it was asked for."""
        gaps = [
            Gap(item, became, self._why.get(item, ""))
            for item in self._all()
            if (became := self._became.get(item, MISSING)) != DONE
        ]
        return iter(sorted(gaps, key=lambda gap: (gap.became == OPEN, gap.became == SKIPPED)))

    def _all(self) -> Collection[str]:
        return sorted(self._became) if self._asked is None else self._asked


def _rank(became: str) -> tuple[int, str]:
    """Done before open before skipped before failed; of two failures the first by name: the order of outputs does not matter."""
    best = (DONE, OPEN, SKIPPED)
    return (best.index(became) if became in best else len(best)), became
