"""Files that fleet shares with a provider: what is ours is set, and everything else is what it was."""

from __future__ import annotations

import json
import tomllib
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.accounts.documents import merged, wrong
from agent_fleet.accounts.spec import OwnedKey
from agent_fleet.errors import FleetError


def key(*path: str, value: Any = True, format: Literal["json", "toml"] = "json", mark: str = "") -> OwnedKey:  # noqa: A002
    return OwnedKey(file="f", path=path, value=value, format=format, mark=mark)


def toml(*path: str, value: Any = True) -> OwnedKey:
    return key(*path, value=value, format="toml")


def test_a_file_that_is_not_there_is_made() -> None:
    assert json.loads(merged("", [key("a", "b", value=1), key("c")])) == {"a": {"b": 1}, "c": True}
    assert tomllib.loads(merged("", [toml("a", "b", value=1), toml("c")])) == {"a": {"b": 1}, "c": True}


def test_a_file_that_holds_what_is_ours_keeps_every_byte() -> None:
    text = '{ "a":1.50,\t"b" : {"c":true} ,"d":"\\u00e9" }'
    assert merged(text, [key("b", "c")]) is text


TOML = """\
# mine
model = "x"   # a comment
notify = ["old"]

[features]
web = true  # keep
[projects."/a.b"]
trust_level = "trusted"

[[servers]]
name = 'one'
"""


def test_toml_keeps_the_bytes_of_all_that_is_not_ours() -> None:
    result = merged(TOML, [toml("store", value="file"), toml("features", "hooks"), toml("notify", value=["a", "b"])])
    kept = [line for line in TOML.splitlines() if "notify" not in line]
    assert [line for line in result.splitlines() if line in kept] == kept
    read = tomllib.loads(result)
    assert (read["store"], read["features"]["hooks"], read["notify"]) == ("file", True, ["a", "b"])
    assert merged(result, [toml("store", value="file")]) is result


@pytest.mark.parametrize(
    "text",
    [
        "[a]\nb.c = 1\n",
        "a = {b = {c = 1}}\n",
        "a.b.c = 1\n[other]\nx = 1\n",
        "[a.b]\nc = 1\n[z]\n[a.d]\ne = 2\n",
        "[a]\n[a.b]\n[[a.list]]\nx = 1\n",
        "[[list]]\nx = 1\n[list.sub]\ny = 2\n",
        "",
        "# only a comment",
    ],
)
def test_toml_of_every_shape_takes_our_keys(text: str) -> None:
    before = tomllib.loads(text)
    result = tomllib.loads(merged(text, [toml("a", "b", "ours", value="v"), toml("top", value=3)]))
    assert result["a"]["b"].pop("ours") == "v"
    assert result.pop("top") == 3
    if "a" not in before:
        assert result.pop("a") == {"b": {}}
    elif "b" not in before["a"]:
        assert result["a"].pop("b") == {}
    assert result == before


def test_one_element_of_a_list_is_ours_and_the_others_are_not() -> None:
    mine = {"hooks": [{"command": "my own"}]}
    ours = key("hooks", "Stop", value={"command": "/new/fleet hook turn-end"}, mark="hook turn-end")
    text = json.dumps({"hooks": {"Stop": [mine, {"command": "/old/fleet hook turn-end"}]}})
    assert wrong(text, [ours])
    result = merged(text, [ours])
    assert json.loads(result) == {"hooks": {"Stop": [mine, {"command": "/new/fleet hook turn-end"}]}}
    assert wrong(result, [ours]) == []


def test_a_value_of_another_type_is_another_value() -> None:
    assert wrong('{"a": 1}', [key("a")])
    assert json.loads(merged('{"a": "true"}', [key("a")])) == {"a": True}


@pytest.mark.parametrize("text", ["{", "[]", "1", '"x"', "nul", '{"a": {"b": 1}', "\x00", "[" * 100_000])
def test_a_file_that_cannot_be_read_is_left_alone(text: str) -> None:
    with pytest.raises(FleetError) as caught:
        merged(text, [key("a")])
    assert caught.value.code == "corrupt"


@pytest.mark.parametrize("text", ["a = ", "a = 1\na = 2", "[a", "\x00"])
def test_toml_that_cannot_be_read_is_left_alone(text: str) -> None:
    with pytest.raises(FleetError) as caught:
        merged(text, [toml("x")])
    assert caught.value.code == "corrupt"


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": [1]}', '{"a": "x"}'])
def test_a_value_of_others_is_not_replaced_by_a_table_of_ours(text: str) -> None:
    with pytest.raises(FleetError):
        merged(text, [key("a", "b")])


def test_half_a_character_survives() -> None:
    text = '{"x": "\\ud83d"}'
    assert json.loads(merged(text, [key("a")])) == {"x": "\ud83d", "a": True}


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
documents = st.dictionaries(st.sampled_from(["a", "b", "hooks", "é"]) | st.text(max_size=3), values, max_size=5)
paths = st.lists(st.sampled_from(["a", "b", "hooks", "x.y"]), min_size=1, max_size=3).map(tuple)


@settings(deadline=None)
@given(documents, paths, values)
def test_json_of_any_kind_keeps_what_is_not_ours(document: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    ours = key(*path, value=value)
    try:
        result = json.loads(merged(json.dumps(document), [ours]))
    except FleetError:
        return  # something else than a table was in the way
    place, before = result, document
    for part in path[:-1]:
        assert {name: each for name, each in place.items() if name != part} == {
            name: each for name, each in before.items() if name != part
        }
        place, before = place[part], before.get(part, {})
    assert place[path[-1]] == value
    assert {name: each for name, each in place.items() if name != path[-1]} == {
        name: each for name, each in before.items() if name != path[-1]
    }
    assert wrong(json.dumps(result), [ours]) == []
