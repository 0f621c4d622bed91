"""What the numbers of a text come to, though it does not write it: "1 in 5" is 20 percent, 37 of 40 leave 3. Pure, and English."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from fractions import Fraction

from agent_fleet.aggregate import numerals
from agent_fleet.aggregate.quantities import ORDINALS, Quantity

_NUMBER = rf"\d{{1,9}}(?:,\d{{3}})*|an?|{'|'.join(numerals.SMALL)}"
_RATIO = re.compile(
    rf"(?<![\w.,-])({_NUMBER})(?: [\w-]+){{0,2}}? (?:of|out of|in|in every|from|among)(?: the| every| all| our)? ({_NUMBER})"
    r"(?![\w.,]*\w)",
    re.I,
)
_PART = re.compile(rf"(?<![\w-])(?:({_NUMBER})[\s-])?({'|'.join(numerals.PARTS)})s?(?![\w-])", re.I)
_EVERY = re.compile(
    rf"(?<![\w-])(?:every|each) (?:(other)|({'|'.join(ORDINALS)})|(\d{{1,9}})(?:st|nd|rd|th))(?![\w-])", re.I
)
_LONG = {"month": Fraction(2629800), "year": Fraction(31557600)}  # seconds
_MOST = 12  # numbers of one text that are reckoned with each other
_LARGEST = 10**15


def shares(text: str) -> frozenset[Quantity]:
    """The shares that a text tells by two numbers or a part: "3 of 4", "a third", "every tenth"."""
    ratios = [[numerals.count(each.replace(",", "")) for each in pair] for pair in _RATIO.findall(text)]
    found = [Fraction(part, whole) for part, whole in ratios if part is not None and whole and part <= whole]
    found += [
        Fraction(numerals.count(many or "a") or 0, numerals.PARTS[part.lower()]) for many, part in _PART.findall(text)
    ]
    places = [2 if other else int(ORDINALS.get(word.lower(), number)) for other, word, number in _EVERY.findall(text)]
    return frozenset(_share(each) for each in [*found, *(Fraction(1, place) for place in places if place)])


def readings(said: Iterable[Quantity]) -> frozenset[Quantity]:
    """Each quantity by other measures: a month in seconds, a loss as a gain below zero, 0.7 as a share, a number as a place."""
    found: set[Quantity] = set()
    for each in said:
        value = each.number
        if value is None:
            continue
        found.add(Quantity(str(-value), each.dimension, None if each.value is None else -value))
        if each.dimension in _LONG:
            seconds = value * _LONG[each.dimension]
            found |= {_about("time", seconds), _about("year", seconds / _LONG["year"])}
        if each.dimension in ("", "place"):
            found |= {Quantity(str(value)), Quantity(str(value), "place"), _share(value)}
    return frozenset(found)


def reckoned(said: Iterable[Quantity]) -> frozenset[Quantity]:
    """What comes of any two of the quantities: sum, difference, product, quotient, and the rest to a whole of 100 percent."""
    known = [(each, number) for each in said if (number := each.number) is not None and abs(number) < _LARGEST]
    known = sorted(known, key=lambda each: (str(each[0]), each[1]))[:_MOST]
    found = {_about("share", 100 - number) for each, number in known if each.dimension == "share"}
    for (one, first), (_, second) in itertools.permutations(known, 2):
        found |= {
            _like(one, each) for each in (first + second, abs(first - second), first * second, first * second / 100)
        }
        if second:
            ratio = first / second
            found |= {_about("", ratio), _like(one, ratio), _share(ratio), _share(abs(ratio - 1))}
    return frozenset(found)


def _like(said: Quantity, value: Fraction) -> Quantity:
    return _about(said.dimension, value)


def _share(value: Fraction) -> Quantity:
    return _about("share", value * 100)


def _about(dimension: str, value: Fraction) -> Quantity:
    return Quantity("", dimension, value, about=True)
