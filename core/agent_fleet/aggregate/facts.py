"""The facts of a text, and the veto: two texts whose facts differ are never one finding, whatever a score says. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from agent_fleet.aggregate import direction, mentions, polarity, proportions, quantities
from agent_fleet.aggregate.quantities import Quantity
from agent_fleet.aggregate.wording import STOP, content, phrases, plain, wording, words

_TEMPLATE = 0.7
_ALIKE = 0.4
_MOVED = 0.4
_PHRASES = 2500


@dataclass(frozen=True, slots=True)
class Facts:
    """What must agree. Two texts with equal facts are alike to the veto, so a group of texts keeps each of them once.

    `shares` are told by other numbers ("3 of 4"), `spans` are words that are marked as code.
    """

    quantities: frozenset[Quantity]
    shares: frozenset[Quantity]
    mentions: frozenset[str]
    names: frozenset[str]
    spans: frozenset[str]
    vocabulary: frozenset[str]
    polarity: polarity.Polarity
    roles: direction.Roles
    anchors: direction.Roles
    fields: frozenset[tuple[str, str]]
    clauses: tuple[tuple[str, ...], ...]
    phrases: tuple[tuple[str, ...], ...]
    meaning: tuple[str, ...]
    stems: frozenset[str]
    sequence: tuple[str, ...]
    wording: tuple[str, ...]


class FactReader:
    """Reads the facts of texts; made once, because its tables take time to make."""

    def __init__(self) -> None:
        self._compass = polarity.Compass()

    def read(self, text: str, fields: Iterable[tuple[str, str]] = ()) -> Facts:
        """The facts of one text; `fields` are values that must be equal wherever both texts have one of that name."""
        flat = plain(text)
        named, rest = mentions.mentions(flat)
        share = proportions.shares(rest)
        found, rest = quantities.quantities(rest)
        sequence = words(flat)
        return Facts(
            found,
            share,
            named,
            mentions.proper(rest) | mentions.named(rest),
            mentions.spans(text),
            frozenset(sequence.all),
            self._compass.read(sequence),
            direction.roles(sequence),
            direction.anchors(sequence),
            frozenset(fields),
            tuple(content(clause) for clause in sequence.clauses),
            tuple(sorted(content(phrase) for phrase in phrases(sequence))),
            tuple(dict.fromkeys(word for word in sequence.all if word not in STOP)),
            frozenset(content(sequence.all)),
            sequence.all,
            wording(flat),
        )


def veto(mine: Facts, other: Facts) -> str:
    """Why these two cannot be the same, in words; empty if no fact says so. It is symmetric."""
    if mine is other:
        return ""
    first, second = ordered(mine, other)
    named = (
        fields_differ(first.fields, second.fields)
        or quantities.disagreement(first.quantities, second.quantities)
        or mentions.disagreement(first.mentions, second.mentions, first.vocabulary, second.vocabulary)
        or names_differ(first.names, second.names, first.vocabulary, second.vocabulary)
    )
    if named or first.sequence == second.sequence:  # commas alone turn no sentence round
        return named
    return (
        polarity.disagreement(first.polarity, second.polarity)
        or direction.disagreement(first.roles, second.roles)
        or direction.exchanged(first.anchors, second.anchors)
        or turned(first, second)
        or _exchanged(first, second)
    )


def doubt(mine: Facts, other: Facts) -> str:
    """Why a person should look before these two are called the same, in words; empty if nothing speaks against it. Symmetric.

    The same sentence with another word in one place is most often the same finding about another thing, and one with a
    negation more the opposite, even where no list knows the words.
    """
    mine, other = ordered(mine, other)
    if mine.sequence == other.sequence:
        return ""
    more = quantities.unmatched(mine.quantities, other.quantities) or quantities.unmatched(
        other.quantities, mine.quantities
    )
    if more:
        return f"only one of them says {more}"
    here, there = ([word for clause in each.clauses for word in clause] for each in (mine, other))
    matcher = SequenceMatcher(None, here, there, autojunk=False)
    if matcher.ratio() >= _TEMPLATE:
        for what, from_here, to_here, from_there, to_there in matcher.get_opcodes():
            mine_alone = _alone(here[from_here:to_here], here, there)
            other_alone = _alone(there[from_there:to_there], there, here)
            same = any(mine.polarity.agrees(one, other.polarity, two) for one in mine_alone for two in other_alone)
            if what == "replace" and mine_alone and other_alone and not same:
                return f"{mine_alone[0]} stands where the other has {other_alone[0]}"
    common, both = len(set(here) & set(there)), len(set(here) | set(there))
    if common >= _ALIKE * both:
        for one, two in ((mine.polarity.poles, other.polarity.poles), (other.polarity.poles, mine.polarity.poles)):
            if any((axis, not side) in two and (axis, not side) not in one for axis, side in one):
                return "one of them says the opposite as well"
    odd = (mine.polarity.negations + other.polarity.negations) % 2
    if odd and common >= _ALIKE * both and not mine.polarity.explains(other.polarity):
        return "one of them has a negation more"
    return ""


def _alone(some: list[str], own: list[str], others: list[str]) -> list[str]:
    """Words that their text has more often than the other, but for those that deny and for numbers, which are compared before."""
    return sorted(
        word
        for word in set(some)
        if own.count(word) > others.count(word) and not polarity.is_denial(word) and not quantities.is_number(word)
    )


def ordered(mine: Facts, other: Facts) -> tuple[Facts, Facts]:
    """Both in an order that depends on nothing but themselves; their words decide for nearly all, and most cheaply."""
    if mine.clauses != other.clauses:
        return (mine, other) if mine.clauses < other.clauses else (other, mine)
    first, second = sorted((mine, other), key=_order)
    return first, second


def _order(facts: Facts) -> tuple[tuple[tuple[str, ...], ...], list[str], list[str]]:
    return facts.clauses, sorted(map(str, facts.quantities)), sorted(facts.mentions)


def overlap(mine: frozenset[str], other: frozenset[str]) -> float:
    """The share of stems that both have, of all that either has."""
    both = len(mine | other)
    return len(mine & other) / both if both else 0.0


def fields_differ(mine: frozenset[tuple[str, str]], other: frozenset[tuple[str, str]]) -> str:
    """The first field that both have and that is not equal, in words; empty if there is none."""
    here, there = dict(mine), dict(other)
    return next((f"{name} differs" for name in sorted(here.keys() & there.keys()) if here[name] != there[name]), "")


def names_differ(
    mine: frozenset[str], other: frozenset[str], my_words: frozenset[str], their_words: frozenset[str]
) -> str:
    """Names of each text that the other says nowhere, in words; empty if one of them names no more than the other says."""
    if mine <= their_words or other <= my_words:
        return ""
    here = sorted(each for each in mine if not mentions.is_said(each, their_words))
    there = sorted(each for each in other if not mentions.is_said(each, my_words))
    return f"{here[0]} is not {there[0]}" if here and there else ""


def turned(mine: Facts, other: Facts) -> str:
    """The same words in the same places but for a few that were exchanged; whole phrases may move, and the voice may change."""
    here = [word for clause in mine.clauses for word in clause]
    there = [word for clause in other.clauses for word in clause]
    if len(here) != len(there) or ("by" in mine.vocabulary) != ("by" in other.vocabulary):
        return ""
    moved = [place for place, word in enumerate(here) if word != there[place]]
    if not moved or len(moved) > max(2, _MOVED * len(here)):
        return ""
    if sorted(here[place] for place in moved) != sorted(there[place] for place in moved):
        return ""
    return f"{here[moved[0]]} and {there[moved[0]]} have changed places"


def _exchanged(mine: Facts, other: Facts) -> str:
    """Two words that each stand in the other's phrase."""
    if len(mine.phrases) * len(other.phrases) > _PHRASES:
        return ""  # a long text, of which only the order of its words is looked at
    partner = [
        max(other.phrases, key=lambda each: overlap(frozenset(phrase), frozenset(each))) for phrase in mine.phrases
    ]
    for first, one in enumerate(mine.phrases):
        for second, two in enumerate(mine.phrases[:first]):
            if partner[first] == partner[second]:
                continue
            left = set(one) & set(partner[second]) - set(partner[first]) - set(two)
            right = set(two) & set(partner[first]) - set(partner[second]) - set(one)
            if left and right and set(one) & set(partner[first]) and set(two) & set(partner[second]):
                return f"{min(left)} and {min(right)} have changed places"
    return ""
