"""Sources of what is left: the first fresh one counts, and what is ambiguous, late or nonsense is unknown."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from agent_fleet.accounts import readers
from agent_fleet.accounts.readers import Manual, read_quota, sources
from agent_fleet.accounts.spec import Account
from agent_fleet.accounts.values import QuotaReading, Window
from agent_fleet.accounts.windows import checked, moment, remaining, token, window_name
from agent_fleet_providers.apikey import ApiKey
from agent_fleet_providers.claude import Claude
from support.jobs import settings

NOW = 1_800_000_000.0
SECRET = "sk-ant-oat01-PLANTED_0123456789"


def account(**more: Any) -> Account:
    return Account(profile="claude-1", provider="claude", home="/h", **more)


def fresh(left: float = 50.0, at: float = NOW, **more: Any) -> QuotaReading:
    window = Window(id="five_hour", kind="session", remaining=left, resets_at=NOW + 60)
    return QuotaReading(**{"status": "fresh", "windows": (window,), "observed_at": at, **more})


class Source:
    def __init__(self, name: str, answer: Callable[[], Any]) -> None:
        self.name = name
        self.asked = 0
        self._answer = answer

    def read(self, account: Account, deadline: float) -> QuotaReading | None:  # noqa: ARG002 - as the protocol has it
        self.asked += 1
        found: QuotaReading | None = self._answer()
        return found


def said(*answers: Any) -> tuple[QuotaReading, list[Source]]:
    asked = []
    for number, answer in enumerate(answers):
        asked.append(Source(f"source-{number}", answer if callable(answer) else partial(lambda each: each, answer)))
    return read_quota(asked, account(), fresh_for=300, deadline=0.5, clock=lambda: NOW), asked


def raises() -> None:
    raise RuntimeError(f"bad token {SECRET}")


def test_the_first_fresh_one_counts_and_the_later_ones_are_not_asked() -> None:
    found, asked = said(None, QuotaReading(status="error"), fresh(40), fresh(90))
    assert (found.status, found.source, found.windows[0].remaining) == ("fresh", "source-2", 40)
    assert [each.asked for each in asked] == [1, 1, 1, 0]


def test_one_that_raises_or_hangs_costs_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "GRACE", 0.0)
    begun = time.monotonic()
    found, _ = said(raises, lambda: time.sleep(30), lambda: 7, lambda: {"status": "fresh"}, fresh())
    assert (found.status, found.source) == ("fresh", "source-4")
    assert time.monotonic() - begun < 10


def test_without_a_fresh_one_the_one_that_says_most_counts() -> None:
    old = fresh(at=NOW - 301)
    assert said(raises, old)[0].status == "stale"
    assert said(raises, old)[0].windows[0].remaining == 50
    assert said(old, QuotaReading(status="rate_limited"), None)[0].status == "rate_limited"
    assert said(QuotaReading(status="auth_required"), raises)[0].status == "auth_required"
    assert said(raises)[0].reason == "reader_failed"
    assert said(None)[0].status == "unavailable"
    assert said()[0].status == "none"


def test_an_account_without_numbers_has_no_source(tmp_path: Path) -> None:
    assert sources(ApiKey(settings(tmp_path)), account()) == []
    names = [each.name for each in sources(Claude(settings(tmp_path)), account())]
    assert names == ["quota-axi", "claude-last-run", "manual"]


@pytest.mark.parametrize(
    "reading",
    [
        QuotaReading(status="fresh", observed_at=NOW),
        fresh(windows=None),
        fresh(observed_at=None),
        fresh(at=NOW + 3600),
        fresh(observed_at=0.0),
        fresh(observed_at=float("nan")),
        fresh(left=float("nan")),
        fresh(left=float("inf")),
        QuotaReading(status="fresh", observed_at=NOW, windows=(Window(id="x", kind="y", remaining="9"),)),  # type: ignore[arg-type]
    ],
)
def test_fresh_is_what_has_a_time_and_a_figure(reading: QuotaReading) -> None:
    assert said(reading)[0].status == "unavailable"


def test_a_window_told_twice_is_believed_only_if_it_is_the_same() -> None:
    one, other = (
        Window(id="five_hour", kind="session", remaining=10),
        Window(id="five_hour", kind="session", remaining=90),
    )
    week = Window(id="seven_day", kind="weekly", remaining=50)
    assert [each.id for each in checked(fresh(windows=(one, other, week)), "s", NOW).windows] == ["seven_day"]
    assert [each.id for each in checked(fresh(windows=(one, one, week)), "s", NOW).windows] == [
        "five_hour",
        "seven_day",
    ]
    assert [each.id for each in checked(fresh(windows=(one, other, one, week)), "s", NOW).windows] == ["seven_day"]


NAN = float("nan")


@pytest.mark.parametrize(
    ("windows", "status"),
    [
        ([("five_hour", "session", 10), ("five_hour", "session", 90), ("seven_day", "weekly", 50)], "unavailable"),
        ([("five_hour", "session", NAN), ("seven_day", "weekly", 50)], "unavailable"),
        ([("five_hour", "session", 140), ("seven_day", "weekly", 50)], "unavailable"),
        ([("five_hour", "session", 10), ("seven_day_opus", "model", NAN)], "fresh"),
        ([("five_hour", "session", 10), ("seven_day_opus", "weekly", NAN)], "fresh"),
        ([("day", "session", 10), ("month", "weekly", NAN)], "unavailable"),
        ([("day", "session", 10), ("month", "other", NAN)], "fresh"),
        ([("day", "session", 10), ("month", "other", 20), ("month", "other", 30)], "fresh"),
    ],
)
def test_what_one_window_has_left_says_nothing_of_another_that_is_unknown(
    windows: list[tuple[str, str, float]], status: str
) -> None:
    given = tuple(Window(id=name, kind=kind, remaining=left) for name, kind, left in windows)
    found = checked(fresh(windows=given), "s", NOW)
    assert (found.status, found.reason) == (status, "" if status == "fresh" else "ambiguous_window")


@pytest.mark.parametrize(
    "text", [SECRET, "Bearer abc", "eyJhbGciOi.eyJ.sig", "a b", "", "x" * 65, "ünï", "sk-0a1b2c3d4e5f", "A"]
)
def test_words_of_a_provider_go_no_further(text: str) -> None:
    assert token(text, "unknown") == "unknown"
    window = Window(id=text, kind=text, remaining=5)
    found = checked(fresh(reason=text or "x y", windows=(window,), source=text), "s", NOW)
    assert not text or text not in repr(found)


@pytest.mark.parametrize(
    "text", ["five_hour", "seven_day_opus", "weekly", "minutes_300", "usage_limit_reached", "5h", "gpt-5"]
)
def test_codes_are_kept(text: str) -> None:
    assert token(text, "unknown") == text


@pytest.mark.parametrize(
    ("left", "used", "found"),
    [
        (30, None, 30),
        (None, 30, 70),
        (30, 70, 30),
        (30, 60, None),
        (-5, None, 0),
        (130, None, None),
        (100.4, None, 100),
        (None, -30, None),
        (None, 130, 0),
        (True, None, None),
        ("30", None, None),
        (float("nan"), None, None),
        (10**400, None, None),
        (None, None, None),
        (0, None, 0),
    ],
)
def test_percent(left: object, used: object, found: float | None) -> None:
    assert remaining(left, used) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (NOW + 60, NOW + 60),
        ((NOW + 60) * 1000, NOW + 60),
        ("2027-01-15T08:01:00Z", NOW + 60),
        ("2027-01-15T09:01:00+01:00", NOW + 60),
        ("2027-01-15T08:01:00", None),
        ("2027-01-15", None),
        ("tomorrow", None),
        (300, None),
        (0, None),
        (-1, None),
        (NOW * 60, None),
        (True, None),
        (None, None),
        ([], None),
        (float("inf"), None),
        (10**400, None),
    ],
)
def test_moments(value: object, found: float | None) -> None:
    assert moment(value, NOW) == found


def test_windows_are_named_by_their_length() -> None:
    assert [window_name(each) for each in (300, 10080.0, 60, 0, -1, None, "300", True, 1e9)] == [
        *(("five_hour", "session"), ("seven_day", "weekly"), ("minutes_60", "other")),
        *[("unknown", "other")] * 6,
    ]


junk = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
)


@effort(deadline=None)
@given(junk, junk, junk, junk, junk)
def test_whatever_a_plugin_hands_over_is_sound_afterwards(one: Any, two: Any, three: Any, four: Any, five: Any) -> None:
    window = Window(id=one, kind=two, remaining=three, resets_at=four, observed_at=five)
    found = checked(fresh(windows=(window, five), observed_at=four, reason=one, account=two), "s", NOW)
    json.dumps([each.id for each in found.windows])
    assert all(0 <= each.remaining <= 100 for each in found.windows)
    assert found.status in ("fresh", "unavailable")


# ------------------------------------------------------------------------------------------------------ by hand


def test_a_person_may_write_the_figures_down(tmp_path: Path) -> None:
    file = tmp_path / "left.json"
    now = time.time()
    rows = [
        {"id": "five_hour", "kind": "session", "remaining_percent": 12, "resets_at": now + 600},
        {"id": "seven_day", "kind": "weekly", "percentUsed": 20},
        {"id": "bad", "remaining_percent": "x"},
        7,
    ]
    file.write_text(json.dumps({"windows": rows}))
    noted = account(options={"quota_file": str(file)})
    found = read_quota([Manual()], noted, fresh_for=300)
    assert (found.status, found.source) == ("fresh", "manual")
    assert {each.id: each.remaining for each in found.windows} == {"five_hour": 12, "seven_day": 80}
    assert found.windows[0].resets_at == pytest.approx(now + 600)
    os.utime(file, (now - 1000, now - 1000))
    assert read_quota([Manual()], noted, fresh_for=300).status == "stale"
    file.write_text("{")
    assert read_quota([Manual()], noted, fresh_for=300).status == "unavailable"
    assert Manual().read(account(), 1) is None
