"""What comes from outside: inputs, contracts, answers. Nothing of it is taken on trust, and nothing is lost in silence."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_fleet.deploy import answers, inputs, telling
from agent_fleet.deploy.contract import Contract
from agent_fleet.deploy.contract import read as read_contract
from agent_fleet.deploy.objects import objects
from agent_fleet.deploy.orders import Order, remainder
from agent_fleet.deploy.values import Item
from agent_fleet.errors import FleetError

# a machine that many share may take its time
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def order(*values: Any, **more: Any) -> Order:
    items = tuple(Item(id=f"i{n}", value=value) for n, value in enumerate(values, 1))
    return Order(deployment="d1", part=1, items=items, **more)


def read(text: str, *values: Any, schema: dict[str, Any] | None = None) -> dict[str, answers.Answer]:
    return answers.read(order(*values), text, Contract(schema))


@PATIENT
@given(st.lists(JSON, min_size=1, max_size=30))
def test_every_input_is_an_item_and_equal_ones_are_counted(values: list[Any]) -> None:
    text = "\n".join(json.dumps(value) for value in values)
    found = inputs.parse(text.encode(), "jsonl")
    told = [json.dumps(value, sort_keys=True) for value in values]
    assert [json.dumps(item.value, sort_keys=True) for item in found.items] == list(dict.fromkeys(told))
    assert len(found.items) + sum(found.repeated.values()) == len(values)
    assert len({item.id for item in found.items}) == len(found.items)


def test_the_forms_of_an_input() -> None:
    assert [item.value for item in inputs.parse(b"\xef\xbb\xbfa\r\n\r\n  b \r\n").items] == ["a", "b"]
    assert inputs.parse(b'{"a": 1}\n[2]\n').items[1].value == [2]
    assert inputs.parse(b"{not json}\n").items[0].value == "{not json}"
    assert [item.value for item in inputs.parse(b"a\rb\r\rc").items] == ["a", "b", "c"]
    rows = inputs.parse(b'name,why\n"a, b","two\nlines"\n\n', "csv").items
    assert [row.value for row in rows] == [{"name": "a, b", "why": "two\nlines"}]


@pytest.mark.parametrize(
    ("data", "form", "said"),
    [
        (b"", None, "no items"),
        (b"a\n\xff\n", None, "line 2 is not UTF-8"),
        (b"a\n\0\n", None, "line 2 holds a NUL"),
        (b'{"a": 1}\nb\n', None, "line 2 is not JSON"),
        (b"[" * 100_000, "jsonl", "line 1 is not JSON"),
        (b"a,a\n1,2\n", "csv", "name each column once"),
        (b"a,b\n1\n", "csv", "line 2 has 1 cells"),
        (b'a,b\n"1,2\n', "csv", "cannot be read"),
        (b"x" * 300_000, None, "item 1 is longer"),
    ],
)
def test_an_input_that_cannot_be_read_names_what_is_wrong(data: bytes, form: Any, said: str) -> None:
    with pytest.raises(FleetError, match=said) as caught:
        inputs.parse(data, form)
    assert caught.value.code == "bad_input"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "nosuch"}, "is no JSON Schema"),
        ({"$ref": "https://example.com/schema"}, "which nothing here fetches"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "which nothing here fetches"),
        ({"description": "x" * 200_000}, "longer"),
        ({"items": {"$ref": "#/$defs/page"}, "$defs": {"pages": {}}}, "'#/\\$defs/page', which is not in it"),
        ({"$ref": "#page"}, "'#page', which is not in it"),
        ({"$ref": "#"}, "refers to itself without end"),
    ],
)
def test_a_contract_that_is_none_is_refused(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(FleetError, match=said):
        Contract(schema)


def test_references_that_a_contract_keeps_are_no_fault() -> None:
    inner = {"$id": "https://example.com/page", "$ref": "#/$defs/word", "$defs": {"word": {"type": "string"}}}
    assert Contract({"items": inner}).fault([3]) == "0: 3 is not of type 'string'"
    assert Contract({"items": {"$ref": "#w"}, "$defs": {"word": {"$anchor": "w", "type": "string"}}}).fault(["a"]) == ""
    assert Contract({"$schema": "http://json-schema.org/draft-07/schema#", "enum": [{"$ref": "#/no"}]}).fault(3)


@pytest.mark.parametrize("by", ["link", "pipe"])
def test_a_file_that_was_named_is_read_as_every_program_reads_it(tmp_path: Path, by: str) -> None:
    data, named = json.dumps({"type": "string"}).encode(), tmp_path / "named.json"
    if by == "link":
        (tmp_path / "real").write_bytes(data)
        named.symlink_to("real")
        assert read_contract(str(named)).fault(3)
        assert len(inputs.read_file(str(named), "lines").items) == 1
        return
    os.mkfifo(named)
    with ThreadPoolExecutor() as pool:
        pool.submit(named.write_bytes, data)
        assert read_contract(str(named)).fault(3)


@pytest.mark.parametrize(
    ("name", "said"), [("/dev/null", "neither a file nor a pipe"), (".", "directory"), ("\0", "no name")]
)
def test_what_is_no_file_is_refused_in_a_sentence(name: str, said: str) -> None:
    with pytest.raises(FleetError, match=said) as caught:
        inputs.read_file(name)
    assert caught.value.code == "bad_input"


def test_a_contract_that_refers_to_itself_ends() -> None:
    contract = Contract({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {"$ref": "#/$defs/a"}}}}})
    assert contract.fault({"a": {"a": {}}}) == ""
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert contract.fault(deep) == "the value is nested more than 100 levels deep"


def test_answers_are_found_in_whatever_an_agent_writes_around_them() -> None:
    text = (
        'I looked.\n- {"item": "i1", "value": {"a": [1, {"item": "i2", "value": 9}]}} fine\n'
        '```json\n{"results": [{"item": "i2", "failed": "Not Found!", "why": "404"}]}\n```\n{"item": "i9", "value": 1}\n'
        '{"item": "i3", "skipped": "empty"} {broken {"item": "i4", "value": NaN}'
    )
    found = read(text, "a", "b", "c", "d")
    assert set(found) == {"i1", "i2", "i3"}
    assert (found["i2"].kind, found["i2"].fault, found["i2"].why) == ("failed", "not-found", "404")
    assert found["i3"].kind == "skipped"


def test_an_answer_that_breaks_the_contract_is_none_and_never_hides_one_that_keeps_it() -> None:
    schema = {"type": "integer"}
    assert read('{"item": "i1", "value": "x"}', "a", schema=schema)["i1"].fault == "invalid"
    both = '{"item": "i1", "value": 4}\n{"item": "i1", "value": "x"}'
    assert read(both, "a", schema=schema)["i1"].value == 4


@pytest.mark.parametrize("value", ["null", '""', '" \\n"', "1e999", '{"a": [-1e999]}', "[" * 200 + "]" * 200])
def test_a_value_that_says_nothing_or_that_nobody_can_pass_on_is_no_answer(value: str) -> None:
    assert read(f'{{"item": "i1", "value": {value}}}', "a")["i1"].fault == "invalid"


def test_a_contract_may_allow_an_empty_value() -> None:
    assert read('{"item": "i1", "value": null}', "a", schema={"type": ["string", "null"]})["i1"].kind == "answered"


def test_a_number_of_any_length_is_held_to_the_contract() -> None:
    assert Contract({"multipleOf": 0.5}).fault(10**400) == "the contract cannot be applied to it"


@pytest.mark.parametrize("reason", ["false", "null", '""', '" "', "1"])
def test_what_is_skipped_without_a_reason_is_not_skipped(reason: str) -> None:
    assert read(f'{{"item": "i1", "skipped": {reason}}}', "a")["i1"].fault == "invalid"


@PATIENT
@given(st.text(max_size=300) | st.lists(JSON, max_size=5).map(lambda found: "\n".join(map(json.dumps, found))))
def test_no_text_of_an_agent_breaks_the_reader(text: str) -> None:
    assert all(isinstance(found, dict) for found in objects(text))
    assert set(read(text, "a", "b")) <= {"i1", "i2"}


def test_a_text_of_nothing_but_braces_takes_no_time() -> None:
    began = time.process_time()
    assert list(objects("{" * 300_000)) == []
    assert list(objects('{"a' * 100_000)) == []
    assert list(objects('{"a":' * 100_000)) == []
    assert time.process_time() - began < 5


@PATIENT
@given(st.lists(JSON, min_size=1, max_size=8), st.data())
def test_what_is_answered_and_what_is_left_are_the_order(values: list[Any], data: st.DataObject) -> None:
    whole = order(*values)
    ids = {item.id for item in whole.items}
    settled = data.draw(st.sets(st.sampled_from(sorted(ids))))
    left = remainder(whole, settled, of="t1")
    assert (left is None) == (settled == ids)
    if left is not None:
        assert {item.id for item in left.items} | settled == ids
        assert not {item.id for item in left.items} & settled
        assert (left.round, left.of) == (1, "t1")


@PATIENT
@given(st.lists(st.text(max_size=60), min_size=1, max_size=6))
def test_an_item_stays_on_its_line_between_the_marks(values: list[str]) -> None:
    text = telling.partition(order(*values))
    lines = text.split("\n")
    begin = next(n for n, line in enumerate(lines) if line.startswith("-----BEGIN ITEMS "))
    end = next(n for n, line in enumerate(lines) if line.startswith("-----END ITEMS "))
    assert [json.loads(line)["value"] for line in lines[begin + 1 : end]] == values


def test_a_partition_that_no_prompt_can_hold_is_refused() -> None:
    with pytest.raises(FleetError, match="larger than"):
        telling.partition(order(*("x" * 200_000 + str(n) for n in range(30))))
