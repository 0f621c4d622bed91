"""What a text affirms and what it denies: negations, and words that come in opposites. Pure, and English."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_fleet.aggregate.wording import STOP, Words, stem

# One axis a line: a pole, a bar, the other pole; a negation before a word turns it to the other pole. With a slash it does
# not: what is not uploaded is not downloaded for that.
_AXES = """
pass passed green works working worked | fail failure broken red
success succeed successful | fail failure unsuccessful
enable activate on | disable deactivate off
add insert install / remove delete uninstall drop
increase raise raised grow up higher above upgrade rise / decrease lower reduce shrink down below downgrade cut
upload / download
import / export
encode / decode
encrypt / decrypt
open opens opened | close closes shut closed
start begin | stop end
grant granted given / revoke revoked
allow accept permit allows possible let | reject refuse deny forbid prevent impossible
keep keeps retain | delete vanish discard
keep | skip omit remove ignore
handle respect | ignore
include contain includes | omit exclude lack missing absent
safe secure | unsafe insecure vulnerable
public | private
synchronous sync | asynchronous async
required mandatory | optional
valid | invalid
true | false
old / new
first / last
min minimum / max maximum
left / right
all every everybody everyone | only some few
north northern / south southern
east eastern / west western
top / bottom
early earlier / late later
rise rises increase increases / fall falls fell decrease
inner / outer
internal / external
positive | negative
faster fast / slower slow
stable | flaky unstable
favour favor support recommend | against oppose
strengthen stronger strong / weaken weak weaker
linear / quadratic exponential
hold keep / release
lock locked | unlock unlocked
read-only readonly | writable
present | missing absent
resolve resolved fixed | unresolved unfixed
inside | outside
more / less fewer
equal | unequal
complete | incomplete partial
correct right | incorrect wrong
bounded limited | unbounded unlimited
show visible | hide hidden invisible
connect | disconnect
compatible works work | incompatible
best / worst
cheapest / dearest
profit gain / loss
appear appears stay stays remain remains | disappear disappears vanish vanishes
arrive / depart
win / lose
buy / sell
push / pull
attach mount / detach unmount
load / unload
merge / split
expand / collapse
create / destroy
register / unregister
subscribe / unsubscribe
pause suspend / resume
compress / decompress
approve confirm / reject deny
obey / violate
trust / distrust
active / inactive
available | unavailable
known | unknown
used | unused
supported | unsupported
expected | unexpected
authenticated | unauthenticated
reachable | unreachable
sufficient | insufficient
consistent | inconsistent
accurate | inaccurate
deterministic | random
manual / automatic
static / dynamic
horizontal / vertical
ascending / descending
incoming / outgoing
upstream / downstream
online / offline
wide / narrow
hot / cold
full / empty
clean / dirty
cheap / expensive
busy / idle
lazy / eager
legal / illegal
explicit / implicit
mutable | immutable
alive / dead
odd / even
evenly / unevenly
day / night
winter / summer
most / least
over / under
up upwards / down downwards
above over / below under
entire whole / partial
strict / lax
sooner / later
opt-in / opt-out
readable / unreadable
can may possible | cannot can't impossible
"""
# These deny the deed that follows them, those of things the thing: "does not rotate the key", "lacks a rate limit".
_OF_DEEDS = frozenset(
    "not never cannot can't nothing nobody neither nor hardly unable against unless otherwise".split()
)
_OF_THINGS = frozenset("no without none lacks lack lacking missing omits omit prevents prevent preventing".split())
# These deny what stands before them: "the tax number is missing", "is imported nowhere".
_BACKWARD = frozenset("missing nowhere absent".split())
# What holds under a condition can be told by its contrary: "unless it is renewed", "if it is not renewed".
_CONDITIONS = frozenset("if unless otherwise whenever until".split())
_LIGHT = frozenset("call calls called use uses takes take taking make makes get gets".split())
_THROUGH = STOP | _LIGHT | frozenset("longer yet ever able possible necessary".split())
_BEING = frozenset("is are was were be been being stays left".split())
_PREFIXES = ("un", "non-", "non")
_REACH = 5


def _poles() -> dict[str, tuple[tuple[int, bool], ...]]:
    poles: dict[str, set[tuple[int, bool]]] = {}
    for axis, line in enumerate(_AXES.strip().splitlines()):
        for side, names in enumerate(re.split("[|/]", line)):
            for name in names.split():
                poles.setdefault(stem(name), set()).add((axis, side == 0))
    return {name: tuple(sorted(found)) for name, found in poles.items()}


@dataclass(frozen=True, slots=True)
class Polarity:
    """Stems that are affirmed and denied, and stems with the pole of each axis where they stand.

    `turned` are the poles that a negation gave, `negations` counts these.
    """

    affirmed: frozenset[str]
    denied: frozenset[str]
    signs: frozenset[tuple[str, int, bool]]
    turned: frozenset[tuple[int, bool]]
    negations: int

    @property
    def poles(self) -> frozenset[tuple[int, bool]]:
        """On which side of which axis the text stands; it may stand on both."""
        return frozenset((axis, side) for _, axis, side in self.signs)

    def agrees(self, mine: str, other: Polarity, others: str) -> bool:
        """Whether the two words stand on one side of an axis, and so may say the same."""
        here = {(axis, side) for word, axis, side in self.signs if word == mine}
        return any(word == others and (axis, side) in here for word, axis, side in other.signs)

    def explains(self, other: Polarity) -> bool:
        """Whether the one says with a negation what the other says without: "is not closed" and "stays open"."""
        return bool((self.poles & other.poles) & (self.turned ^ other.turned))


def is_denial(root: str) -> bool:
    """Whether the stem is that of a word that denies."""
    return any(root == stem(word) for word in _OF_DEEDS | _OF_THINGS | _BACKWARD)


class Compass:
    """Reads polarity; holds the table of opposites, which takes the stemmer to make."""

    def __init__(self) -> None:
        self._poles = _poles()
        self._complements = frozenset(axis for axis, row in enumerate(_AXES.strip().splitlines()) if "|" in row)

    def read(self, text: Words) -> Polarity:
        """What the text affirms and denies."""
        affirmed: set[str] = set()
        denied: set[str] = set()
        signs: set[tuple[str, int, bool]] = set()
        turned: set[tuple[int, bool]] = set()
        negations = 0
        for clause in text.clauses:
            no = _denied_places(clause)
            denials = sum(_is_negation(clause, place) for place in range(len(clause)))
            negations += denials
            conditional = not _CONDITIONS.isdisjoint(clause)
            for place, word in enumerate(clause):
                root, inner = _unprefixed(word)
                negated = (place in no) != inner
                if word in _OF_DEEDS or word in _OF_THINGS or word in _BACKWARD:
                    root = "a"  # a word of denial says nothing else; its poles still count
                for axis, side in self._poles.get(stem(word), ()):
                    if word == "on" and not _is_switch(clause, place):
                        continue
                    if place not in no:
                        signs.add((stem(word), axis, side))
                    elif axis in self._complements:
                        signs.add((stem(word), axis, not side))
                        turned.add((axis, not side))
                if root in STOP or not root.replace("-", "").isalpha():
                    continue
                if negated and not conditional:
                    denied.add(stem(root))
                elif not denials and not conditional:
                    affirmed.add(stem(root))
        return Polarity(frozenset(affirmed), frozenset(denied), frozenset(signs), frozenset(turned), negations)


def disagreement(mine: Polarity, other: Polarity) -> str:
    """What one text denies and the other affirms, or where they stand at opposite poles; empty if nothing."""
    for here, there in ((mine, other), (other, mine)):
        clash = (here.denied - here.affirmed) & (there.affirmed - there.denied)
        if clash:
            return f"{min(clash)} is denied in one of them"
    axes = {axis for axis, _ in mine.poles} & {axis for axis, _ in other.poles}
    for axis in sorted(axes):
        here_sides = {side for each, side in mine.poles if each == axis}
        there_sides = {side for each, side in other.poles if each == axis}
        if len(here_sides) == len(there_sides) == 1 and here_sides != there_sides:
            return f"opposites: {_AXES.strip().splitlines()[axis].strip()}"
    return ""


def _denied_places(clause: tuple[str, ...]) -> frozenset[int]:
    """Where the words stand that the negations of a clause deny."""
    places: set[int] = set()
    for place, word in enumerate(clause):
        if _is_of_deed(clause, place):
            places ^= set(_ahead(clause, place, 1) or _light(clause, place) or _behind(clause, place, 1))
        elif word in _OF_THINGS and clause[place + 1 : place + 2] not in (("from",), ("in",), ("on",)):
            places ^= set(_ahead(clause, place, 2))
        if word in _BACKWARD:
            places |= set(_behind(clause, place, 2))
    return frozenset(places)


def _is_of_deed(clause: tuple[str, ...], place: int) -> bool:
    word = clause[place]
    return word in _OF_DEEDS or word.endswith(("n't", "n’t"))


def _is_negation(clause: tuple[str, ...], place: int) -> bool:
    return clause[place] in _OF_THINGS or clause[place] in _BACKWARD or _is_of_deed(clause, place)


def _ahead(clause: tuple[str, ...], place: int, most: int) -> list[int]:
    """The next words that mean something, as long as they stand together."""
    return _together(clause, range(place + 1, min(place + 1 + _REACH, len(clause))), most)


def _light(clause: tuple[str, ...], place: int) -> list[int]:
    """A verb that says little by itself, where nothing else is denied: "does not use it"."""
    return [each for each in range(place + 1, min(place + 1 + _REACH, len(clause))) if clause[each] in _LIGHT][:1]


def _behind(clause: tuple[str, ...], place: int, most: int) -> list[int]:
    return _together(clause, range(place - 1, max(place - 1 - _REACH, -1), -1), most)


def _together(clause: tuple[str, ...], reach: range, most: int) -> list[int]:
    found: list[int] = []
    for each in reach:
        if clause[each] not in _THROUGH:
            found.append(each)
            if len(found) == most:
                break
        elif found:
            break
    return found


def _unprefixed(word: str) -> tuple[str, bool]:
    """A word without a prefix that denies it; only where what is left is plainly a participle or adjective."""
    for prefix in _PREFIXES:
        rest = word.removeprefix(prefix)
        if rest != word and len(rest) > 4 and rest.endswith(("ed", "able", "ible")):
            return rest, True
    return word, False


def _is_switch(clause: tuple[str, ...], place: int) -> bool:
    before = clause[place - 1] if place else ""
    after = clause[place + 1] if place + 1 < len(clause) else "by"
    return (
        before.startswith(("turn", "switch", "set"))
        or (before in _BEING and after in ("by", "in", "for"))
        or after == "by"
    )
