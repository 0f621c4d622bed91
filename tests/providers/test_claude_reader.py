"""The streams were recorded with Claude Code 2.1.332 against the scripted server of these tests, and shortened."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.api import Event, Exit, Outcome, Usage
from agent_fleet_providers._claude_stream import ClaudeReader
from support.jobs import NONCE, job

STREAMS = Path(__file__).parent / "streams"
NOW = 1796070000.0
SESSION = "00000000-0000-4000-8000-000000000001"

RECORDED = [
    ("answered", 0, "done", "", "it said hi"),
    ("resumed", 0, "done", "", "it said ho"),
    ("denied", 0, "done", "permission was denied: Bash (1)", "it was denied"),
    ("cut_stream", 0, "done", "", "half an answer"),
    ("subagents", 0, "done", "", "parent answer 3"),
    ("empty", 0, "failed", "empty answer", ""),
    ("http_401", 1, "auth", "Invalid API key", ""),
    ("http_403", 1, "auth", "Failed to authenticate", ""),
    ("not_logged_in", 1, "auth", "Not logged in", ""),
    ("credit", 1, "auth", "Credit balance is too low (billing_error)", ""),
    ("http_404", 1, "refused", "There's an issue with the selected model", ""),
    ("no_session", 1, "refused", "No conversation found", ""),
    ("root", 1, "refused", "--dangerously-skip-permissions cannot", ""),
    ("bad_option", 1, "refused", "error: unknown option", ""),
    ("http_500", 1, "overload", "API Error: 500", ""),
    ("http_529", 1, "overload", "API Error: 529", ""),
    ("connection_refused", 1, "overload", "API Error: Connection refused", ""),
    ("http_429", 1, "limit", "API Error: Request rejected (429)", ""),
    ("key_exhausted", 1, "limit", "API Error: Request rejected (429)", ""),
    ("five_hour", 1, "limit", "You've hit your 5-hour limit", ""),
    ("seven_day", 1, "limit", "You've hit your weekly limit", ""),
    ("max_turns", 1, "budget", "Reached maximum number of turns", ""),
    ("max_budget", 1, "budget", "Reached maximum budget", ""),
    ("sigterm", 143, "crashed", "ended by SIGTERM", ""),
    ("sigint", 0, "crashed", "was interrupted", ""),
]


def reader(tmp_path: Path, **more: Any) -> ClaudeReader:
    return ClaudeReader(job(tmp_path, **more), clock=lambda: NOW)


def feed(into: ClaudeReader, lines: Iterable[str]) -> list[Event]:
    return [event for line in lines for event in into.feed(line)]


def recorded(name: str) -> list[str]:
    return (STREAMS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)


def init() -> str:
    return json.dumps({"type": "system", "subtype": "init", "session_id": SESSION, "model": "m"}) + "\n"


def assistant(text: str, number: int = 1, **more: Any) -> str:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 1}
    message = {"id": f"msg_{number}", "model": "m", "usage": usage, "content": [{"type": "text", "text": text}]}
    return json.dumps({"type": "assistant", "session_id": SESSION, "message": message, **more}) + "\n"


def result(text: str, **more: Any) -> str:
    base = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "session_id": SESSION}
    return json.dumps({**base, "result": text, **more}) + "\n"


def judge(tmp_path: Path, *lines: str, ended: Exit | None = None, **more: Any) -> Outcome:
    subject = reader(tmp_path, **more)
    feed(subject, lines)
    return subject.outcome(ended or Exit(code=0))


@pytest.mark.parametrize(("name", "code", "kind", "reason", "answer"), RECORDED)
def test_a_recorded_session_is_judged_by_its_events(
    tmp_path: Path, name: str, code: int, kind: str, reason: str, answer: str
) -> None:
    outcome = judge(tmp_path, *recorded(name), ended=Exit(code=code))

    assert outcome.kind == kind
    assert outcome.reason.startswith(reason)
    assert outcome.result == answer


def test_every_recorded_stream_is_expected_to_mean_something() -> None:
    assert sorted(file.stem for file in STREAMS.glob("*.jsonl")) == sorted(row[0] for row in RECORDED)


def test_a_used_up_window_has_the_kind_and_the_reset_of_the_event(tmp_path: Path) -> None:
    lines = recorded("five_hour")
    resets = [json.loads(line)["rate_limit_info"]["resetsAt"] for line in lines if '"rate_limit_event"' in line]
    outcome = judge(tmp_path, *lines, ended=Exit(code=1))

    assert (outcome.limit, outcome.resets_at) == ("five_hour", float(resets[0]))
    assert judge(tmp_path, *recorded("seven_day"), ended=Exit(code=1)).limit == "seven_day"
    assert judge(tmp_path, *recorded("http_429"), ended=Exit(code=1)).limit == "burst"


def test_the_use_of_a_run_is_the_sum_over_its_results_and_counts_nothing_twice(tmp_path: Path) -> None:
    outcome = judge(tmp_path, *recorded("subagents"))

    # What the server sent in its four replies; the second result repeats a part of the first one's numbers.
    assert replace(outcome.usage, money=None) == Usage(
        input=410, cache_write=50, cache_read=4054, output=80, turns=3, models=("claude-opus-5-5",)
    )
    assert outcome.usage.money == pytest.approx(0.0043008)


def test_a_resumed_session_costs_what_this_run_cost_not_its_whole_past(tmp_path: Path) -> None:
    first = judge(tmp_path, *recorded("answered")).usage
    again = judge(tmp_path, *recorded("resumed"), session=SESSION).usage

    assert again == first
    assert again.money == pytest.approx(0.0020512)


def test_without_figures_of_this_run_the_money_of_a_resumed_session_is_unknown(tmp_path: Path) -> None:
    usage = {"input_tokens": 5, "output_tokens": 2}
    lines = [init(), result("ok", total_cost_usd=4.0, usage=usage)]
    old = judge(tmp_path, *lines, session=SESSION).usage
    new = judge(tmp_path, *lines).usage

    assert (old.input, old.output, old.money) == (5, 2, None)
    assert (new.input, new.output, new.money) == (5, 2, 4.0)


def test_thinking_is_a_class_of_its_own_and_not_counted_twice(tmp_path: Path) -> None:
    models = {"m": {"inputTokens": 1, "outputTokens": 10, "thinkingTokens": 4, "costUSD": 0.5}}
    usage = judge(tmp_path, init(), result("ok", model_usage_since_last_result=models)).usage

    assert (usage.output, usage.reasoning, usage.tokens, usage.money) == (6, 4, 11, 0.5)


def test_the_money_is_unknown_as_soon_as_that_of_one_model_is(tmp_path: Path) -> None:
    models = {"a": {"inputTokens": 1, "costUSD": 0.5}, "b": {"inputTokens": 2}}
    usage = judge(tmp_path, init(), result("ok", model_usage_since_last_result=models)).usage

    assert (usage.input, usage.money, usage.models) == (3, None, ("a", "b"))


def test_before_a_result_every_message_counts_once_and_the_sum_is_partial(tmp_path: Path) -> None:
    lines = [init(), assistant("a", 1), assistant("b", 1), assistant("c", 2)]
    usage = judge(tmp_path, *lines, ended=Exit(code=None, signal=9)).usage

    assert (usage.input, usage.cache_write, usage.cache_read, usage.turns, usage.partial) == (20, 4, 6, 2, True)
    assert usage.money is None


def test_an_attempt_that_printed_nothing_used_an_unknown_amount_of_money(tmp_path: Path) -> None:
    assert judge(tmp_path, ended=Exit(code=None, signal=9)).usage == Usage()


@pytest.mark.parametrize("kind", ["NaN", "Infinity", "-5", "true", '"7"', "null", "[]", "1e400"])
def test_figures_that_are_none_count_nothing_and_break_nothing(tmp_path: Path, kind: str) -> None:
    line = result("ok", model_usage_since_last_result={"m": {"inputTokens": 11}}, num_turns=1).replace("11", kind)

    outcome = judge(tmp_path, init(), line)
    assert (outcome.kind, outcome.usage.input) == ("done", 0)


def test_events_tell_what_happens_while_it_happens(tmp_path: Path) -> None:
    subject = reader(tmp_path)
    events = feed(subject, recorded("answered"))

    assert [event.kind for event in events] == ["started", "tool", "text", "result"]
    assert events[1].text == "Bash: echo hi"
    assert all(event.session == SESSION for event in events)
    assert events[1].usage is not None
    assert events[1].usage.partial
    assert events[-1].usage == subject.outcome(Exit(code=0)).usage
    assert [event.kind for event in feed(reader(tmp_path), recorded("http_529"))][:2] == ["started", "retry"]
    assert "limit" in [event.kind for event in feed(reader(tmp_path), recorded("five_hour"))]
    assert "denied" in [event.kind for event in feed(reader(tmp_path), recorded("denied"))]


@pytest.mark.parametrize(
    ("answer", "kind", "reason", "seen"),
    [
        (f"saw 200 OK\n\nFLEET-{NONCE} DONE", "done", "", "saw 200 OK"),
        ("saw 200 OK", "done", "", "saw 200 OK"),
        (f"FLEET-{NONCE} DONE", "failed", "empty answer", ""),
        (
            f"FLEET-{NONCE} BLOCKED: login required: https://Shop.example/x",
            "blocked",
            "login required: shop.example",
            "",
        ),
        (f"tried\nFLEET-{NONCE} BLOCKED: CAPTCHA", "blocked", "captcha: host.example", "tried"),
        (f"tried\nFLEET-{NONCE} FAILED: no such page", "failed", "no such page", "tried"),
        ("FLEET-fromapage BLOCKED: captcha: x.example", "done", "", "FLEET-fromapage BLOCKED: captcha: x.example"),
        ("  \n\t ", "failed", "empty answer", ""),
        ("You've hit your limit · resets 8pm (UTC)", "limit", "You've hit your limit", ""),
        ("Please run /login · API Error: 401 Invalid authentication credentials", "auth", "Please run /login", ""),
        (f"You've hit your limit\nFLEET-{NONCE} DONE", "done", "", "You've hit your limit"),
        ("401 Unauthorized", "done", "", "401 Unauthorized"),
        ("half \ud800 pair", "done", "", "half ? pair"),
    ],
)
def test_the_agents_own_verdict_decides_an_answer(
    tmp_path: Path, answer: str, kind: str, reason: str, seen: str
) -> None:
    outcome = judge(tmp_path, init(), result(answer), host="host.example")

    assert (outcome.kind, outcome.result) == (kind, seen)
    assert outcome.reason.startswith(reason)
    assert (outcome.limit, outcome.resets_at is not None) == (("usage", True) if kind == "limit" else ("", False))


def test_a_verdict_given_before_late_reports_of_subagents_is_not_lost(tmp_path: Path) -> None:
    lines = [init(), result(f"saw it\nFLEET-{NONCE} BLOCKED: 2fa: a.example"), result("the subagent has ended as well")]

    assert judge(tmp_path, *lines).reason == "2fa: a.example"


@pytest.mark.parametrize("cause", ["first_byte", "idle", "timeout", "stopped", "shed", "lost", "unstarted"])
def test_an_attempt_that_the_fleet_ended_goes_by_the_cause_unless_its_verdict_was_out(
    tmp_path: Path, cause: Any
) -> None:
    ended = Exit(code=143, cause=cause, seconds=9)
    kind = {"unstarted": "crashed", "stopped": "unknown", "shed": "unknown", "lost": "unknown"}.get(cause, "timeout")

    assert judge(tmp_path, init(), assistant("at it"), ended=ended).kind == kind
    assert judge(tmp_path, init(), result("waiting for the subagent"), ended=ended).kind == kind
    assert judge(tmp_path, init(), result(f"seen\nFLEET-{NONCE} DONE"), ended=ended).kind == "done"


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["http_429"], "limit"),
        (["http_529"], "overload"),
        (["http_401"], "auth"),
    ],
)
def test_patience_lost_during_retries_is_charged_to_what_was_waited_for(
    tmp_path: Path, lines: list[str], kind: str
) -> None:
    until_retry = recorded(lines[0])[:2]  # the start, and the first retry
    ended = Exit(code=143, cause="idle", seconds=60)

    assert judge(tmp_path, *until_retry, ended=ended).kind == kind
    assert judge(tmp_path, *until_retry, assistant("it went on"), ended=ended).kind == "timeout"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("authentication_failed", "auth"),
        ("oauth_org_not_allowed", "auth"),
        ("account_on_hold", "auth"),
        ("verification_required", "auth"),
        ("billing_error", "auth"),
        ("cloud_credential_error", "auth"),
        ("rate_limit", "limit"),
        ("overloaded", "overload"),
        ("server_error", "overload"),
        ("model_not_found", "refused"),
        ("invalid_request", "refused"),
        ("max_output_tokens", "failed"),
        ("an_error_of_next_year", "failed"),
    ],
)
def test_each_typed_error_has_its_class_whatever_the_text_says(tmp_path: Path, error: str, kind: str) -> None:
    lines = [
        init(),
        assistant("Something went wrong", error=error, is_api_error_message=True),
        result("Something went wrong", is_error=True, terminal_reason="api_error"),
    ]

    assert judge(tmp_path, *lines, ended=Exit(code=1)).kind == kind


def test_a_limit_that_only_the_text_names_has_the_texts_kind_and_reset(tmp_path: Path) -> None:
    text = "You've hit your monthly spend limit · resets in 2h"
    lines = [init(), assistant(text, error="rate_limit"), result(text, is_error=True, api_error_status=429)]
    outcome = judge(tmp_path, *lines, ended=Exit(code=1))

    assert (outcome.kind, outcome.limit, outcome.resets_at) == ("limit", "spend", NOW + 7200)


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("seven_day_opus", "opus"),
        ("seven_day_sonnet", "sonnet"),
        ("seven_day", ""),
        ("five_hour", ""),
        ("seven_day_overage_included", ""),
        ("a_window_of_next_year", ""),
    ],
)
def test_a_limit_is_of_one_model_only_where_its_kind_is_known_to_be(tmp_path: Path, kind: str, model: str) -> None:
    info = {"status": "rejected", "rateLimitType": kind, "resetsAt": NOW + 60}
    event = json.dumps({"type": "rate_limit_event", "rate_limit_info": info})
    last = result("You've hit your limit", is_error=True, api_error_status=429, api_error="usage_limit_reached")
    outcome = judge(tmp_path, init(), event, last, ended=Exit(code=1))

    assert (outcome.kind, outcome.limit, outcome.model) == ("limit", kind, model)


@pytest.mark.parametrize(
    ("error", "goes_on", "kind"),
    [
        ("rate_limit", None, "limit"),
        ("rate_limit", "b", "limit"),
        ("rate_limit", "a", "done"),
        ("authentication_failed", None, "auth"),
        ("authentication_failed", "b", "done"),
        ("server_error", None, "done"),
        ("invalid_request", None, "done"),
    ],
)
def test_what_ended_a_subagent_of_a_crew_counts_unless_it_came_to_work_again(
    tmp_path: Path, error: str, goes_on: str | None, kind: str
) -> None:
    lines = [init(), assistant("no", error=error, is_api_error_message=True, parent_tool_use_id="a")]
    lines += [assistant("did it", parent_tool_use_id=goes_on)] if goes_on else []
    lines += [result("all have ended")]
    crew = ClaudeReader(job(tmp_path), lambda: NOW, members=True)
    feed(crew, lines)
    assert crew.outcome(Exit(code=0)).kind == kind
    alone = reader(tmp_path)
    feed(alone, lines)
    assert alone.outcome(Exit(code=0)).kind != "limit"


def test_a_warning_about_a_window_is_no_limit(tmp_path: Path) -> None:
    warning = {
        "type": "rate_limit_event",
        "rate_limit_info": {"status": "allowed_warning", "rateLimitType": "five_hour"},
    }

    assert judge(tmp_path, init(), json.dumps(warning), ended=Exit(code=1)).kind == "failed"


def test_an_error_after_an_answer_is_what_counts(tmp_path: Path) -> None:
    late = result("API Error: 529 Overloaded", is_error=True, terminal_reason="api_error", api_error_status=529)

    assert judge(tmp_path, init(), result("first answer"), late, ended=Exit(code=1)).kind == "overload"


def test_a_status_other_than_0_after_an_answer_without_verdict_is_not_done(tmp_path: Path) -> None:
    assert judge(tmp_path, init(), result("an answer"), ended=Exit(code=1)).kind == "failed"


def test_an_end_without_a_result_is_unknown_even_with_status_0(tmp_path: Path) -> None:
    assert judge(tmp_path, init(), assistant("at it")).kind == "unknown"


def test_an_event_is_found_behind_a_text_without_an_end_of_line(tmp_path: Path) -> None:
    outcome = judge(tmp_path, init(), "warning: something " + result("seen"))

    assert (outcome.kind, outcome.result) == ("done", "seen")


@pytest.mark.parametrize(
    "junk",
    [
        "{",
        '{"type":',
        "[1, 2]",
        "null",
        '{"type": 5}',
        '{"type": "assistant"}',
        '{"type": "assistant", "message": "text"}',
        '{"type": "assistant", "message": {"content": [1, null, {"type": "text"}]}}',
        '{"type": "result"}',
        '{"type": "rate_limit_event", "rate_limit_info": 1}',
        '{"type": "system", "subtype": "api_retry", "attempt": "x", "error_status": "y"}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 10_000,
        "\ud800\x00\x1b[2J",
        "",
    ],
    ids=range(16),
)
def test_no_line_breaks_the_reader(tmp_path: Path, junk: str) -> None:
    outcome = judge(tmp_path, init(), junk + "\n", result(f"seen\nFLEET-{NONCE} DONE"))

    assert (outcome.kind, outcome.result) == ("done", "seen")
    assert judge(tmp_path, junk, ended=Exit(code=1)).kind in ("refused", "failed")
    outcome.reason.encode()


@pytest.mark.parametrize("size", [1 << 16, 1 << 20])
def test_a_long_event_that_comes_in_pieces_is_one_event(tmp_path: Path, size: int) -> None:
    denied = [{"tool_name": "Write", "tool_input": {"content": " {x} " * 700_000}}]
    line = result("seen", permission_denials=denied, num_turns=3)
    pieces = [line[at : at + size] for at in range(0, len(line), size)]
    outcome = judge(tmp_path, init(), *pieces)

    assert len(pieces) > 3
    assert (outcome.kind, outcome.result, outcome.usage.turns) == ("done", "seen", 3)


def test_an_event_that_was_torn_does_not_swallow_the_next(tmp_path: Path) -> None:
    torn = assistant("x" * 200_000)[:150_000]
    outcome = judge(tmp_path, init(), torn + "\n", result("seen"))

    assert (outcome.kind, outcome.result) == ("done", "seen")


def test_a_line_of_50_megabytes_is_passed_over_and_not_kept(tmp_path: Path) -> None:
    subject = reader(tmp_path)
    huge = '{"type":"user","x":"' + "y" * 50_000_000 + '"}\n'
    text = "z" * 50_000_000
    feed(subject, [init()])
    tracemalloc.start()
    try:
        feed(subject, [huge, text, result("seen")])
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 1_000_000
    assert peak < 20_000_000
    assert subject.outcome(Exit(code=0)).kind == "done"
