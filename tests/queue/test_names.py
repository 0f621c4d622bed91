"""The grammar of names: what is written can be read back, and strangers are told apart."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fleet.errors import FleetError
from agent_fleet.queue import names
from agent_fleet.queue.task import Habits, gate_of, task_body

numbers = st.integers(min_value=1, max_value=10**15 - 1)
generations = st.integers(min_value=0, max_value=10**15 - 1)
labels = st.text(string.ascii_lowercase + string.digits + "-_", min_size=1, max_size=40)
owners = st.text(string.ascii_letters + string.digits, min_size=1, max_size=60)
paths = st.lists(st.text(min_size=1, max_size=10), max_size=3)


@given(numbers, generations)
def test_an_entry_is_read_back_as_it_was_written(number: int, generation: int) -> None:
    task = f"t{number}"
    assert names.parse_entry(names.entry_name(task, generation)) == (task, generation)
    assert names.number_of(task) == number
    assert names.is_bucket(names.bucket_of(task))


@given(numbers, generations, owners, st.text(max_size=100), paths)
def test_an_active_name_carries_the_whole_lease(
    number: int, generation: int, owner: str, host: str, touched: list[str]
) -> None:
    gate = gate_of(host, touched)
    name = names.active_name(f"t{number}", generation, owner, gate)
    assert names.parse_active(name) == (f"t{number}", generation, owner, gate)
    assert len(name.encode()) <= 255
    assert "/" not in name


@given(st.integers(1, 9), st.sampled_from(names.NEEDS), labels | st.just(""), labels | st.just(""))
def test_a_track_is_read_back_as_it_was_written(priority: int, need: str, lane: str, provider: str) -> None:
    name = names.track_name(priority, need, lane, provider)
    assert names.parse_track(name) == (priority, need, lane, provider)


@given(st.text(max_size=120), paths)
def test_the_gate_of_any_host_and_paths_is_a_gate(host: str, touched: list[str]) -> None:
    gate = gate_of(host, touched)
    assert names.is_gate(gate)
    assert bool(names.touches_of_gate(gate)) == bool(touched)
    assert bool(names.host_of_gate(gate)) == bool(host)
    assert names.awaited(gate) == ""


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_two_hosts_never_share_a_gate(first: str, second: str) -> None:
    assert (gate_of(first, ()) == gate_of(second, ())) == (first == second)


@pytest.mark.parametrize(
    "stranger",
    [
        "",
        "t1.json",
        "t1.g.json",
        "t0.g1.json",
        "t01.g1.json",
        "t1.g01.json",
        "t1.g-1.json",
        "t1.g1.json.tmp",
        "t1.g1",
        "x1.g1.json",
        "t١.g1.json",
        "t1.g1.late.json",
        ".t1.g1.json",
        "T1.g1.json",
        "t1.g1 .json",
        "t" + "9" * 16 + ".g1.json",
    ],
)
def test_a_stranger_is_no_entry(stranger: str) -> None:
    assert names.parse_entry(stranger) is None


@pytest.mark.parametrize(
    "stranger",
    ["t1.g1.json", "t1.g1+a.json", "t1.g1++_.json", "t1.g1+a+.json", "t1.g1+a+b+c.json", "t1.g1+a+_", "x+a+_.json"],
)
def test_a_stranger_is_no_active_name(stranger: str) -> None:
    assert names.parse_active(stranger) is None


@pytest.mark.parametrize(
    "stranger",
    ["", "5", "5.", "0.agent", "10.agent", "5.other", "5.agent@", "5.agent%", "5.agent@A", "5.agent@a b", "x.agent"],
)
def test_a_stranger_is_no_track(stranger: str) -> None:
    assert names.parse_track(stranger) is None


@pytest.mark.parametrize(
    "stranger", ["", "~", ".", "..", "a/b", "a~zz", "~" + "g" * 12, "a+b", "é", "x" * 121, "need=t1", None, 3]
)
def test_a_stranger_is_no_gate(stranger: object) -> None:
    assert not names.is_gate(stranger)


@given(st.text(max_size=20))
def test_no_text_makes_the_grammar_fail(text: str) -> None:
    for parse in (
        names.parse_entry,
        names.parse_active,
        names.parse_track,
        names.is_gate,
        names.awaited,
        names.is_bucket,
    ):
        parse(text)
    names.parse_entry(f"t1.g{text}.json")
    names.parse_active(f"t1.g1+{text}+{text}.json")


@given(st.text(min_size=1, max_size=30))
def test_any_address_gives_a_gate_or_a_refusal(text: str) -> None:
    try:
        body = task_body({"target": f"https://{text}", "need": "browser"}, Habits())
    except FleetError as error:
        assert error.code == "bad_input"
    else:
        assert names.is_gate(body["gate"])
