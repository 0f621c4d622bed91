"""The sentences are those of Codex 0.171, from answers of the scripted server and from the program itself."""

from __future__ import annotations

from datetime import datetime

import pytest

from agent_fleet_providers._codex_errors import classify, retry

NOW = datetime.fromisoformat("2026-06-24T14:30").astimezone().timestamp()


def at(time: str) -> float:
    return datetime.fromisoformat(time).astimezone().timestamp()


@pytest.mark.parametrize(
    ("text", "limit", "resets"),
    [
        (
            "You’ve hit your usage limit. Upgrade to Pro (https://x.example) or try again at 9:13 PM.",
            "usage",
            "2026-06-24T21:13",
        ),
        ("You've hit your usage limit. Try again at 9:13 PM.", "usage", "2026-06-24T21:13"),
        ("You’ve hit your usage limit. Try again at 2:29 PM.", "usage", "2026-06-25T14:29"),
        ("You’ve hit your usage limit. Try again at 12:05 AM.", "usage", "2026-06-25T00:05"),
        ("You’ve hit your usage limit. Try again at Jul 1st, 2026 12:00 PM.", "usage", "2026-07-01T12:00"),
        ("You’ve hit your usage limit. Try again in 3 hours 5 minutes.", "usage", "2026-06-24T17:35"),
        ("You’ve hit your usage limit for gpt-x. Switch to another model now, or try again later.", "usage", None),
        ("You’ve hit your weekly usage limit. Try again later.", "seven_day", None),
        ("You've reached your usage limit", "usage", None),
        ("You hit your spend cap set by the owner of your workspace.", "spend", None),
        ("rate limit exceeded: Please try again in 20s.", "burst", "2026-06-24T14:30:20"),
        ("exceeded retry limit, last status: 429 Too Many Requests, request id: r", "burst", None),
        ("unexpected status 429 Too Many Requests: slow down", "burst", None),
    ],
)
def test_a_limit_has_its_kind_and_its_reset(text: str, limit: str, resets: str | None) -> None:
    outcome = classify(text, NOW, worked=True)

    assert (outcome.kind, outcome.limit) == ("limit", limit)
    assert outcome.resets_at == (at(resets) if resets else None)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Quota exceeded. Check your plan and billing details.", "auth"),
        ("To use Codex with your ChatGPT plan, upgrade to Plus: https://x.example.", "auth"),
        ("Your workspace is out of credits. Add credits to continue.", "auth"),
        ("You're out of credits", "auth"),
        ("You've reached your workspace credit limit", "auth"),
        ("Missing environment variable: `KEY`.", "auth"),
        ("unexpected status 401 Unauthorized: Missing bearer authentication in header, url: https://x.example", "auth"),
        ("unexpected status 402 Payment Required: pay", "auth"),
        ("unexpected status 403 Forbidden: no", "auth"),
        ("exceeded retry limit, last status: 401 Unauthorized", "auth"),
        ("Your access token could not be refreshed because your refresh token was already used.", "auth"),
        ("Not logged in", "auth"),
        ("Selected model is at capacity. Please try a different model.", "overload"),
        ("We’re currently experiencing high demand, which may cause temporary errors.", "overload"),
        ("stream disconnected before completion: stream closed before response.completed", "overload"),
        ("stream disconnected before completion: You've hit your usage limit", "overload"),
        ("unexpected status 503 Service Unavailable: x", "overload"),
        ("unexpected status 408 Request Timeout: x", "overload"),
        ("exceeded retry limit, last status: 502 Bad Gateway", "overload"),
        ("waiting for network", "overload"),
        ("unexpected status 413 Payload Too Large: x", "refused"),
    ],
)
def test_a_sentence_has_its_class_whatever_was_done_before(text: str, kind: str) -> None:
    for worked in (False, True):
        outcome = classify(text, NOW, worked=worked)
        assert (outcome.kind, outcome.limit, outcome.resets_at) == (kind, "", None)
        assert outcome.reason == text


@pytest.mark.parametrize(
    "text",
    [
        "Unsupported value: 'x'",
        '{"error": {"type": "invalid_request_error", "message": "Unsupported value"}}',
        '{"detail": "Unsupported value"}',
        '{"error": "odd"}',
        "{",
        "[" * 100_000,
        "",
        "The task mentions: You’ve hit your usage limit.",
        "test_429_too_many_requests failed",
        "a sentence of next year",
    ],
)
def test_an_unknown_error_is_the_servers_word_on_the_request_unless_something_was_done(text: str) -> None:
    assert classify(text, NOW, worked=False).kind == "refused"
    assert classify(text, NOW, worked=True).kind == "failed"
    assert classify(text, NOW, worked=True).reason


def test_of_a_whole_answer_the_message_is_told() -> None:
    answer = '{"error": {"type": "t", "code": "c", "message": "Unsupported value"}}'

    assert classify(answer, NOW, worked=False).reason == "Unsupported value"


@pytest.mark.parametrize(
    ("text", "which", "why"),
    [
        (
            "Reconnecting... 2/5 (unexpected status 401 Unauthorized: (x), url: u)",
            "2/5",
            "unexpected status 401 Unauthorized: (x), url: u",
        ),
        ("Reconnecting... 2/5", "2/5", "2/5"),
        ("Reconnecting... waiting for network (Connection failed: x)", "waiting for network", "Connection failed: x"),
        ("Reconnecting... waiting for network", "waiting for network", "waiting for network"),
    ],
)
def test_a_note_about_a_retry_tells_which_and_why(text: str, which: str, why: str) -> None:
    assert retry(text) == (which, why)


@pytest.mark.parametrize("text", ["", "Reconnecting", "Quota exceeded.", "He wrote: Reconnecting... 1/5 (x)"])
def test_another_message_is_no_note_about_a_retry(text: str) -> None:
    assert retry(text) is None


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (
            "You’ve hit your usage limit for GPT-5.3-Codex-Spark. Switch to another model now, or try again at 9:13 PM.",
            "GPT-5.3-Codex-Spark",
        ),
        ("You've hit your usage limit for gpt-x. Switch to another model now, or try again later.", "gpt-x"),
        ("You’ve hit your usage limit. Upgrade to Pro (https://x.example) or try again at 9:13 PM.", ""),
        ("You've hit your usage limit for this month. Try again later.", ""),
        ("rate limit exceeded: Please try again in 20s.", ""),
    ],
)
def test_a_limit_is_of_one_model_where_the_sentence_offers_the_others(text: str, model: str) -> None:
    assert classify(text, NOW, worked=True).model == model
