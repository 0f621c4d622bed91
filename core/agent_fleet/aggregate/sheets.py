"""A report as JSON, Markdown and HTML. Every text in it came from outside: it is written as data, never as markup. The same report
gives the same bytes."""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, TextIO

from agent_fleet.aggregate.outputs import Output, as_json
from agent_fleet.aggregate.report import Entry, Judgement, Report
from agent_fleet.aggregate.verification import promise
from agent_fleet.text import count, line, printable

_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&:@/])")
_TICKS = re.compile(r"`+")
_SHOWN = 120
_OTHERS = 5  # items or answers that are named beside one
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f6f6;padding:.6rem}table{border-collapse:collapse}"
    "td,th{border:1px solid #ccc;padding:.2rem .6rem;text-align:left}.meta{color:#555;font-size:.9em}"
)


def write_json(report: Report, file: TextIO) -> None:
    """One JSON object; figures first, then one entry a line, so that a long report never lies in memory as a whole."""
    head = json.dumps(_figures(report), indent=2, ensure_ascii=False)
    file.write(head.removesuffix("\n}") + ',\n  "entries": [')
    for number, entry in enumerate(report.entries):
        document = _entry(report, entry)
        file.write((",\n    " if number else "\n    ") + json.dumps(document, ensure_ascii=False))
    file.write("\n  ]\n}\n" if report.entries else "]\n}\n")


def write_markdown(report: Report, file: TextIO) -> None:
    """A page for reading: coverage, verdict, check, cost, rates, what is lacking or wrong, then the entries by category."""
    file.write(f"# {_inline(report.title)}\n\n**{_inline(report.verdict)}**\n\n")
    file.writelines(f"- {_inline(name)}: {_inline(value)}\n" for name, value in _summary(report))
    if report.rates:
        file.write("\n| kind | answers | said again | share |\n|---|---:|---:|---:|\n")
        for kind, rate in report.rates.items():
            file.write(f"| {_inline(kind or 'none')} | {rate.answers} | {rate.linked} | {rate.share:.0%} |\n")
    _markdown_lists(_faults(report), file)
    for category, entries in itertools.groupby(report.entries, key=lambda entry: entry.category):
        file.write(f"\n## {_inline(category or 'Answers')}\n")
        for entry in entries:
            text = printable(_shown(report.output(entry.key)))
            fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
            file.write(f"\n{_inline(_about(report, entry))}\n\n{fence}text\n{text}\n{fence}\n")
    _markdown_lists(_lists(report), file)


def write_html(report: Report, file: TextIO) -> None:
    """The same page as HTML by itself: no script, nothing loaded from anywhere."""
    title = _escaped(report.title)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    file.write(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        f"<p><strong>{_escaped(report.verdict)}</strong></p>\n<ul>\n"
    )
    file.writelines(f"<li>{_escaped(name)}: {_escaped(value)}</li>\n" for name, value in _summary(report))
    file.write("</ul>\n")
    if report.rates:
        file.write("<table><tr><th>kind</th><th>answers</th><th>said again</th><th>share</th></tr>\n")
        for kind, rate in report.rates.items():
            cells = (_escaped(kind or "none"), str(rate.answers), str(rate.linked), f"{rate.share:.0%}")
            file.write("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n")
        file.write("</table>\n")
    _html_lists(_faults(report), file)
    for category, entries in itertools.groupby(report.entries, key=lambda entry: entry.category):
        file.write(f"<h2>{_escaped(category or 'Answers')}</h2>\n")
        for entry in entries:
            text = _escaped(_shown(report.output(entry.key)))
            file.write(f'<p class="meta">{_escaped(_about(report, entry))}</p>\n<pre>{text}</pre>\n')
    _html_lists(_lists(report), file)
    file.write("</body></html>\n")


def _markdown_lists(lists: Iterable[tuple[str, list[str]]], file: TextIO) -> None:
    for title, rows in lists:
        file.write(f"\n## {_inline(title)}\n\n")
        file.writelines(f"- {_inline(row)}\n" for row in rows)


def _html_lists(lists: Iterable[tuple[str, list[str]]], file: TextIO) -> None:
    for title, rows in lists:
        file.write(f"<h2>{_escaped(title)}</h2>\n<ul>\n")
        file.writelines(f"<li>{_escaped(row)}</li>\n" for row in rows)
        file.write("</ul>\n")


