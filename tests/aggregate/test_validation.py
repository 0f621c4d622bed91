from __future__ import annotations

import pytest

from agent_fleet.aggregate.validation import Contract
from agent_fleet.errors import FleetError

SCHEMA = {
    "type": "object",
    "properties": {"file": {"type": "string"}, "line": {"type": "integer", "minimum": 1}},
    "required": ["file"],
    "additionalProperties": False,
}


def test_an_answer_that_keeps_its_contract_is_taken() -> None:
    assert Contract(SCHEMA).accept({"file": "a.py", "line": 3}) == ({"file": "a.py", "line": 3}, "")


def test_json_in_a_text_and_in_a_fence_is_read() -> None:
    for text in ('{"file": "a.py"}', '```json\n{"file": "a.py"}\n```'):
        assert Contract(SCHEMA).accept(text) == ({"file": "a.py"}, "")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "empty"),
        ("  \n", "empty"),
        ("You have reached your limit", "not of type 'object'"),
        ({"line": 3}, "'file' is a required property"),
        ({"file": "a.py", "line": 0}, "$.line: 0 is less than the minimum of 1"),
        ({"file": "a.py", "extra": 1}, "Additional properties"),
        ("[" * 100_000, '$: it does not keep type "object"'),
    ],
)
def test_an_answer_that_breaks_it_is_named_with_its_place(value: object, why: str) -> None:
    _, found = Contract(SCHEMA).accept(value)  # type: ignore[arg-type]
    assert why in found
    assert "\n" not in found
    assert len(found) < 250


def test_a_text_is_a_text_where_the_contract_wants_one() -> None:
    assert Contract({"type": "string"}).accept('{"file": 1}') == ('{"file": 1}', "")


def test_a_schema_may_allow_an_empty_answer() -> None:
    assert Contract({"type": "null"}).accept(None) == (None, "")
    assert Contract({}).accept("") == ("", "")


def test_a_number_that_is_too_large_for_the_contract_breaks_it() -> None:
    assert Contract({"multipleOf": 0.5}).accept(10**400)[1] == "a number in it is too large"


def test_no_schema_takes_what_is_not_empty() -> None:
    assert Contract(None).accept("x") == ("x", "")
    assert Contract(None).accept("")[1] == "it is empty"
    assert Contract(None).accept(0)[1] == ""


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(FleetError) as raised:
        Contract({"type": "nonsense"})
    assert raised.value.code == "bad_input"


def test_nothing_is_fetched_for_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", forbidden)
    monkeypatch.setattr("urllib.request.urlopen", forbidden)
    _, why = Contract({"$ref": "http://127.0.0.1:1/evil.json"}).accept({"a": 1})
    assert "cannot be applied" in why


def test_a_pattern_that_is_none_is_refused_with_the_contract() -> None:
    with pytest.raises(FleetError):
        Contract({"type": "string", "pattern": "("})
