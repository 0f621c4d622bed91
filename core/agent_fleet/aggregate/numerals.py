"""Numbers told in words, as digits: "twenty-three", "ten thousand", "1.5 k", "half an hour". Pure, and English."""

from __future__ import annotations

import re
from fractions import Fraction

_ONES = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
SMALL = {
    "zero": 0,
    **{word: place + 1 for place, word in enumerate(_ONES)},
    **{word: 10 * (place + 2) for place, word in enumerate(_TENS)},
}
_SCALES = {"hundred": 100, "dozen": 12, "thousand": 1000, "million": 10**6, "billion": 10**9, "bn": 10**9}
_PARTS = "half third quarter fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
PARTS = {word: place + 2 for place, word in enumerate(_PARTS)} | {
    "halve": 2,
    "fourth": 4,
    "hundredth": 100,
    "thousandth": 1000,
}

_DIGITS = r"\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,9})?(?![\d.])|\d{1,15}(?:\.\d{1,9})?(?![\d.]*\d)"
_SIMPLE = "|".join([*_ONES, *_TENS])
_SCALE = "|".join(_SCALES)
_HEAD = rf"an?(?=(?:\s+|-)(?:{_SCALE}))|{_SIMPLE}|(?:{_DIGITS})(?=(?:\s+|-)(?:{_SCALE}))"
_RUN = re.compile(rf"(?<![\w.,-])(?:{_HEAD})(?:(?:\s+|-)(?:and\s+)?(?:{_SIMPLE}|{_SCALE}))*(?!\w)", re.I)
_SHORT = re.compile(rf"(?<![\w.])({_DIGITS})\s?(?:(k)|(M))(?![\w./-])")
_MONEY = re.compile(rf"(?<!\w)((?:[€$]|eur |usd )\s?(?:{_DIGITS}))\s?m(?!\w)", re.I)
_AND_A_HALF = re.compile(rf"(?<![\w.])({_DIGITS}|{_SIMPLE}|an?) (?:([a-z]+) )?and a half(?: ([a-z]+))?", re.I)
_PART_OF_ONE = re.compile(
    rf"(?<![\w-])(?:(an?|{_SIMPLE}|\d{{1,9}})[\s-])?({'|'.join(PARTS)})s?(?:-|\s(?:of\s)?an?\s)([a-z]+)(?![\w-])", re.I
)
_HALF_DOZEN = re.compile(r"(?<![\w-])half an? dozen(?![\w-])", re.I)
_FORTNIGHT = re.compile(r"(?<![\w-])(?:an? |the )?fortnight(?![\w-])", re.I)


def digits(text: str, units: frozenset[str]) -> str:
    """The text with numbers of more than one word, and parts of one of the `units`, in digits; single small ones stay."""
    text = _HALF_DOZEN.sub("6", _FORTNIGHT.sub("14 days", text))
    text = _RUN.sub(_run, text)
    text = _RUN.sub(_run, _MONEY.sub(lambda match: f"{match[1]} million", text))
    text = _SHORT.sub(lambda match: written(_value(match[1]) * (1000 if match[2] else 10**6)), text)
    text = _AND_A_HALF.sub(_and_a_half, text)
    return _PART_OF_ONE.sub(lambda match: _part_of_one(match, units), text)


def written(value: Fraction) -> str:
    """A value of at most thirty digits as decimal digits, rounded to seven places."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.7f}".rstrip("0").rstrip(".")


def count(word: str) -> int | None:
    """The whole number that a word, or "a", says; None if it says none."""
    lower = word.lower()
    return 1 if lower in ("a", "an") else int(lower) if lower.isdecimal() else SMALL.get(lower)


def _value(said: str) -> Fraction:
    known = count(said)
    return Fraction(said.replace(",", "")) if known is None else Fraction(known)


def _run(match: re.Match[str]) -> str:
    """A run of words of number, if it is one number; what is single and below twenty stays a word."""
    said = [word for word in re.split(r"\s+|-", match[0].lower()) if word != "and"]
    if len(said) == 1:
        return str(SMALL[said[0]]) if said[0] in _TENS else match[0]
    total = part = Fraction(0)
    for before, word in zip(["", *said], said, strict=False):
        scale = _SCALES.get(word, 0)
        if scale >= 1000:
            total, part = total + (part or Fraction(1)) * scale, Fraction(0)
        elif scale:
            part = (part or Fraction(1)) * scale
        elif not before or before in _SCALES or (before in _TENS and SMALL[word] < 10):
            part += _value(word)
        else:
            return match[0]  # "one two": a list, or a code
    return written(total + part) if total + part < 10**30 else match[0]


def _and_a_half(match: re.Match[str]) -> str:
    """Also with the unit before it: "an hour and a half"."""
    number, before, after = match.groups()
    return " ".join([written(_value(number) + Fraction(1, 2)), *filter(None, (before, after))])


def _part_of_one(match: re.Match[str], units: frozenset[str]) -> str:
    many, part, unit = match.groups()
    if unit.lower().removesuffix("s") not in units:
        return match[0]
    return f"{written(Fraction(count(many or 'a') or 0, PARTS[part.lower()]))} {unit}"