def _figures(report: Report) -> dict[str, Any]:
    coverage, check = report.coverage, report.verification
    return {
        "title": report.title,
        "verdict": report.verdict,
        "clean": report.clean,
        "coverage": {
            "asked": coverage.asked,
            "answered": coverage.answered,
            "failed": dict(coverage.failed),
            "skipped": coverage.skipped,
            "open": coverage.open,
            "unasked": coverage.unasked,
        },
        "verification": {
            name: getattr(check, name)
            for name in ("standing", "population", "checked", "wrong", "unknown", "rate", "least", "most", "confidence")
        }
        | ({"allowed": check.allowed, **asdict(check.terms)} if check.terms else {}),
        "cost": None if report.cost is None else {"tokens": report.cost.tokens, "money": report.cost.money},
        "duplicates": {
            kind: {"answers": rate.answers, "linked": rate.linked, "share": round(rate.share, 4)}
            for kind, rate in report.rates.items()
        },
        "compared_by": report.compared,
        "judged": asdict(report.judged) if report.judged else None,
        "repeated": report.repeated,
        "questions": {
            "count": report.asked_about,
            "listed": [
                {"one": q.one, "two": q.two, "score": round(q.score, 4), "why": q.why} for q in report.questions
            ],
        },
        "unanswered": {
            "count": report.lacking,
            "listed": [
                {"item": gap.item, "input": report.name(gap.item), "became": gap.became, "why": gap.why}
                for gap in report.gaps
            ],
        },
        "refused": [{"key": refused.key, "why": refused.why} for refused in report.refused],
    }


def _entry(report: Report, entry: Entry) -> dict[str, Any]:
    links = [
        {"key": link.key, "by": link.by, "score": link.score, **as_json(report.output(link.key))}
        for link in entry.links
    ]
    told = as_json(report.output(entry.key))
    inputs = [report.name(item) for item in told["items"]]
    return {"key": entry.key, "category": entry.category, **told, "inputs": inputs, "links": links}


def _summary(report: Report) -> Iterator[tuple[str, str]]:
    check = report.verification
    yield "coverage", str(report.coverage)
    if check.rate is None:
        yield "verification", check.standing
    else:
        yield (
            "verification",
            f"{check.standing}: {check.wrong} of {check.checked} wrong, {check.unknown} unknown; "
            f"from {check.least:.1%} to {check.most:.1%} of {check.population:,} with {check.confidence:.0%} confidence",
        )
    if check.terms is not None:
        yield "the sample", promise(check)
    if report.cost is not None:
        yield "cost", report.cost.said
    yield "findings", f"{len(report.entries):,} from {sum(rate.answers for rate in report.rates.values()):,} answers"
    yield "compared by", report.compared
    if report.judged is not None:
        yield "judged", judged(report.judged)
    if report.asked_about:
        yield "to be looked at", f"{report.asked_about:,} pairs that may be the same"
    if report.refused:
        yield "kept aside", f"{len(report.refused):,} that break the contract"


def judged(found: Judgement) -> str:
    """What was said of pairs that are alike, in words."""
    told = f"asked about {count(found.asked, 'pair')}: {found.same:,} the same, {found.different:,} different"
    told += f", {found.unsure:,} without an answer"
    return told + (f"; {found.left:,} were not asked about: {found.why}" if found.left else "")


def _faults(report: Report) -> Iterator[tuple[str, list[str]]]:
    """What has no answer and which answers are wrong, which is told before all answers."""
    if report.gaps:
        rows = [
            f"{report.name(gap.item)}: {gap.became}{f', {line(gap.why, _SHOWN)}' if gap.why else ''}"
            for gap in report.gaps
        ]
        rest = report.lacking - len(rows)
        yield "Without an answer", rows + [f"and {rest:,} more"] * bool(rest)
    wrong = [opinion for opinion in report.verification.opinions if opinion.right is False]
    if wrong:
        yield "Wrong, by the check", [f"{_of(report, each.key)}: {line(each.why, _SHOWN)}" for each in wrong]


def _lists(report: Report) -> Iterator[tuple[str, list[str]]]:
    if report.questions:
        yield (
            "May be the same",
            [
                f"{_of(report, q.one)}: {line(_shown(report.output(q.one)), _SHOWN)} |"
                f" {_of(report, q.two)}: {line(_shown(report.output(q.two)), _SHOWN)}"
                + (f" ({q.why})" if q.why else "")
                for q in report.questions
            ],
        )
    if report.refused:
        yield "Kept aside", [f"{each.key}: {each.why}" for each in report.refused]


def _about(report: Report, entry: Entry) -> str:
    output = report.output(entry.key)
    sure = "confidence unknown" if entry.confidence is None else f"confidence {entry.confidence:.2f}"
    parts = [_of(report, entry.key), *([output.task] if output.items else []), sure]
    if entry.links:
        others = sorted({_of(report, each.key) for each in entry.links})
        rest = f" and {len(others) - _OTHERS:,} more" if len(others) > _OTHERS else ""
        parts.append(f"also in {', '.join(others[:_OTHERS])}{rest}")
    return " · ".join(parts)


def _of(report: Report, key: str) -> str:
    """What an answer is of: its items for a person, or its task where it names none."""
    output = report.output(key)
    names = [line(report.name(item), _SHOWN) for item in output.items[:_OTHERS]]
    more = [f"{len(output.items) - _OTHERS:,} more"] if len(output.items) > _OTHERS else []
    return ", ".join([*names, *more]) or output.task


def _shown(output: Output) -> str:
    return (
        output.value
        if isinstance(output.value, str)
        else json.dumps(output.value, indent=2, ensure_ascii=False, sort_keys=True)
    )


def _inline(text: str) -> str:
    """One line of Markdown in which nothing is markup."""
    return _MARKS.sub(r"\\\1", line(text, 2000))


def _escaped(text: str) -> str:
    return html.escape(printable(text))
