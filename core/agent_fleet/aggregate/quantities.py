"""Numbers with their units, dates and versions, as facts that must agree. Pure.

Units are turned into one base within their dimension, so that 5,000 ms is 5 s, and 5 s is not 5 min. KB is 1,000 bytes,
KiB 1,024.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from agent_fleet.aggregate import numerals

_SCALES: dict[str, dict[str, float]] = {
    "time": {
        "ns nanosecond": 1e-9, "us µs microsecond": 1e-6, "ms msec millisecond": 1e-3, "s sec second": 1,
        "min minute": 60, "h hr hour": 3600, "d day": 86400, "week": 604800,
    },
    "bytes": {
        "b byte": 1, "kb kilobyte": 1e3, "mb megabyte": 1e6, "gb gigabyte": 1e9, "tb terabyte": 1e12,
        "kib": 1024, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
    },
    "share": {"% percent": 1},
    "length": {"mm millimetre millimeter": 1e-3, "cm centimetre centimeter": 1e-2, "metre meter": 1, "km kilometre kilometer": 1e3},
    "mass": {"mg milligram": 1e-3, "g gram": 1, "kg kilogram": 1e3},
    "euro": {"€ eur euro": 1},
    "dollar": {"$ usd dollar": 1},
    "celsius": {"°c celsius": 1},
    "fahrenheit": {"°f fahrenheit": 1},
    "frequency": {"hz hertz": 1, "khz": 1e3, "mhz": 1e6, "ghz": 1e9},
    "month": {"month": 1},
    "year": {"year": 1},
}  # fmt: skip
UNITS = {
    name: (dimension, Fraction(str(scale)))
    for dimension, scales in _SCALES.items()
    for names, scale in scales.items()
    for name in names.split()
}
_SPELLED = {word: number for word, number in numerals.SMALL.items() if word != "one"} | {"once": 1, "twice": 2}
_ROOM = Fraction(1, 20)  # within which what was reckoned, or told by a rounded measure, is the same
ORDINALS = {
    word: str(place + 2)
    for place, word in enumerate("second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split())
}
_PLACE = re.compile(rf"(?<![\w-])(?<!\d )(?:({'|'.join(ORDINALS)})|(\d+)(?:st|nd|rd|th))(?![\w-])", re.I)
_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = "|".join(_MONTHS)
_ISO = re.compile(r"(?<![\w.-])(\d{4})-(\d{2})-(\d{2})(?![\w-])")
_DAY_MONTH = re.compile(rf"(?<!\w)(\d{{1,2}})(?:st|nd|rd|th)?\.? (?:of )?({_MONTH}),? (\d{{4}})(?!\w)", re.I)
_MONTH_DAY = re.compile(rf"(?<!\w)({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})(?!\w)", re.I)
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+){2,}(?:[-+][\w.]+)?)(?!\w)", re.I)
_NUMBER = re.compile(
    r"(?P<mark>[$€])?\s?(?<![\w.])(?P<sign>-(?=\d)|minus )?(?P<digits>\d{1,3}(?:[,  ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?P<unit>\s?(?:%|°[cf]\b|€|\$)|[\s-]?[a-zµ]+\b)?"
    r"(?:(?= degrees)(?: degrees (?P<degrees>celsius|fahrenheit)))?",
    re.I,
)
# "once the cache is filled" is no number.
_ONCE = re.compile(
    r"(?<![\w-])once(?=\s+(?:the|an?|it|they|he|she|this|that|these|its|all|more|\d+)\b)|(?<=\bat )once\b", re.I
)
_WORDS = re.compile(rf"(?<![\w-])({'|'.join(_SPELLED)})(?:[\s-]([a-z]+))?(?![\w-])", re.I)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, a date or a version. `value` is in the dimension's base unit; `raw` is what was written.

    `thing` is the word after a number without a unit. What is `about` was reckoned, and agrees with what is near it.
    """

    raw: str
    dimension: str = ""
    value: Fraction | None = None
    thing: str = field(default="", compare=False)
    about: bool = False

    @property
    def number(self) -> Fraction | None:
        """The value in the base unit, or as it was written where there is no unit; None for a date or a version."""
        return Fraction(self.raw) if self.value is None and self.dimension in ("", "place") else self.value

    def agrees(self, other: Quantity) -> bool:
        """Whether both can be the same: equal in the base unit, or as written where one of them names no unit."""
        if self.about or other.about:
            return self.dimension == other.dimension and self._is_near(other)
        if self.dimension and other.dimension:
            return (
                self.dimension == other.dimension
                and self.value == other.value
                and (self.value is not None or self.raw == other.raw)
            )
        return self.raw == other.raw

    def _is_near(self, other: Quantity) -> bool:
        mine, theirs = self.number, other.number
        if mine is None or theirs is None:
            return False
        room = 1 if self.dimension == "share" else max(abs(mine), abs(theirs)) * _ROOM
        return abs(mine - theirs) <= room

    def __str__(self) -> str:
        return f"{self.raw or f'{float(self.value or 0):g}'} {self.dimension}".strip()


