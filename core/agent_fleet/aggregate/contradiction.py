"""What two texts contradict each other in beyond doubt, and what rules only suspect. Pure.

Rules cannot read. They are sure of a value that both texts state where the words around it are the same, or of which both state
another for the same measure; and of opposites only where nothing else differs. All else that they find is a suspicion: it keeps
texts apart as long as nobody is asked, and is no more than a question to who can read.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

from agent_fleet.aggregate import direction, mentions, polarity, proportions, quantities
from agent_fleet.aggregate.facts import Facts, doubt, fields_differ, names_differ, ordered, overlap, turned, veto
from agent_fleet.aggregate.quantities import Quantity

# Shares of the words that both have, numbers left out; set by labelled texts that are no part of tests/data. From the first on
# two values may be about the same thing, from the second on a suspicion is worth a question, from the third on any value counts,
# and from the fourth, if the words also stand in the same order, an opposite.
_RELATED = 0.2
_FRAME = 0.6
_SAME = 0.7
_ORDER = 0.85


def certain(mine: Facts, other: Facts) -> str:
    """What they contradict each other in beyond doubt, in words; empty if nothing. Symmetric."""
    if mine is other:
        return ""
    first, second = ordered(mine, other)
    frame = overlap(frame_of(first), frame_of(second))
    return (
        fields_differ(first.fields, second.fields)
        or _numbers(first, second, frame)
        or _names(first, second, frame)
        or _opposites(first, second, frame)
    )


def suspicion(mine: Facts, other: Facts) -> str:
    """What speaks against it that they are the same, in words, where they are near enough for it to mean anything. Symmetric."""
    near = mine is not other and overlap(frame_of(mine), frame_of(other)) >= _RELATED
    return (veto(mine, other) or doubt(mine, other)) if near else ""


def frame_of(facts: Facts) -> frozenset[str]:
    """The stems of a text without its numbers: what its values are said about."""
    return frozenset(root for root in facts.stems if not quantities.is_number(root) and not any(map(str.isdigit, root)))


def _numbers(mine: Facts, other: Facts, frame: float) -> str:
    """Numbers that each has alone: any of one dimension in the same frame, else those of one measure that no sum explains."""
    if frame < _RELATED:
        return ""
    alike = frame >= _FRAME
    here, there = (each.quantities | (each.shares if alike else frozenset()) for each in (mine, other))
    if here <= there or there <= here:
        return ""
    left = _alone(here, _implied(there, other.shares, alike))
    right = _alone(there, _implied(here, mine.shares, alike))
    pairs = ((one, two) for one in left for two in right)
    return next((f"{one} is not {two}" for one, two in pairs if _comparable(one, two, alike)), "")


def _implied(said: frozenset[Quantity], shares: frozenset[Quantity], alike: bool) -> frozenset[Quantity]:
    """What the numbers of a text say, in any measure; and what comes of them where the other may have reckoned."""
    found = said | shares | proportions.readings(said)
    return found if alike else found | proportions.reckoned(said) | proportions.reckoned(shares)


def _alone(said: Iterable[Quantity], others: frozenset[Quantity]) -> list[Quantity]:
    return sorted((each for each in said if not any(each.agrees(other) for other in others)), key=str)


def _comparable(one: Quantity, two: Quantity, alike: bool) -> bool:
    if one.dimension != two.dimension:
        return False
    if one.dimension == "":
        return alike or bool(one.thing and one.thing.rstrip("s") == two.thing.rstrip("s"))
    return alike or one.dimension != "place"


def _names(mine: Facts, other: Facts, frame: float) -> str:
    """Paths and identifiers; and in the same frame names and what is marked as code."""
    if frame < _RELATED:
        return ""
    found = mentions.disagreement(mine.mentions, other.mentions, mine.vocabulary, other.vocabulary)
    if found or frame < _FRAME:
        return found
    here = mentions.unabridged(mine.names | mine.spans, other.vocabulary)
    there = mentions.unabridged(other.names | other.spans, mine.vocabulary)
    return names_differ(here, there, mine.vocabulary, other.vocabulary)


def _opposites(mine: Facts, other: Facts, frame: float) -> str:
    """Words exchanged where all are the same, or opposites where all others are, in the same order."""
    if mine.sequence == other.sequence:
        return ""
    if frame >= _SAME and sorted(mine.sequence) == sorted(other.sequence):
        return direction.disagreement(mine.roles, other.roles) or turned(mine, other)
    if not _is_one_place(mine, other) and (
        frame < _SAME or SequenceMatcher(None, mine.sequence, other.sequence, autojunk=False).ratio() < _ORDER
    ):
        return ""
    return polarity.disagreement(mine.polarity, other.polarity) or direction.disagreement(mine.roles, other.roles)


def _is_one_place(mine: Facts, other: Facts) -> bool:
    """Whether the texts differ in one word alone, one for another."""
    if len(mine.sequence) != len(other.sequence):
        return False
    return sum(here != there for here, there in zip(mine.sequence, other.sequence, strict=True)) == 1
