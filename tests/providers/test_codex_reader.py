"""The streams were recorded with Codex 0.171.0 against the scripted server of these tests; paths and ports are made plain."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.api import Event, Exit, Outcome, Usage
from agent_fleet_providers._codex_stream import CodexReader
from agent_fleet_providers._codex_threads import Threads
from support.jobs import NONCE, job
from support.rollouts import AGENT, THREAD, record, rollout

STREAMS = Path(__file__).parent / "streams" / "codex"


def local(time: str) -> float:
    """The moment that clocks on this machine show so."""
    return datetime.fromisoformat(time).astimezone().timestamp()


NOW = local("2026-11-30T22:10")

RECORDED = [
    ("answered", 0, "done", "", "it said hi"),
    ("resumed", 0, "done", "", "it said ho"),
    ("subagents", 0, "done", "", "parent answer"),
    ("file_change", 0, "done", "", "wrote it"),
    ("cut_once", 0, "done", "", "whole"),
    ("denied", 0, "done", "permission was denied (1)", "it was denied"),
    ("declined", 0, "done", "permission was denied (1)", "it was declined"),
    ("no_helper", 0, "done", "no command was run, and Codex lacks its sandbox helper", "looked at nothing"),
    ("empty", 0, "failed", "empty answer", ""),
    ("http_400", 1, "refused", "Unsupported value: 'x'", ""),
    ("http_404", 1, "refused", "The model does not exist", ""),
    ("bad_prompt", 1, "refused", "Invalid prompt: policy", ""),
    ("full", 1, "refused", "Codex ran out of room", ""),
    ("no_thread", 1, "refused", "Codex did not begin, exited 1: Error: thread/resume", ""),
    ("bad_option", 2, "refused", "Codex did not begin, exited 2: error: unexpected argument '--nope'", ""),
    ("bad_setting", 1, "refused", "Codex did not begin, exited 1: Error loading config.toml", ""),
    ("no_prompt", 1, "refused", "Codex did not begin, exited 1: No prompt provided", ""),
    ("too_long", 1, "refused", "Codex did not begin, exited 1: Error: turn/start", ""),
    ("http_401", 1, "auth", "unexpected status 401 Unauthorized", ""),
    ("http_402", 1, "auth", "unexpected status 402 Payment Required", ""),
    ("http_403", 1, "auth", "unexpected status 403 Forbidden", ""),
    ("quota", 1, "auth", "Quota exceeded", ""),
    ("quota_in_stream", 1, "auth", "Quota exceeded", ""),
    ("not_in_plan", 1, "auth", "To use Codex with your ChatGPT plan", ""),
    ("no_key", 1, "auth", "Missing environment variable", ""),
    ("http_500", 1, "overload", "We’re currently experiencing high demand", ""),
    ("http_502", 1, "overload", "unexpected status 502", ""),
    ("at_capacity", 1, "overload", "Selected model is at capacity", ""),
    ("error_in_stream", 1, "overload", "stream disconnected before completion: The server", ""),
    ("cut_stream", 1, "overload", "stream disconnected before completion: Transport", ""),
    ("connection_refused", -15, "overload", "Connection failed", ""),
    ("http_429", 1, "limit", "exceeded retry limit, last status: 429", ""),
    ("slow_down", 1, "limit", "rate limit exceeded: busy", ""),
    ("rate_in_stream", 1, "limit", "rate limit exceeded: Rate limit reached", ""),
    ("limit", 1, "limit", "You’ve hit your usage limit", ""),
    ("limit_team", 1, "limit", "You’ve hit your usage limit", ""),
    ("limit_another_day", 1, "limit", "You’ve hit your usage limit", ""),
    ("limit_no_reset", 1, "limit", "You’ve hit your usage limit", ""),
    ("sigterm", -15, "crashed", "ended by SIGTERM", ""),
    ("sigint", 1, "crashed", "exited 1 before the turn was over", ""),
]

STARTED = {"type": "thread.started", "thread_id": THREAD}
TURN = {"type": "turn.started"}


def reader(tmp_path: Path, threads: Threads | None = None, *, thread: str = "", **more: Any) -> CodexReader:
    return CodexReader(job(tmp_path, **more), threads, thread=thread, clock=lambda: NOW)


def feed(into: CodexReader, lines: Iterable[str | dict[str, Any]]) -> list[Event]:
    texts = (line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    return [event for text in texts for event in into.feed(text)]


def recorded(name: str) -> list[str]:
    return (STREAMS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)


def ended(code: int) -> Exit:
    return Exit(code=code) if code >= 0 else Exit(code=None, signal=-code)


def item(kind: str, *, at: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": f"item.{at}", "item": {"id": "item_1", "type": kind, **more}}


def message(text: str) -> dict[str, Any]:
    return item("agent_message", text=text)


def completed(total: int = 10, cached: int = 4, output: int = 3) -> dict[str, Any]:
    usage = {"input_tokens": total, "cached_input_tokens": cached, "output_tokens": output}
    return {"type": "turn.completed", "usage": usage}


def failed(text: str) -> dict[str, Any]:
    return {"type": "turn.failed", "error": {"message": text}}


def judge(
    tmp_path: Path,
    *lines: str | dict[str, Any],
    exit: Exit | None = None,
    threads: Threads | None = None,
    thread: str = "",
    **more: Any,
) -> Outcome:
    subject = reader(tmp_path, threads, thread=thread, **more)
    feed(subject, lines)
    return subject.outcome(exit or Exit(code=0))


@pytest.mark.parametrize(("name", "code", "kind", "reason", "answer"), RECORDED)
def test_a_recorded_session_is_judged_by_its_events(
    tmp_path: Path, name: str, code: int, kind: str, reason: str, answer: str
) -> None:
    outcome = judge(tmp_path, *recorded(name), exit=ended(code))

    assert (outcome.kind, outcome.result) == (kind, answer)
    assert outcome.reason.startswith(reason)
    assert bool(outcome.reason) == bool(reason)


def test_every_recorded_stream_is_expected_to_mean_something() -> None:
    assert sorted(file.stem for file in STREAMS.glob("*.jsonl")) == sorted(row[0] for row in RECORDED)


@pytest.mark.parametrize(
    ("name", "limit", "resets"),
    [
        ("limit", "usage", local("2026-11-30T22:43")),
        ("limit_team", "usage", local("2026-11-30T22:43")),
        ("limit_another_day", "usage", local("2026-12-05T22:06")),
        ("limit_no_reset", "usage", None),
        ("http_429", "burst", None),
        ("slow_down", "burst", None),
    ],
)
def test_a_limit_has_its_kind_and_the_reset_that_codex_names_in_local_time(
    tmp_path: Path, name: str, limit: str, resets: float | None
) -> None:
    outcome = judge(tmp_path, *recorded(name), exit=Exit(code=1))

    assert (outcome.limit, outcome.resets_at) == (limit, resets)


def test_a_burst_names_the_seconds_until_it_is_over(tmp_path: Path) -> None:
    assert judge(tmp_path, *recorded("rate_in_stream"), exit=Exit(code=1)).resets_at == NOW + 1.5


def test_a_thread_is_kept_unless_it_could_not_be_opened_or_is_full(tmp_path: Path) -> None:
    begun = json.loads(recorded("limit")[0])["thread_id"]

    assert judge(tmp_path, *recorded("limit"), exit=Exit(code=1)).session == begun
    assert judge(tmp_path, *recorded("sigterm"), exit=Exit(code=None, signal=15)).session
    assert judge(tmp_path, *recorded("no_thread"), exit=Exit(code=1), thread=THREAD).session == ""
    assert judge(tmp_path, *recorded("full"), exit=Exit(code=1)).session == ""
    assert judge(tmp_path, *recorded("too_long"), exit=Exit(code=1)).session == ""


def test_events_tell_what_happens_while_it_happens(tmp_path: Path) -> None:
    events = feed(reader(tmp_path), recorded("answered"))

    assert [event.kind for event in events] == ["started", "tool", "text", "result"]
    assert events[1].text == "/bin/bash -c 'echo hi'"
    assert len({event.session for event in events}) == 1
    assert events[1].usage is not None
    assert events[1].usage.partial
    assert events[-1].usage is not None
    assert not events[-1].usage.partial
    assert [event.kind for event in feed(reader(tmp_path), recorded("http_401"))].count("retry") == 2
    assert "retry" in [event.kind for event in feed(reader(tmp_path), recorded("connection_refused"))]
    assert "limit" in [event.kind for event in feed(reader(tmp_path), recorded("limit"))]
    assert "denied" in [event.kind for event in feed(reader(tmp_path), recorded("denied"))]
    assert [event.text for event in feed(reader(tmp_path), recorded("file_change")) if event.kind == "tool"] == [
        "add /home/user/project/cwd/a.txt",
        "/bin/bash -c false",
    ]
    told = [event.text for event in feed(reader(tmp_path), recorded("subagents")) if event.kind == "tool"]
    assert told == ["spawn_agent: SUBTASK look", "wait:"]


# ------------------------------------------------------------------------------------------------------ use


def test_a_new_thread_without_records_costs_what_its_total_says_each_token_in_one_class(tmp_path: Path) -> None:
    usage = judge(tmp_path, *recorded("answered")).usage

    assert usage == Usage(input=203, cache_write=23, cache_read=2021, output=36, reasoning=11, turns=1)
    assert usage.tokens == 2247 + 47


def test_a_resumed_thread_costs_the_difference_to_what_it_had_used_before(tmp_path: Path) -> None:
    before = record("turn-1", 100, 40, 9, written=10, reasoning=4)
    file = rollout(tmp_path, before)
    threads = Threads(str(tmp_path / "sessions"), {THREAD: file.stat().st_size})
    lines = [STARTED, TURN, message("seen"), completed(250, 90, 20)]

    assert judge(tmp_path, *lines, threads=threads, thread=THREAD).usage == Usage(
        input=110, cache_read=50, output=15, turns=1
    )


def test_a_resumed_thread_whose_past_is_not_known_has_an_unknown_use(tmp_path: Path) -> None:
    lines = [STARTED, TURN, message("seen"), completed(250, 90, 20)]

    assert judge(tmp_path, *lines, thread=THREAD).usage == Usage(partial=True)
    missing = Threads(str(tmp_path / "nowhere"), {})
    assert judge(tmp_path, *lines, threads=missing, thread=THREAD).usage == Usage(partial=True)


def test_records_tell_the_use_of_a_turn_that_did_not_end_and_it_is_partial(tmp_path: Path) -> None:
    rollout(tmp_path, record("turn-1", 100, 40, 9), record("turn-1", 200, 150, 8, reasoning=8))
    threads = Threads(str(tmp_path / "sessions"), {})
    usage = judge(tmp_path, STARTED, TURN, exit=Exit(code=None, signal=9), threads=threads).usage

    assert usage == Usage(input=110, cache_read=190, output=9, reasoning=8, turns=2, models=("m",), partial=True)


def test_a_turn_that_failed_is_accounted_for_in_full(tmp_path: Path) -> None:
    rollout(tmp_path, record("turn-1", 100, 40, 9))
    threads = Threads(str(tmp_path / "sessions"), {})
    lines = [STARTED, TURN, failed("Selected model is at capacity.")]

    assert judge(tmp_path, *lines, exit=Exit(code=1), threads=threads).usage == Usage(
        input=60, cache_read=40, output=9, turns=1, models=("m",)
    )


def test_subagents_count_for_the_turns_of_this_attempt_alone(tmp_path: Path) -> None:
    file = rollout(tmp_path, record("turn-1", 100, 0, 1))
    threads = Threads(str(tmp_path / "sessions"), {THREAD: file.stat().st_size})
    with file.open("a") as out:
        out.write(record("turn-2", 10, 0, 1))
    rollout(tmp_path, record("turn-1", 1000, 0, 5), record("turn-2", 2000, 0, 7), thread=AGENT)
    call = item("collab_tool_call", tool="wait", receiver_thread_ids=[AGENT])
    lines = [STARTED, TURN, call, call, message("seen"), completed(110, 0, 2)]
    usage = judge(tmp_path, *lines, threads=threads, thread=THREAD).usage

    assert (usage.input, usage.output, usage.turns, usage.partial) == (2010, 8, 2, False)


def test_a_subagent_without_records_makes_the_use_partial(tmp_path: Path) -> None:
    call = item("collab_tool_call", tool="spawn_agent", receiver_thread_ids=[AGENT])

    assert judge(tmp_path, STARTED, TURN, call, message("seen"), completed()).usage.partial


def test_records_that_are_written_while_they_are_read_are_counted_once(tmp_path: Path) -> None:
    lines = record("turn-1", 100, 0, 1) + record("turn-1", 10, 0, 2)
    file = rollout(tmp_path)
    threads = Threads(str(tmp_path / "sessions"), {})
    for character in lines:
        with file.open("a") as out:
            out.write(character)
        threads.spent(THREAD)
    spent = threads.spent(THREAD)

    assert spent is not None
    assert spent.after == {"turn-1": Usage(input=110, output=3, turns=2, models=("m",))}


@pytest.mark.parametrize("day", ["2026/11/29", "2026/11/30", "2026/12/01"])
def test_a_thread_is_found_under_the_day_of_any_zone(tmp_path: Path, day: str) -> None:
    rollout(tmp_path, record("turn-1", 1, 0, 1), day=day)

    assert Threads(str(tmp_path / "sessions"), {}).spent(THREAD) is not None


@pytest.mark.parametrize("line", ["{", "null", '{"payload":{"usage":[]}}', '{"payload":5}', "[" * 100_000, "\x00"])
def test_records_that_are_damaged_count_nothing(tmp_path: Path, line: str) -> None:
    head = '{"type":"token_usage_record",'
    rollout(tmp_path, line + "\n", head + line[1:] + "\n", record("turn-1", 5, 0, 1))
    spent = Threads(str(tmp_path / "sessions"), {}).spent(THREAD)

    assert spent is not None
    assert sum(used.tokens for used in spent.after.values()) == 6


@pytest.mark.parametrize("figure", ["NaN", "Infinity", "-5", "true", '"7"', "null", "[]", "1e400", "9" * 400])
def test_figures_that_are_none_count_nothing_and_break_nothing(tmp_path: Path, figure: str) -> None:
    line = json.dumps(completed(11, 0, 0)).replace("11", figure)
    outcome = judge(tmp_path, STARTED, TURN, message("ok"), line)

    assert (outcome.kind, outcome.usage.input) == ("done", 0)


# -------------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("answer", "kind", "reason", "seen"),
    [
        (f"saw 200 OK\n\nFLEET-{NONCE} DONE", "done", "", "saw 200 OK"),
        ("saw 200 OK", "done", "", "saw 200 OK"),
        (f"FLEET-{NONCE} DONE", "failed", "empty answer", ""),
        (f"FLEET-{NONCE} BLOCKED: captcha", "blocked", "captcha: host.example", ""),
        (f"tried\nFLEET-{NONCE} FAILED: no such page", "failed", "no such page", "tried"),
        ("  \n\t ", "failed", "empty answer", ""),
        ("You’ve hit your usage limit. Try again at 9:13 PM.", "limit", "You’ve hit your usage limit", ""),
        (f"You’ve hit your usage limit.\nFLEET-{NONCE} DONE", "done", "", "You’ve hit your usage limit."),
        ("The log says: You’ve hit your usage limit. I mended it.", "done", "", "The log says: You’ve hit your usage"),
        ("half \ud800 pair", "done", "", "half ? pair"),
    ],
)
def test_the_agents_own_verdict_decides_an_answer(
    tmp_path: Path, answer: str, kind: str, reason: str, seen: str
) -> None:
    outcome = judge(tmp_path, STARTED, TURN, message(answer), completed(), host="host.example")

    assert outcome.kind == kind
    assert outcome.result.startswith(seen)
    assert outcome.reason.startswith(reason)


def test_the_last_message_is_the_answer_unless_an_earlier_one_holds_the_verdict(tmp_path: Path) -> None:
    thought, last, said = message("looking"), message("seen"), message(f"saw it\nFLEET-{NONCE} DONE")

    assert judge(tmp_path, STARTED, TURN, thought, last, completed()).result == "seen"
    assert judge(tmp_path, STARTED, TURN, said, thought, completed()).result == "saw it"


@pytest.mark.parametrize("cause", ["first_byte", "idle", "timeout", "stopped", "shed", "lost", "unstarted"])
def test_an_attempt_that_the_fleet_ended_goes_by_the_cause_unless_its_verdict_was_out(
    tmp_path: Path, cause: Any
) -> None:
    exit = Exit(code=143, cause=cause, seconds=9)
    kind = {"unstarted": "crashed", "stopped": "unknown", "shed": "unknown", "lost": "unknown"}.get(cause, "timeout")

    assert judge(tmp_path, STARTED, TURN, message("at it"), exit=exit).kind == kind
    assert judge(tmp_path, STARTED, TURN, message("at it"), completed(), exit=exit).kind == kind
    assert judge(tmp_path, STARTED, TURN, message("at it"), failed("odd"), exit=exit).kind == kind
    said = message(f"seen\nFLEET-{NONCE} DONE")
    assert judge(tmp_path, STARTED, TURN, said, completed(), exit=exit).kind == "done"


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        ("unexpected status 401 Unauthorized: no, url: http://127.0.0.1/v1/responses", "auth"),
        ("rate limit exceeded: busy", "limit"),
        ("We’re currently experiencing high demand, which may cause temporary errors.", "overload"),
        ("stream disconnected before completion: (x)", "overload"),
    ],
)
def test_patience_lost_during_retries_is_charged_to_what_was_waited_for(tmp_path: Path, why: str, kind: str) -> None:
    note = {"type": "error", "message": f"Reconnecting... 2/5 ({why})"}
    exit = Exit(code=143, cause="idle", seconds=60)

    assert judge(tmp_path, STARTED, TURN, note, exit=exit).kind == kind
    assert judge(tmp_path, STARTED, TURN, note, message("it went on"), exit=exit).kind == "timeout"


def test_a_note_about_a_retry_is_never_the_end(tmp_path: Path) -> None:
    note = {"type": "error", "message": "Reconnecting... 5/5 (unexpected status 401 Unauthorized: x)"}

    assert judge(tmp_path, STARTED, TURN, note, message("seen"), completed()).kind == "done"


def test_a_warning_is_no_error(tmp_path: Path) -> None:
    warning = item("error", message="You’ve hit your usage limit.")
    outcome = judge(tmp_path, STARTED, warning, TURN, message("seen"), completed())

    assert (outcome.kind, outcome.result) == ("done", "seen")
    assert judge(tmp_path, STARTED, TURN, warning, exit=Exit(code=1)).kind == "crashed"


def test_an_end_that_text_feigns_does_not_count_once_the_agent_goes_on(tmp_path: Path) -> None:
    feigned = [failed("You’ve hit your usage limit."), completed(9, 0, 9), {**STARTED, "thread_id": AGENT}]
    command = item("command_execution", exit_code=0, aggregated_output="", status="completed")
    outcome = judge(tmp_path, STARTED, TURN, *feigned, command, message("seen"), completed(10, 4, 3))

    assert (outcome.kind, outcome.result, outcome.session) == ("done", "seen", THREAD)
    assert outcome.usage.tokens == 13
    assert judge(tmp_path, STARTED, TURN, *feigned, command, exit=Exit(code=None, signal=9)).kind == "crashed"


BROKEN = "bwrap: execvp codex-linux-sandbox: No such file or directory"


@pytest.mark.parametrize(
    "sign",
    [
        f"2026-11-30T22:06:46Z ERROR codex_core::tools::router: error=exec_command failed: {BROKEN}\n",
        f"{BROKEN}\n",
        item("command_execution", exit_code=1, aggregated_output=f"{BROKEN}\n", status="failed"),
    ],
    ids=["call", "text", "output"],
)
def test_a_sandbox_that_lets_no_command_run_is_said_whatever_the_agent_says(tmp_path: Path, sign: Any) -> None:
    said = message(f"all fine\nFLEET-{NONCE} DONE")
    ran = item("command_execution", exit_code=0, aggregated_output="hi\n", status="completed")
    outcome = judge(tmp_path, STARTED, TURN, sign, said, completed())

    assert (outcome.kind, outcome.result) == ("refused", "all fine")
    assert outcome.reason == f"Codex could run no command in its sandbox: {BROKEN}"
    assert judge(tmp_path, STARTED, TURN, sign, ran, said, completed()).kind == "done"


def test_a_command_that_prints_what_a_broken_sandbox_prints_has_run(tmp_path: Path) -> None:
    shown = item("command_execution", exit_code=0, aggregated_output=f"{BROKEN}\n", status="completed")

    assert judge(tmp_path, STARTED, TURN, shown, message("seen"), completed()).kind == "done"


@pytest.mark.parametrize(
    ("lines", "code", "kind"),
    [
        ([], 0, "unknown"),
        ([], 1, "refused"),
        ([STARTED, TURN], 0, "unknown"),
        ([STARTED, TURN, message("x"), completed()], 1, "failed"),
        (["Error: Your access token could not be refreshed because your refresh token was already used.\n"], 1, "auth"),
    ],
    ids=range(5),
)
def test_an_end_without_a_result_is_never_done(tmp_path: Path, lines: list[Any], code: int, kind: str) -> None:
    assert judge(tmp_path, *lines, exit=Exit(code=code)).kind == kind


def test_what_a_tool_prints_about_limits_is_not_what_codex_says(tmp_path: Path) -> None:
    output = "You’ve hit your usage limit.\n429 Too Many Requests\n"
    command = item("command_execution", exit_code=1, aggregated_output=output, status="failed")

    assert judge(tmp_path, STARTED, TURN, command, message("it failed"), completed()).kind == "done"
    assert judge(tmp_path, STARTED, TURN, command, "401 Unauthorized\n", exit=Exit(code=1)).kind == "crashed"


@pytest.mark.parametrize(
    "junk",
    [
        "{",
        '{"type":',
        "[1, 2]",
        "null",
        '{"type": 5}',
        '{"type": "item.completed"}',
        '{"type": "item.completed", "item": "text"}',
        '{"type": "item.completed", "item": {"type": "file_change", "changes": [1, null]}}',
        '{"type": "item.completed", "item": {"type": "collab_tool_call", "receiver_thread_ids": [1, null, "../.."]}}',
        '{"type": "turn.completed"}',
        '{"type": "turn.failed", "error": 1}',
        '{"type": "error", "message": {"a": 1}}',
        '{"type": "thread.started", "thread_id": 7}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 10_000,
        "\ud800\x00\x1b[2J",
        "",
    ],
    ids=range(18),
)
def test_no_line_breaks_the_reader(tmp_path: Path, junk: str) -> None:
    threads = Threads(str(tmp_path / "sessions"), {})
    said = message(f"seen\nFLEET-{NONCE} DONE")
    outcome = judge(tmp_path, STARTED, TURN, junk + "\n", said, completed(), threads=threads)

    assert (outcome.kind, outcome.result) == ("done", "seen")
    assert judge(tmp_path, junk, exit=Exit(code=1)).kind in ("refused", "failed")
    outcome.reason.encode()
