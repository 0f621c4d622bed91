"""What becomes a task: batch lines and fields, checked; text of any kind; needs that lead somewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fleet.errors import FleetError
from agent_fleet.queue import batch
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import Habits, resolve_needs, task_body
from support.project import Project, fill

HABITS = Habits()
lines = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=30)


def parse(text: str | bytes, **defaults: Any) -> list[dict[str, Any]]:
    return batch.parse(text.encode() if isinstance(text, str) else text, HABITS, defaults)


def refusal(text: str | bytes) -> FleetError:
    with pytest.raises(FleetError) as caught:
        parse(text)
    assert caught.value.code == "bad_input"
    assert caught.value.hint
    assert not caught.value.message.endswith(".")
    return caught.value


@given(st.lists(lines, min_size=3, max_size=3))
def test_three_texts_come_back_from_a_line_with_escaped_bars(texts: list[str]) -> None:
    texts = [text.replace("\\", "/").strip() for text in texts]
    line = " | ".join(text.replace("|", "\\|") for text in texts)
    found = batch.from_line(line)
    assert [found["target"], found["title"], found["notes"]] == texts


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a", ["a"]),
        ("a|b", ["a", "b"]),
        ("a | b | c | d", ["a", "b", "c | d"]),
        (r"a \| b | c", ["a | b", "c"]),
        (r"a \\ b", [r"a \\ b"]),
        (r"C:\dir | t", [r"C:\dir", "t"]),
        (r"a \\| b", [r"a \\", "b"]),
        ("| t", ["", "t"]),
    ],
)
def test_bars_part_a_line_and_escaped_bars_do_not(line: str, expected: list[str]) -> None:
    assert list(batch.from_line(line).values()) == expected


def test_a_mark_of_byte_order_and_dos_line_ends_are_accepted() -> None:
    bodies = parse(b"\xef\xbb\xbfone | 1\r\n\r\n   \r\ntwo | 2\r\n")
    assert [(body["target"], body["title"]) for body in bodies] == [("one", "1"), ("two", "2")]


@given(
    st.lists(
        st.sampled_from(
            [
                *("x", "https://a.example/1", "plain | t", "http://b/ | t | n", "a://b | n", "- | t"),
                *("https://a.example/2 | t", "https://a.example/3", "https://a.example", "https://a.example/ b"),
                *("HTTPS://A.example/1", "https://u:p@a.example/1", "https://a.example:8/1", "https://a.example?x/1"),
                *("https://a.example\\@b.example/1", "https://a.example#/1", "https://a.example./1"),
            ]
        ),
        min_size=1,
    ),
    st.sampled_from(
        [{}, {"need": "browser"}, {"kind": "form"}, {"kind": "write", "priority": 2}, {"title": "t", "need": "command"}]
    ),
)
def test_a_line_becomes_the_same_task_in_a_batch_and_alone(batched: list[str], defaults: dict[str, Any]) -> None:
    habits = Habits(browser_kinds=["form"], write_kinds=["write"])
    together = batch.parse("\n".join(batched).encode(), habits, defaults)
    assert together == [task_body({**defaults, **batch.from_line(line)}, habits) for line in batched]


def test_json_lines_carry_every_field() -> None:
    fields = {"target": "x", "priority": 2, "touches": ["a"], "check": "make", "budget": {"tokens": 5}, "writes": True}
    (body,) = parse(json.dumps(fields))
    assert {name: body[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"ok\n\xff\xfe", "line 2 is not UTF-8"),
        ("ok\n | no target", "line 2: a task needs a text"),
        ("ok\n\nbad\0text", "line 3: target holds a NUL"),
        ('{"target":"x"}\n[1]', "line 2: it is not a JSON object"),
        ('{"target":"x"}\nplain', "line 2: it is not JSON"),
        ('{"target":"x","id":"t5"}', "line 1: ids are given by fleet"),
        ('{"target":"x","colour":"red"}', "line 1: unknown field 'colour'"),
        ('{"target":3}', "line 1: target must be a text"),
        ('{"target":"x","priority":0}', "priority cannot be 0"),
        ('{"target":"x","priority":true}', "priority cannot be True"),
        ('{"target":"x","priority":NaN}', "priority cannot be nan"),
        ('{"target":"x","need":"magic"}', "need cannot be 'magic'"),
        ('{"target":"x","lane":"No Lane"}', "lane 'No Lane' is not a name"),
        ('{"target":"x","touches":["../../etc"]}', "outside the project"),
        ('{"target":"x","touches":7}', "touches must be a list"),
        ('{"target":"x","budget":{"tokens":-1}}', "budget tokens cannot be -1"),
        ('{"target":"x","budget":{"money":1e999}}', "budget money cannot be inf"),
        ('{"target":"x","budget":{"love":1}}', "budget has no 'love'"),
        ('{"target":"x","budget":{"turns":1.5}}', "budget turns cannot be 1.5"),
        ('{"target":"\\ud800"}', "target is not valid UTF-8"),
        ('{"target":"rm -rf x","need":"command","trust":"outside"}', "a shell command from outside is not run"),
        ('{"target":"x","host":"a.example"}', "host 'a.example' counts only for"),
        ('{"target":"x","need":"browser","host":"a b"}', "host 'a b' is no host"),
        ("[" * 100_000, None),
    ],
)
def test_a_bad_line_is_refused_by_number_and_reason(text: str | bytes, said: str | None) -> None:
    if said is None:
        assert parse(text)[0]["target"] == text  # no JSON, but a text
        return
    assert said in refusal(text).message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda c: st.lists(c) | st.dictionaries(st.text(), c),
    ),
    st.sampled_from(
        ["target", "priority", "touches", "needs", "budget", "lane", "writes", "trust", "ref", "need", "host"]
    ),
)
def test_no_value_of_a_field_makes_the_check_fail_in_another_way(value: object, name: str) -> None:
    try:
        body = task_body({"target": "x", name: value}, HABITS)
        resolve_needs([body], ["t1"], lambda _task: True)
    except FleetError as error:
        assert error.code == "bad_input"


@given(st.text())
def test_any_text_is_a_task_or_is_refused_in_words(text: str) -> None:
    try:
        body = task_body({"target": text}, HABITS)
    except FleetError as error:
        assert error.code == "bad_input"
        assert "\0" in text or not text.strip() or "://" in text or any("\ud800" <= c <= "\udfff" for c in text)
    else:
        assert body["target"] == text


TEXTS = {
    "long": "x" * 1_000_000,
    "emoji": "👩‍👩‍👧‍👦" * 25_000,
    "right to left": "שלום \u202eevil\u202c עולם",
    "dash": "--help",
    "at": "@/etc/passwd",
    "slash": "/clear",
    "quotes": "\"'`$(touch /tmp/x)`; rm -rf ~ & | > <",
    "lines": "one\ntwo\r\n\tthree\n",
    "controls": "\x1b[31mred\x07\x7f",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("way", ["argument", "standard input", "file", "JSON Lines"])
def test_any_text_arrives_as_it_was_sent(project: Project, name: str, way: str) -> None:
    text = TEXTS[name]
    if way == "argument":
        text = text[:30_000]
        assert project.fleet("add", "--", text).status == 0
    elif way == "standard input":
        project.json("add", "-", stdin=text.encode())
    elif way == "file":
        (project.root / "task.txt").write_text(text, newline="")
        project.json("add", "--file", "task.txt")
    else:
        project.json("add-batch", "-", stdin=json.dumps({"target": text}).encode())
    assert project.json("claim", "w")["task"]["target"] == text
    human = project.fleet("list")
    assert "\x1b" not in human.out
    assert "\u202e" not in human.out


def test_needs_are_names_in_the_batch_or_tasks_that_exist(queue: Queue) -> None:
    (old,) = fill(queue, ["old"])
    first, second = fill(queue, [{"target": "1", "ref": "a", "needs": [old]}, {"target": "2", "needs": ["a", old]}])
    place = queue.require(second)
    assert (queue.body(place.path, second) or {})["needs"] == [first, old]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([{"target": "x", "needs": ["t99"]}], "needs 't99', which is no task"),
        ([{"target": "x", "needs": ["nowhere"]}], "needs 'nowhere'"),
        ([{"target": "x", "ref": "a", "needs": ["a"]}], "circle"),
        ([{"target": "x", "ref": "a", "needs": ["b"]}, {"target": "y", "ref": "b", "needs": ["a"]}], "circle"),
        ([{"target": "x", "ref": "a"}, {"target": "y", "ref": "a"}], "given twice"),
        ([{"target": "x", "ref": "t1"}], "looks like an id"),
    ],
)
def test_a_need_that_leads_nowhere_or_in_a_circle_is_refused_and_nothing_is_added(
    queue: Queue, fields: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(FleetError, match=said) as caught:
        fill(queue, fields)
    assert caught.value.code == "bad_input"
    assert list(queue.waiting()) == []
    assert queue.listing("staging") == []


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=10))
def test_a_circle_is_found_exactly_where_there_is_one(needs: list[list[int]]) -> None:
    wanted = [[other for other in each if other < len(needs)] for each in needs]
    bodies = [
        task_body({"target": "x", "ref": f"r{n}", "needs": [f"r{m}" for m in each]}, HABITS)
        for n, each in enumerate(wanted)
    ]
    left = set(range(len(needs)))
    while free := {n for n in left if not any(m in left for m in wanted[n])}:
        left -= free
    try:
        resolve_needs(bodies, [f"t{n + 1}" for n in range(len(needs))], lambda _task: False)
    except FleetError as error:
        assert "circle" in error.message
        assert left
    else:
        assert not left


def test_an_id_is_never_given_again(project: Project) -> None:
    project.json("add-batch", "-", stdin=b"a\nb\nc")
    project.json("add", "x", "--needs", "t99", status=2)
    for path in (project.dir / "inbox").rglob("*.json"):
        path.unlink()
    assert int(project.add("d")[1:]) > 3


def test_a_bad_batch_adds_nothing(project: Project) -> None:
    project.json("add-batch", "-", stdin=b"good\n | bad\n", status=2)
    assert project.json("list")["tasks"] == []
    assert project.json("add-batch", "-", stdin=b"\n\n")["added"] == 0
