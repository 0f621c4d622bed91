"""How many of a run's answers are to be checked, which, and what that says of all of them. Pure, exact, and without approximation.

Without replacement the number of wrong ones in a sample is hypergeometric; bounds are those of Clopper and Pearson for it.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

# What takes the place of a population whose size is not known yet.
ENDLESS = 10**7

# A larger sample is nobody's to check, and would take minutes to plan.
MOST = 2000


@dataclass(frozen=True, slots=True)
class Plan:
    """Check `size` answers; more than `most` wrong ones prove that too many are wrong."""

    size: int
    most: int


def at_most(count: int, population: int, wrong: int, size: int) -> float:
    """The probability of at most `count` wrong ones in a sample of `size`, if `wrong` of the population are."""
    first = max(0, size - (population - wrong))
    whole = _choose(population, size)
    terms = (
        math.exp(_choose(wrong, each) + _choose(population - wrong, size - each) - whole)
        for each in range(first, min(count, wrong, size) + 1)
    )
    return min(1.0, math.fsum(terms))


def plan(population: int, *, tolerated: float, found: float, confidence: float) -> Plan:
    """The smallest check that keeps both promises with that confidence.

    If no more than the share `tolerated` is wrong, it is not said that too many are; if the share `found` or more is wrong, it is.
    Where no sample can do that, everything is checked.
    """
    fine, bad = math.floor(tolerated * population + 1e-9), math.ceil(found * population - 1e-9)
    most = 0
    for size in range(1, population):
        while at_most(most, population, fine, size) < confidence:
            most += 1
        if 1 - at_most(most, population, bad, size) >= confidence:
            return Plan(size, most)
    return Plan(population, fine)


def roughly(tolerated: float, found: float, confidence: float) -> float:
    """About how large a sample of an endless population has to be, by the normal approximation: to refuse, not to plan."""
    spread = math.sqrt(tolerated * (1 - tolerated)) + math.sqrt(found * (1 - found))
    return (NormalDist().inv_cdf(confidence) * spread / (found - tolerated)) ** 2


def interval(population: int, size: int, wrong: int, confidence: float) -> tuple[float, float]:
    """The shares of wrong ones in the whole population that the sample does not exclude, from least to most."""
    if size == 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    least, most = wrong, population - (size - wrong)
    low = _first(least, most, lambda total: 1 - at_most(wrong - 1, population, total, size) > tail) if wrong else least
    high = _first(least, most, lambda total: at_most(wrong, population, total, size) <= tail) - 1
    if at_most(wrong, population, most, size) > tail:
        high = most
    return low / population, max(low, high) / population


def rank(seed: str, lot: str) -> int:
    """The place of a lot in the order that is drawn from the seed: a keyed digest of it, so that nothing else has a say in it."""
    key = hashlib.sha256(seed.encode()).digest()
    return int.from_bytes(hashlib.blake2b(lot.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest())


class Sampler:
    """Keeps the `size` names that come first in an order drawn from the seed: the same ones in whatever order they are offered."""

    def __init__(self, seed: str, size: int) -> None:
        self._seed = seed
        self._size = size
        self._kept: list[tuple[int, str]] = []

    def offer(self, name: str, lot: str = "") -> None:
        """Consider one name, each once; `lot` is what is drawn for it, by default the name itself."""
        entry = (-rank(self._seed, lot or name), name)
        if len(self._kept) < self._size:
            heapq.heappush(self._kept, entry)
        elif self._kept:
            heapq.heappushpop(self._kept, entry)

    def chosen(self, size: int) -> tuple[str, ...]:
        """The first `size` of them, in the order drawn."""
        return tuple(name for _, name in sorted(self._kept, key=lambda entry: (-entry[0], entry[1]))[:size])


def _choose(total: int, some: int) -> float:
    """The logarithm of the number of ways; minus infinity where there is none."""
    if not 0 <= some <= total:
        return -math.inf
    return math.lgamma(total + 1) - math.lgamma(some + 1) - math.lgamma(total - some + 1)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first whole number from low to high for which a monotone statement holds; high if none before it does."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
