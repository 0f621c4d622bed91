"""Which way a text points: from and to, before and after, old and new, who does and who suffers. Pure, and English."""

from __future__ import annotations

from agent_fleet.aggregate.quantities import UNITS
from agent_fleet.aggregate.wording import STOP, Words, stem

Roles = frozenset[tuple[str, str]]

_OPPOSED = {"from": "to", "earlier": "later", "new": "old", "ahead": "behind", "does": "suffers"}
_PAIRS = {"->": ("from", "to"), "→": ("from", "to"), "than": ("ahead", "behind")}
_TIMES = ("before", "after", "once")
_REACH = 2
_NEAR = 6
# Verbs by the forms that are no nouns: "the import of contacts" does nothing to anything.
_DEEDS = frozenset(
    "imports imported calls called uses used blocks blocked depends extends extended owns triggers triggered beats exceeds "
    "overtakes deletes deleting deleted wraps wrapped includes precedes follows".split()
)
# Here one word with another part is enough; times and deeds are told in too many ways.
_SURE = frozenset(("from", "new"))


def roles(text: Words) -> Roles:
    """Words with the part that they play."""
    found: set[tuple[str, str]] = set()
    for number, clause in enumerate(text.clauses):
        for place, word in enumerate(clause):
            for role, hit in _at(clause, place, word):
                found.update((role, each) for each in hit)
        if clause[0] in _TIMES and len(text.clauses) > 1:
            beside = text.clauses[number - 1 if number else 1]
            role = "earlier" if clause[0] == "before" else "later"
            found.update((role, each) for each in (_last(beside, 3) if number else _next(beside, 4)))
    return frozenset(found)


def disagreement(mine: Roles, other: Roles) -> str:
    """Two words that have changed parts between the texts, in words; empty if none have."""
    for role, opposite in _OPPOSED.items():
        here = _only(mine, role, opposite) & _only(other, opposite, role)
        there = _only(mine, opposite, role) & _only(other, role, opposite)
        if (here and there) or (role in _SURE and (here or there)):
            return f"{min(here | there)} has another part: {role} and {opposite}"
    return ""


def anchors(text: Words) -> Roles:
    """Numbers and units, each with the words of its clause that stand nearer to it than to any other."""
    found = set()
    for clause in text.clauses:
        places = [place for place in range(len(clause)) if _is_anchor(clause, place)]
        for place, word in enumerate(clause):
            if word in STOP or not places or word[0].isdigit() or word.removesuffix("s") in UNITS:
                continue
            nearest = sorted((abs(place - each), each) for each in places)[:2]
            if nearest[0][0] <= _NEAR and (len(nearest) == 1 or nearest[0][0] < nearest[1][0]):
                found.add((clause[nearest[0][1]], stem(word)))
    return frozenset(found)


def _is_anchor(clause: tuple[str, ...], place: int) -> bool:
    word = clause[place]
    if "." in word:
        return False  # a measure or version is told with so many words that their places prove nothing
    return word[0].isdigit() or (word.removesuffix("s") in UNITS and not (place and clause[place - 1][0].isdigit()))


def exchanged(mine: Roles, other: Roles) -> str:
    """Two numbers or units that have changed places between the texts, in words; empty if none have."""
    here, there = dict[str, set[str]](), dict[str, set[str]]()
    for table, found in ((here, mine), (there, other)):
        for anchor, word in found:
            table.setdefault(anchor, set()).add(word)
    common = sorted(here.keys() & there.keys())
    for place, one in enumerate(common):
        for two in common[place + 1 :]:
            first, second = here[one] & there[two] - there[one], here[two] & there[one] - there[two]
            crossed = first | second if first and second else frozenset()
            straight = (here[one] & there[one]) | (here[two] & there[two])
            if crossed and len(straight) < len(crossed):
                return f"{one} and {two} have changed places"
    return ""


def _only(found: Roles, role: str, not_role: str) -> frozenset[str]:
    return frozenset(word for each, word in found if each == role and (not_role, word) not in found)


def _at(clause: tuple[str, ...], place: int, word: str) -> list[tuple[str, list[str]]]:
    before, after = clause[:place], clause[place + 1 :]
    if word in ("to", "into"):
        return [("to", _next(after, 1)), *([("from", _last(before, 1))] if "from" not in before else [])]
    if word == "from" or (word == "out" and after[:1] == ("of",)):
        return [("from", _next(after, 1))]
    if word == "before":
        return [("later", _next(after)), ("earlier", _last(before, 3))]
    if word in _PAIRS:
        left, right = _PAIRS[word]
        return [(left, _last(before)), (right, _next(after))]
    if word in ("after", "once"):
        return [("earlier", _next(after)), ("later", _last(before, 3))]
    if word in ("instead", "rather") or (word == "place" and before[-1:] == ("in",)):
        return [("old", _next(after)), ("new", _last(before, 1))]
    if word in ("with", "by") and any(stem(each) == "replac" for each in before):
        return [("new", _next(after, 1)), ("old", _last(before, 1))]
    return _deed(clause, place, word)


def _deed(clause: tuple[str, ...], place: int, word: str) -> list[tuple[str, list[str]]]:
    if word not in _DEEDS or place == 0:
        return []
    before, after = clause[:place], clause[place + 1 :]
    if word.endswith("ed"):
        if after[:1] == ("by",):
            return [("suffers", _last(before)), ("does", _next(after))]
        if before[-1] in STOP or before[-1].endswith("ly"):
            return []  # "is imported nowhere", "the required ratio": who does it is not said
    return [("does", _last(before)), ("suffers", _next(after))]


def _next(sequence: tuple[str, ...], most: int = _REACH) -> list[str]:
    return [stem(word) for word in sequence if word not in STOP][:most]


def _last(sequence: tuple[str, ...], most: int = _REACH) -> list[str]:
    return [stem(word) for word in sequence if word not in STOP][-most:]
