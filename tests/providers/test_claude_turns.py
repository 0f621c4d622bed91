"""A session of Claude Code on a terminal, judged by the lines that its hooks wrote; these were written by 2.1.332 itself."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agent_fleet.api import Exit, Outcome
from agent_fleet_providers._claude_turns import ClaudeTurns

NOON = 1796126400.0  # 2026-12-01 12:00 UTC
SESSION = "31474406-52f9-40ef-af06-2f29a064191c"
HERE = Exit(code=None, cause="stopped")
BURST = "API Error: Server is temporarily limiting requests (not your usage limit) · slow down"
OVERLOADED = "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment."
MODEL = (
    "There's an issue with the selected model (claude-sonnet-5-5). It may not exist or you may not have access to it."
)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def failed(error: str, text: str, **more: str) -> str:
    told = {"session_id": SESSION, "cwd": "/p", "hook_event_name": "StopFailure", "error": error}
    return json.dumps({**told, "last_assistant_message": text, **more})


def ended(text: str = "done") -> str:
    told = {"session_id": SESSION, "hook_event_name": "Stop", "stop_hook_active": False}
    return json.dumps({**told, "last_assistant_message": text, "background_tasks": []})


def judged(*lines: str, by: Exit = HERE) -> Outcome:
    reader = ClaudeTurns(lambda: NOON)
    for line in lines:
        assert list(reader.feed(line)) == []
    return reader.outcome(by)


FIVE_HOURS = failed("rate_limit", "You've hit your 5-hour limit · resets 1:07pm (UTC)")


@pytest.mark.parametrize(
    ("line", "kind", "limit", "model", "resets_at"),
    [
        (FIVE_HOURS, "limit", "five_hour", "", NOON + 67 * 60),
        (failed("rate_limit", "You've hit your Opus limit · resets 1:07pm (UTC)"), "limit", "seven_day_opus", "opus", 1),
        (failed("rate_limit", BURST), "limit", "burst", "", None),
        (failed("authentication_failed", "Please run /login · API Error: 401 OAuth token has expired"), "auth", "", "", None),
        (failed("billing_error", "Credit balance is too low"), "auth", "", "", None),
        (failed("server_error", OVERLOADED), "overload", "", "", None),
    ],
)  # fmt: skip
def test_what_ended_the_last_turn_is_its_outcome_whoever_ended_the_session_then(
    line: str, kind: str, limit: str, model: str, resets_at: float | None
) -> None:
    for by in (HERE, Exit(code=0), Exit(code=None, signal=9)):
        found = judged(ended(), line, by=by)
        assert (found.kind, found.model, found.session) == (kind, model, SESSION)
        assert limit in ("", found.limit)
        assert (found.resets_at is None) is (resets_at is None)
        if limit == "five_hour":
            assert found.resets_at == resets_at


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (ended(),),
        (FIVE_HOURS, ended()),  # the person waited, or logged in, and it went on
        (failed("rate_limit", "You've hit your 5-hour limit", agent_id="a29", agent_type="general-purpose"),),
        (failed("model_not_found", MODEL),),  # somebody has to look
        (failed("max_output_tokens", "too long"),),
        ("", "{", "[]", "\x1b[2J", '{"hook_event_name": "StopFailure"}', ended()),
    ],
)
def test_anything_else_is_no_wall(lines: tuple[str, ...]) -> None:
    assert judged(*lines).kind == "unknown"
    assert judged(*lines, by=Exit(code=0)).kind == "done"
    assert judged(*lines, by=Exit(code=3)).kind == "failed"
