from __future__ import annotations

import html.parser
import io
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agent_fleet.aggregate.outputs import Output, as_json, from_json
from agent_fleet.aggregate.pipeline import Settings, aggregate
from agent_fleet.aggregate.report import Report
from agent_fleet.aggregate.sheets import write_html, write_json, write_markdown
from agent_fleet.errors import FleetError

HOSTILE = [
    "<script>alert(1)</script>",
    "</pre><img src=x onerror=alert(1)>",
    "```\n# not a heading\n````\n[x](javascript:alert(1))",
    "# heading\n\n- list\n\n<b>bold</b> | cell | \x1b[31m red \u202e turned",
    "& &lt; &amp; ![image](http://127.0.0.1/x.png)",
]


def sheets(report: Report) -> tuple[str, str, str]:
    made = []
    for write in (write_json, write_markdown, write_html):
        file = io.StringIO()
        write(report, file)
        made.append(file.getvalue())
    return made[0], made[1], made[2]


def answer(task: str, text: str = "", **more: object) -> Output:
    return Output(task=task, value=text or f"answer of {task}", **more)  # type: ignore[arg-type]


def test_of_fourteen_reviewers_ten_died_and_no_verdict_is_clean() -> None:
    outputs = [answer(f"r{n}", "No findings.") for n in range(4)]
    outputs += [Output(task=f"r{n}", outcome="limit") for n in range(4, 11)]
    outputs += [Output(task=f"r{n}", outcome="crash") for n in range(11, 14)]
    report = aggregate(outputs, None, Settings(), asked=[f"r{n}" for n in range(14)])
    assert not report.clean
    assert "4 of 14" in report.verdict
    assert dict(report.coverage.failed) == {"crash": 3, "limit": 7}
    for page in sheets(report):
        assert "4 of 14" in page
        assert page.index("4 of 14") < page.index("No findings")


def test_what_nobody_answered_is_missing_and_what_nobody_asked_is_said() -> None:
    outputs = [
        answer("a", items=("1", "2")),
        answer("b", items=("9",)),
        Output(task="c", items=("3",), outcome="skipped"),
    ]
    coverage = aggregate(outputs, None, Settings(), asked=["1", "2", "3", "4"]).coverage
    assert (coverage.asked, coverage.answered, coverage.skipped, coverage.unasked) == (4, 2, 1, 1)
    assert dict(coverage.failed) == {"missing": 1}


def test_an_item_that_was_answered_in_the_end_is_answered() -> None:
    outputs = [Output(task="a", items=("1",), outcome="limit"), answer("b", items=("1",)), answer("c", items=("1",))]
    for order in (outputs, outputs[::-1]):
        coverage = aggregate(order, None, Settings()).coverage
        assert (coverage.asked, coverage.answered, dict(coverage.failed)) == (1, 1, {})


def test_an_empty_or_invalid_answer_is_no_answer_and_is_kept_aside_with_its_reason() -> None:
    outputs = [answer("a", '{"n": 1}'), answer("b", "You have hit your limit"), Output(task="c", value="")]
    report = aggregate(outputs, {"type": "object", "required": ["n"]}, Settings(least_coverage=0.5))
    assert report.coverage.answered == 1
    assert dict(report.coverage.failed) == {"invalid": 2}
    assert {report.output(each.key).task for each in report.refused} == {"b", "c"}
    assert not report.clean
    assert all("Kept aside" in page for page in sheets(report)[1:])


def test_what_has_no_answer_is_listed_by_its_input_with_the_reason_and_the_rest_is_counted() -> None:
    names = {str(n): f"http://localhost/page{n}" for n in range(9)}
    outputs = [
        answer("a", "found", items=("0",)),
        Output(task="b", items=("1",), outcome="skipped", value="it is empty"),
    ]
    outputs += [Output(task="c", items=(str(n),), outcome="unreachable", value=f"no route {n}") for n in range(2, 6)]
    report = aggregate(outputs, None, Settings(name=names.__getitem__, most_gaps=5), asked=names)
    assert [gap.item for gap in report.gaps] == ["2", "3", "4", "5", "6"]
    assert report.lacking == 8
    made = sheets(report)
    for page in (made[1].replace("\\", ""), made[2]):
        assert "http://localhost/page3: unreachable, no route 3" in page
        assert "http://localhost/page6: missing" in page
        assert "and 3 more" in page
        assert "http://localhost/page0 · a" in page
    told = json.loads(made[0])
    assert told["entries"][0]["inputs"] == ["http://localhost/page0"]
    assert told["unanswered"]["count"] == 8
    assert told["unanswered"]["listed"][0] == {
        "item": "2",
        "input": "http://localhost/page2",
        "became": "unreachable",
        "why": "no route 2",
    }


def test_the_reason_of_a_gap_does_not_depend_on_the_order() -> None:
    outputs = [Output(task=name, items=("1",), outcome="limit", value=name) for name in "ba"]
    for order in (outputs, outputs[::-1]):
        assert aggregate(order, None, Settings(), asked=["1"]).gaps[0].why == "a"


def test_nothing_asked_gives_no_verdict() -> None:
    assert not aggregate([], None, Settings()).clean


def test_the_most_confident_is_shown_and_the_others_are_linked() -> None:
    outputs = [
        answer("a", "All 12 tests pass.", confidence=0.4),
        answer("b", "all 12 tests pass", confidence=0.9),
        answer("c", "- All 12 tests pass"),
        answer("d", "All 13 tests pass."),
    ]
    report = aggregate(outputs, None, Settings())
    shown = {
        report.output(entry.key).task: [report.output(link.key).task for link in entry.links]
        for entry in report.entries
    }
    assert {task: sorted(links) for task, links in shown.items()} == {"b": ["a", "c"], "d": []}
    assert report.rates[""].linked == 2
    assert json.loads(sheets(report)[0])["duplicates"][""]["share"] == 0.5


