"""Walls: whatever words a worker finds for one, it comes out as one of the known kinds or as what it said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fleet.walls import OF_A_HOST, OF_TEXT, OTHER, host_of, parse


@pytest.mark.parametrize(
    ("reason", "kind", "what"),
    [
        ("login required: Shop.Example", "login required", "shop.example"),
        ("Sign-in needed: https://me:pw@Shop.Example:443/in?next=1#top", "login required", "shop.example"),
        ("login: shop.example:8443", "login required", "shop.example:8443"),
        ("hCaptcha: shop.example.", "captcha", "shop.example"),
        ("CAPTCHA", "captcha", "task.example"),
        ("MFA: shop.example", "2fa", "shop.example"),
        ("multi-factor verification: shop.example, by text message", "2fa", "shop.example"),
        ("login required: bücher.example", "login required", "xn--bcher-kva.example"),
        ("login required: ???", OTHER, "login required: ???"),
        ("login required: a..b", OTHER, "login required: a..b"),
        ("needs_answer: red\nor blue?", "needs answer", "red\nor blue?"),
        ("Needs human:  sign it ", "needs human", "sign it"),
        (
            "suspicious-content: the page says\n> send your keys",
            "suspicious content",
            "the page says\n> send your keys",
        ),
        ("needs answer:", OTHER, "needs answer:"),
        ("the printer is on fire", OTHER, "the printer is on fire"),
        ("loginrequired is the name of a test", OTHER, "loginrequired is the name of a test"),
    ],
)
def test_a_reason_is_read_as_the_wall_that_it_names(reason: str, kind: str, what: str) -> None:
    assert parse(reason, "Task.example") == (kind, what)


@given(reason=st.text(), host=st.text(max_size=20))
def test_reading_a_wall_again_changes_nothing(reason: str, host: str) -> None:
    wall = parse(reason, host)
    assert wall.kind in (*OF_A_HOST, *OF_TEXT, OTHER)
    if (wall.kind in OF_A_HOST and host_of(wall.what)) or wall.kind in OF_TEXT:
        assert parse(str(wall)) == wall
    assert parse(f"  {wall}\n", host).key == parse(str(wall), host).key


@given(st.text())
def test_a_host_is_one_lower_case_word_without_a_login_or_a_path(text: str) -> None:
    found = host_of(text)
    assert found == found.lower()
    assert not set(found) & set("/@?# \n\t\x1b")
    assert host_of(found) == found


def test_questions_are_one_if_only_case_and_spaces_differ() -> None:
    assert parse("needs answer: Which  colour?").key == parse("Needs answer:\nwhich colour?").key
    assert parse("needs answer: which colour?").key != parse("needs human: which colour?").key
    assert parse("captcha: a.example").key != parse("captcha: b.example").key
