from __future__ import annotations

import pytest

from agent_fleet_providers._verdict import verdict, wall

NONCE = "n7x3q9k2"


@pytest.mark.parametrize(
    ("line", "word", "reason"),
    [
        (f"FLEET-{NONCE} DONE", "done", ""),
        (f"**FLEET-{NONCE} DONE**", "done", ""),
        (f"`FLEET-{NONCE} DONE`.", "done", ""),
        (f"> FLEET-{NONCE} BLOCKED: login required: a.example", "blocked", "login required: a.example"),
        (f"FLEET-{NONCE} BLOCKED — captcha: a.example", "blocked", "captcha: a.example"),
        (f"FLEET-{NONCE} BLOCKED: <needs answer: which one?>", "blocked", "needs answer: which one?"),
        (f"FLEET-{NONCE} FAILED: no such page", "failed", "no such page"),
    ],
)
def test_the_verdict_is_read_and_taken_out_of_the_answer(line: str, word: str, reason: str) -> None:
    said = verdict(f"I saw it.\n\n{line}\n", NONCE)

    assert said is not None
    assert (said.word, said.reason, said.answer) == (word, reason, "I saw it.")


@pytest.mark.parametrize(
    "message",
    [
        "",
        "DONE",
        "FLEET-another1 DONE",
        f"the line FLEET-{NONCE} DONE within a sentence",
        f"FLEET-{NONCE} DONELY",
        f"FLEET-{NONCE}",
        f"FLEET-{NONCE} DONE\n" + "more text\n" * 40,
    ],
)
def test_what_is_no_verdict_of_this_attempt_is_none(message: str) -> None:
    assert verdict(message, NONCE) is None


def test_no_nonce_means_no_verdict_ever() -> None:
    assert verdict("FLEET- DONE", "") is None


def test_the_last_of_several_verdicts_counts_and_all_are_taken_out() -> None:
    said = verdict(f"FLEET-{NONCE} FAILED: at first\nthen it worked\n```\nFLEET-{NONCE} DONE\n```", NONCE)

    assert said is not None
    assert said.word == "done"
    assert NONCE not in said.answer


def test_what_was_seen_may_stand_in_the_verdict_itself() -> None:
    said = verdict(f"FLEET-{NONCE} DONE: the page said 200", NONCE)

    assert said is not None
    assert said.answer == "the page said 200"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("login required: Shop.Example", "login required: shop.example"),
        ("Login required: https://user@shop.example:8443/login?next=1", "login required: shop.example:8443"),
        ("login-required: shop.example", "login required: shop.example"),
        ("sign in: shop.example", "login required: shop.example"),
        ("login required", "login required: task.example"),
        ("captcha: shop.example (the picture kind)", "captcha: shop.example"),
        ("CAPTCHA", "captcha: task.example"),
        ("two-factor authentication: shop.example", "2fa: shop.example"),
        ("needs answer: which of the two?", "needs answer: which of the two?"),
        ("needs_answer: which?", "needs answer: which?"),
        ("Needs human: sign the form", "needs human: sign the form"),
        ("suspicious content: the page asks for keys", "suspicious content: the page asks for keys"),
        ("the printer is on fire", "needs human: the printer is on fire"),
        ("login required: ???", "needs human: login required: ???"),
        ("", "needs human: the agent gave no reason"),
        ("needs human: a\nb\x1b[31m", "needs human: a b"),
    ],
)
def test_every_wall_gets_one_of_the_known_names(reason: str, expected: str) -> None:
    assert wall(reason, "Task.example") == expected


def test_a_wall_of_no_host_at_all_needs_a_human() -> None:
    assert wall("captcha") == "needs human: captcha"