def quantities(text: str) -> tuple[frozenset[Quantity], str]:
    """The quantities of a text, and the text with dates and versions blanked out of it."""
    found: set[Quantity] = set()
    for pattern, order in ((_ISO, (1, 2, 3)), (_DAY_MONTH, (3, 2, 1)), (_MONTH_DAY, (3, 1, 2))):
        for match in pattern.finditer(text):
            year, month, day = (match[place] for place in order)
            number = int(month) if month.isdecimal() else _MONTHS.index(month.lower()) + 1
            found.add(Quantity(f"{year}-{number:02}-{int(day):02}", "date"))
        text = pattern.sub(" ", text)
    found.update(Quantity(match[1].lower(), "version") for match in _VERSION.finditer(text))
    text = _VERSION.sub(" ", text)
    said = numerals.digits(text, frozenset(UNITS))
    found.update(_numbers(said))
    found.update(
        Quantity(ORDINALS[match[1].lower()] if match[1] else match[2], "place") for match in _PLACE.finditer(said)
    )
    for match in _WORDS.finditer(_ONCE.sub(" ", said)):
        found.add(_quantity(Fraction(_SPELLED[match[1].lower()]), (match[2] or "").lower()))
    return frozenset(found), text


def is_number(word: str) -> bool:
    """Whether the word, in lower case, is a whole number in digits or spelled out."""
    return word.isdecimal() or word in _SPELLED


def disagreement(mine: Iterable[Quantity], others: Iterable[Quantity]) -> str:
    """What each of two texts says that the other does not, in words; empty if one says no more than the other."""
    left, right = frozenset(mine), frozenset(others)
    if left <= right or right <= left:
        return ""
    here, there = unmatched(left - right, right), unmatched(right - left, left)
    return f"{here} is not {there}" if here and there else ""


def unmatched(mine: Iterable[Quantity], others: Iterable[Quantity]) -> str:
    """The first by its text that the others do not have; empty if they have all."""
    right = tuple(others)
    return min((str(each) for each in mine if not any(each.agrees(other) for other in right)), default="")


def _numbers(text: str) -> Iterable[Quantity]:
    for match in _NUMBER.finditer(text):
        digits = match["digits"].replace(",", "").replace(" ", "").replace(" ", "")
        value = Fraction(digits) * (-1 if match["sign"] else 1)
        unit = (match["degrees"] or match["mark"] or match["unit"] or "").strip(" -").lower()
        yield _quantity(value, unit)


def _quantity(value: Fraction, unit: str) -> Quantity:
    raw = str(value)
    known = UNITS.get(unit) or UNITS.get(unit.removesuffix("s")) if unit else None
    if known is None:
        return Quantity(raw, thing=unit)
    dimension, scale = known
    return Quantity(raw, dimension, value * scale)
