"""What was asked and what became of it, told before anything else. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent_fleet.aggregate.outputs import DONE, SKIPPED, Output

INVALID = "invalid"
MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Items by what became of them; each is counted once. `failed` is by class, `unasked` are answers to what nobody asked."""

    asked: int
    answered: int
    skipped: int
    failed: Mapping[str, int] = field(default_factory=dict)
    unasked: int = 0

    @property
    def share(self) -> float:
        """The share that was answered; of nothing asked, all."""
        return self.answered / self.asked if self.asked else 1.0

    def __str__(self) -> str:
        parts = [f"{self.answered:,} of {self.asked:,} answered"]
        parts += [f"{number:,} failed ({name})" for name, number in self.failed.items()]
        parts += [f"{self.skipped:,} skipped"] if self.skipped else []
        parts += [f"{self.unasked:,} not asked for"] if self.unasked else []
        return " · ".join(parts)


class Tally:
    """Counts while outputs come in. An item that one output answers is answered, whatever others say of it."""

    def __init__(self, asked: Iterable[str] | None) -> None:
        """`asked` are the items of the input, or the tasks where these name no items; None takes what comes as what was asked."""
        self._asked = None if asked is None else frozenset(asked)
        self._became: dict[str, str] = {}

    def count(self, output: Output, fault: str) -> None:
        """One output, and what is wrong with it if it breaks its contract."""
        became = INVALID if output.outcome == DONE and fault else output.outcome
        for item in output.items or (output.task,):
            known = self._became.get(item)
            if known is None or _rank(became) < _rank(known):
                self._became[item] = became

    def coverage(self) -> Coverage:
        """What is known now."""
        asked = frozenset(self._became) if self._asked is None else self._asked
        became = Counter(self._became.get(item, MISSING) for item in asked)
        answered, skipped = became.pop(DONE, 0), became.pop(SKIPPED, 0)
        unasked = sum(became == DONE and item not in asked for item, became in self._became.items())
        failed = dict(sorted(became.items()))
        return Coverage(asked=len(asked), answered=answered, skipped=skipped, failed=failed, unasked=unasked)


def _rank(became: str) -> tuple[int, str]:
    """Done before skipped before failed; of two failures the first by name, so that the order of outputs does not matter."""
    return (0 if became == DONE else 1 if became == SKIPPED else 2), became
