"""From outputs to a report: validation, duplicates, verification, sorting, coverage. Each step is usable by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_fleet.aggregate.arbitration import Arbiter, Ruling
from agent_fleet.aggregate.coverage import Tally
from agent_fleet.aggregate.duplicates import LONGEST, Grouping, Sample, digest, group
from agent_fleet.aggregate.likeness import Bounds, compared
from agent_fleet.aggregate.outputs import DONE, Output
from agent_fleet.aggregate.report import Entry, Judgement, Link, Question, Rate, Refused, Report, verdict
from agent_fleet.aggregate.verification import Checker, Inspection, Terms, Verification
from agent_fleet.protocols import Embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a run is put together. `least_coverage` is the share below which there is no verdict; without `bounds` only equal
    answers are linked.

    `name` says for a person what an item is; of the items without an answer `most_gaps` are listed.
    `category` names the field of JSON answers by which they are sorted into categories; others, and all texts, go by their kind.
    """

    title: str = "Report"
    bounds: Bounds | None = field(default_factory=Bounds)
    terms: Terms = field(default_factory=Terms)
    least_coverage: float = 0.95
    category: str = ""
    most_questions: int = 200
    most_gaps: int = 200
    name: Callable[[str], str] = str


class Aggregation:
    """Takes outputs one by one; `report` puts them together."""

    def __init__(
        self,
        contract: Mapping[str, Any] | None,
        settings: Settings,
        *,
        asked: Iterable[str] | None = None,
        embedder: Embedder | None = None,
        checker: Checker | None = None,
        arbiter: Arbiter | None = None,
    ) -> None:
        """Raises `bad_input` for a contract that is no JSON Schema, and for terms that no check can meet."""
        from agent_fleet.aggregate.validation import Contract

        self._contract = Contract(contract)
        self._settings = settings
        self._tally = Tally(asked)
        self._embedder = embedder
        self._checker = checker
        self._arbiter = arbiter
        self._inspection = Inspection(settings.terms, checker.maker) if checker is not None else None
        self._outputs: dict[str, Output] = {}
        self._samples: dict[str, list[Sample]] = {}
        self._found: dict[str, tuple[str, float | None]] = {}
        self._refused: list[Refused] = []
        self.repeated = 0

    def add(self, output: Output) -> None:
        """Take one output: an answer is held to the contract and kept, a failure is counted."""
        key = output.key
        if key in self._outputs:
            self.repeated += 1
            return
        value, fault = self._contract.accept(output.value) if output.outcome == DONE else (output.value, "")
        self._tally.count(output, fault)
        self._outputs[key] = replace(output, value=value)
        if output.outcome != DONE:
            return
        if fault:
            self._refused.append(Refused(key, fault))
            return
        self._keep(key, replace(output, value=value))

    def report(self) -> Report:
        """Put together what came so far."""
        entries: list[Entry] = []
        questions: list[Question] = []
        rates: dict[str, Rate] = {}
        rulings: Counter[Ruling | None] = Counter()
        asked_about = 0
        for kind, unsorted in sorted(self._samples.items()):
            samples = sorted(unsorted, key=lambda sample: sample.key)
            grouping = group(samples, self._settings.bounds, self._embedder, self._arbiter)
            entries += self._entries(kind, samples, grouping)
            questions += [
                Question(samples[one].key, samples[two].key, found.score, found.why) for one, two, found in grouping.ask
            ]
            asked_about += grouping.asked
            rulings.update(grouping.rulings)
            linked = sum(place != first for place, first in enumerate(grouping.first))
            rates[kind] = Rate(len(samples), linked)
        coverage, verification = self._tally.coverage(), self._verify()
        words, clean = verdict(coverage, verification, self._settings.least_coverage)
        gaps = list(self._tally.gaps())
        questions.sort(key=lambda question: (-question.score, question.one, question.two))
        return Report(
            title=self._settings.title,
            verdict=words,
            clean=clean,
            coverage=coverage,
            verification=verification,
            rates=rates,
            compared=compared(self._settings.bounds, self._embedder, self._arbiter.name if self._arbiter else ""),
            entries=tuple(sorted(entries, key=_order)),
            questions=tuple(questions[: self._settings.most_questions]),
            asked_about=asked_about,
            refused=tuple(sorted(self._refused, key=lambda refused: (refused.key, refused.why))),
            repeated=self.repeated,
            output=self._outputs.__getitem__,
            gaps=tuple(gaps[: self._settings.most_gaps]),
            lacking=len(gaps),
            name=self._settings.name,
            judged=_judgement(self._arbiter, rulings) if self._arbiter else None,
        )

    def _keep(self, key: str, output: Output) -> None:
        text = output.text
        sample = (
            Sample(key, text, output.fields) if len(text) <= LONGEST else Sample(key, digest(text, output.fields).hex())
        )
        self._samples.setdefault(output.kind, []).append(sample)
        self._found[key] = (_category(output, self._settings.category), output.confidence)
        if self._inspection is not None:
            self._inspection.offer(output, key)

    def _verify(self) -> Verification:
        if self._inspection is None or self._checker is None:
            return Verification(standing="not checked")
        return self._inspection.weigh(self._checker.check(self._outputs[key] for key in self._inspection.sample()))

    def _entries(self, kind: str, samples: list[Sample], grouping: Grouping) -> list[Entry]:
        members: dict[int, list[int]] = {}
        for place, first in enumerate(grouping.first):
            members.setdefault(first, []).append(place)
        found = []
        for places in members.values():
            best = min(places, key=lambda place: (-_known(self._found[samples[place].key][1]), samples[place].key))
            links = []
            for place in places:
                likeness = grouping.link[place] or grouping.link[best]
                if place != best and likeness is not None:
                    links.append(Link(samples[place].key, likeness.by, round(likeness.score, 4)))
            category, confidence = self._found[samples[best].key]
            found.append(Entry(samples[best].key, kind, category, confidence, tuple(links)))
        return found


def aggregate(
    outputs: Iterable[Output],
    contract: Mapping[str, Any] | None,
    settings: Settings,
    *,
    asked: Iterable[str] | None = None,
    embedder: Embedder | None = None,
    checker: Checker | None = None,
    arbiter: Arbiter | None = None,
) -> Report:
    """The report of these outputs."""
    aggregation = Aggregation(contract, settings, asked=asked, embedder=embedder, checker=checker, arbiter=arbiter)
    for output in outputs:
        aggregation.add(output)
    return aggregation.report()


def _judgement(arbiter: Arbiter, rulings: Counter[Ruling | None]) -> Judgement:
    left = rulings[None]
    return Judgement(
        by=arbiter.name,
        asked=rulings.total() - left,
        same=rulings["same"],
        different=rulings["different"],
        unsure=rulings["unsure"],
        left=left,
        why=arbiter.why if left else "",
    )


def _category(output: Output, name: str) -> str:
    value = output.value.get(name) if name and isinstance(output.value, dict) else None
    return value if isinstance(value, str) and value else output.kind


def _known(confidence: float | None) -> float:
    return -1.0 if confidence is None else confidence


def _order(entry: Entry) -> tuple[str, float, int, str]:
    """By category; within it what is most certain first, then what most agents found."""
    return entry.category, -_known(entry.confidence), -len(entry.links), entry.key
