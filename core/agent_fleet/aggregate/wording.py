"""Text as it is compared: markup and punctuation away, words with their stems. Pure.

The lists are English. Text in another language is compared by its words alone, which finds less and merges nothing more.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Any

# What carries no meaning of its own for "is it the same finding"; negations are not among them.
STOP = frozenset(
    "a an the this that these those it its he she they them their there here of in on at by for with as to from into and or but "
    "so if then than when while which who whom whose what is are was were be been being am do does did done has have had having "
    "can could may might must shall should will would also very just still even again already too both each all any some such "
    "because since although though however therefore thus hence due i we you our your my me us about per over under out up down "
    "off only own same other another more most".split()
)
_MARKUP = re.compile(r"[`*_]{0,3}(?:result|finding|answer|summary|conclusion|note)[`*_]{0,3}\s*:\s*[`*_]{0,3}", re.I)
_BULLET = re.compile(r"(?m)^\s*(?:[-*•>]+|#{1,6}|\d+[.)])\s+")
_EMPHASIS = re.compile(r"\*{1,3}|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)|[`~]")
_SPACE = re.compile(r"\s+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_WORD = re.compile(r"\w+(?:[’'._\-/:]\w+)*|->|→", re.UNICODE)
_PHRASES = {
    "left out": "omitted",
    "leaves out": "omits",
    "leave out": "omit",
    "turned on": "enabled",
    "switched on": "enabled",
    "turned off": "disabled",
    "switched off": "disabled",
    "gets rid of": "removes",
    "get rid of": "remove",
    "in place of": "instead of",
}
_PHRASE = re.compile(rf"(?<!\w)(?:{'|'.join(_PHRASES)})(?!\w)")
_CLAUSE = re.compile(r"[,;:.!?](?=\s|$)|\s[–—-]\s|[()]")


def plain(text: str) -> str:
    """The text without Markdown's marks, prefixes such as "Result:", and differences of spacing and width; case stays."""
    flat = unicodedata.normalize("NFKC", text)
    flat = _BULLET.sub("", flat)
    flat = _EMPHASIS.sub("", _MARKUP.sub("", flat, count=1) if _MARKUP.match(flat) else flat)
    flat = _THOUSANDS.sub("", flat).replace("%", " percent")
    return _SPACE.sub(" ", flat).strip().rstrip(".!")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text in order, in lower case, clause by clause."""

    clauses: tuple[tuple[str, ...], ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Every word in order."""
        return tuple(word for clause in self.clauses for word in clause)


_ARTICLES = frozenset(("a", "an", "the"))
_ENDS = ".,;:!?()[]\"'“”‘’"


def wording(flat: str) -> tuple[str, ...]:
    """What a text that `plain` gave says word for word, in lower case, without articles and the marks around words.

    Signs and slashes at the ends of a word stay, for -0 is not 0; a dash between words is a mark.
    """
    tokens = (token.strip(_ENDS) for token in flat.lower().split())
    return tuple(token for token in tokens if token not in _ARTICLES and any(map(str.isalnum, token)))


def _one_word(match: re.Match[str]) -> str:
    return _PHRASES[match[0]]


def words(flat: str) -> Words:
    """The words of a text that `plain` gave."""
    clauses = (tuple(_WORD.findall(_PHRASE.sub(_one_word, part.lower()))) for part in _CLAUSE.split(flat))
    return Words(tuple(clause for clause in clauses if clause))


_OPENERS = frozenset(
    "on in at after before with for if because when while although during from until since as that which".split()
)


def phrases(text: Words) -> list[tuple[str, ...]]:
    """The parts that can move within a sentence without changing it: clauses, cut again before words that open a phrase."""
    found: list[tuple[str, ...]] = []
    for clause in text.clauses:
        start = 0
        for place, word in enumerate(clause):
            if word in _OPENERS and place > start:
                found.append(clause[start:place])
                start = place
        found.append(clause[start:])
    return found


def content(sequence: tuple[str, ...]) -> tuple[str, ...]:
    """The stems of the words that mean something, in order."""
    return tuple(stem(word) for word in sequence if word not in STOP)


_IRREGULAR = dict(
    pair.split("=")
    for pair in (
        "sent=send kept=keep lost=lose held=hold made=make took=take taken=take found=find wrote=write written=write built=build "
        "ran=run gone=go went=go gave=give given=give began=begin broke=break broken=break chose=choose chosen=choose grew=grow "
        "grown=grow knew=know known=know left=leave met=meet paid=pay rose=rise risen=rise said=say saw=see seen=see shown=show "
        "spent=spend stood=stand threw=throw thrown=throw told=tell won=win caught=catch brought=bring bought=buy hid=hide "
        "hidden=hide shut=close closed=close delet=delete"
    ).split()
)


@cache
def _stemmer() -> Any:
    import snowballstemmer  # type: ignore[import-untyped]  # it has no stubs

    return snowballstemmer.stemmer("english")


@cache
def stem(word: str) -> str:
    """The stem of an English word in lower case; words with digits or inner marks stay as they are."""
    word = word.removesuffix("'s").removesuffix("’s")
    joined = word.replace("-", "")
    word = _IRREGULAR.get(word, joined if joined.isalpha() else word)
    if not word.isalpha() or len(word) <= 2:
        return word
    root = str(_stemmer().stemWord(word))
    return _IRREGULAR.get(root, root)