def test_values_that_differ_are_never_the_same_however_alike_the_words() -> None:
    base = {"title": "The upload is slow on the start page of the shop", "severity": "high", "line": 10, "open": True}
    for change in ({"line": 11}, {"open": False}, {"severity": "low"}):
        report = aggregate([Output(task="a", value=base), Output(task="b", value=base | change)], None, Settings())
        assert len(report.entries) == 2
    assert (
        len(aggregate([Output(task="a", value=base), Output(task="b", value=dict(base))], None, Settings()).entries)
        == 1
    )


def test_kinds_are_not_mixed_and_categories_are_sorted() -> None:
    outputs = [
        Output(task="a", kind="review", value={"area": "web", "text": "slow"}, confidence=0.2),
        Output(task="b", kind="test", value={"area": "web", "text": "slow"}),
        Output(task="c", kind="review", value={"area": "api", "text": "wrong"}),
        Output(task="d", kind="review", value={"area": "web", "text": "ugly"}, confidence=0.8),
    ]
    report = aggregate(outputs, None, Settings(category="area"))
    assert [(entry.category, report.output(entry.key).task) for entry in report.entries] == [
        ("api", "c"),
        ("web", "d"),
        ("web", "a"),
        ("web", "b"),
    ]


class Elements(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.seen.add(tag)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_data_in_every_sheet(text: str) -> None:
    outputs = [
        answer(text, text, kind=text, confidence=0.5),
        answer(text + "2", text + " again", kind=text),
        Output(task=text, outcome=text),
        Output(task="bad" + text, value=""),
    ]
    plain = aggregate([answer("a", "plain", kind="k"), answer("b", "other", kind="k")], None, Settings(title="t"))
    outputs.append(Output(task="c", items=("1",), outcome="limit", value=text))
    report = aggregate(outputs, None, Settings(title=text, name=lambda item: item + text))
    as_json_text, as_markdown, as_html = sheets(report)
    assert json.loads(as_json_text)["title"] == text
    parser = Elements()
    parser.feed(as_html)
    assert parser.seen <= {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "p",
        "strong",
        "ul",
        "li",
        "table",
        "tr",
    } | {
        "th",
        "td",
        "pre",
    }
    kinds = {token.type for token in MarkdownIt("commonmark").enable("table").parse(as_markdown)}
    inline = {
        child.type
        for token in MarkdownIt("commonmark").enable("table").parse(as_markdown)
        for child in token.children or ()
    }
    known = {token.type for token in MarkdownIt("commonmark").enable("table").parse(sheets(plain)[1])}
    assert kinds <= known | {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}
    assert inline <= {"text", "strong_open", "strong_close", "text_special"}
    assert "\x1b" not in as_markdown + as_html
    assert "\u202e" not in as_markdown + as_html


TEXTS = st.sampled_from(
    [
        "All 12 tests pass.",
        "all 12 tests pass",
        "All 13 tests pass.",
        "The cache is never cleared, so memory grows.",
        "Memory grows because the cache is never cleared.",
        "The cache is cleared, so memory does not grow.",
        "Move rows from alpha to beta",
        "Move rows from beta to alpha",
        "",
        "ä" * 5000,
        "ä" * 5000 + " ",
    ]
)
OUTPUTS = st.lists(
    st.builds(
        Output,
        task=st.sampled_from("abcdefgh"),
        part=st.integers(0, 2),
        kind=st.sampled_from(["", "k"]),
        value=st.one_of(TEXTS, st.dictionaries(st.sampled_from("xy"), st.integers(0, 2), max_size=2)),
        confidence=st.sampled_from([None, 0.1, 0.9]),
        outcome=st.sampled_from(["done", "done", "done", "limit", "skipped"]),
    ),
    max_size=14,
)


@given(OUTPUTS, st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_order_of_outputs_changes_no_byte_and_nothing_is_lost(outputs: list[Output], chance: random.Random) -> None:
    shuffled = outputs[:]
    chance.shuffle(shuffled)
    report = aggregate(outputs, None, Settings())
    assert sheets(report) == sheets(aggregate(shuffled, None, Settings()))
    keys = [key for entry in report.entries for key in (entry.key, *(link.key for link in entry.links))]
    keys += [refused.key for refused in report.refused]
    assert len(keys) == len(set(keys))
    assert set(keys) == {output.key for output in outputs if output.outcome == "done"}
    assert report.repeated == len(outputs) - len({output.key for output in outputs})


@given(OUTPUTS)
@settings(max_examples=40, deadline=None)
def test_what_a_report_holds_gives_the_same_entries_again(outputs: list[Output]) -> None:
    first = aggregate(outputs, None, Settings())
    held = [key for entry in first.entries for key in (entry.key, *(link.key for link in entry.links))]
    again = aggregate([first.output(key) for key in held], None, Settings())
    assert again.entries == first.entries
    assert again.questions == first.questions


def test_an_output_survives_its_json() -> None:
    output = Output(
        task="a",
        part=2,
        items=("x",),
        kind="k",
        value={"n": [1, None, "é"]},
        confidence=0.5,
        model="m",
        outcome="limit",
    )
    assert from_json(json.loads(json.dumps(as_json(output)))) == output


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"task": 1},
        {"task": "a", "items": "x"},
        {"task": "a", "confidence": 2},
        {"task": "a", "confidence": float("nan")},
        {"task": "a", "part": True},
    ],
)
def test_what_is_no_output_is_refused(document: object) -> None:
    with pytest.raises(FleetError) as caught:
        from_json(document)
    assert caught.value.code == "bad_input"
