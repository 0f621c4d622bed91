from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from agent_fleet_providers._limits import banner
from agent_fleet_providers._resets import reset_time

NOW = datetime(2026, 6, 24, 14, 30, tzinfo=UTC).timestamp()  # a Wednesday


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


LIMITS = [
    ("You've hit your limit · resets 8pm (UTC)", "usage", utc("2026-06-24T20:00")),
    ("You’ve hit your limit · resets 8pm (UTC)", "usage", utc("2026-06-24T20:00")),
    ("You've hit your session limit · resets 4:20am (UTC)", "five_hour", utc("2026-06-25T04:20")),
    ("You've hit your 5-hour limit · resets 9:11pm (UTC)", "five_hour", utc("2026-06-24T21:11")),
    ("5-hour limit reached ∙ resets 3pm (UTC)", "five_hour", utc("2026-06-24T15:00")),
    ("You've hit your weekly limit · resets Jun 29, 3am (Asia/Singapore)", "seven_day", utc("2026-06-28T19:00")),
    ("You've hit your Opus limit", "seven_day_opus", None),
    ("You've hit your weekly Sonnet limit · resets Mon 9am (UTC)", "seven_day_sonnet", utc("2026-06-29T09:00")),
    ("You've hit your monthly spend limit", "spend", None),
    ("You have reached your daily limit.", "daily", None),
    ("Weekly limit reached · resets 3am (Europe/London)", "seven_day", utc("2026-06-25T02:00")),
    ("Claude AI usage limit reached|1789436526", "usage", 1789436526.0),
    ("Claude usage limit reached. Your limit will reset at 7pm (UTC).", "usage", utc("2026-06-24T19:00")),
    ("You've reached your usage limit", "usage", None),
    (
        "You've hit your limit · resets 8pm (UTC)\n/upgrade to increase your usage limit.",
        "usage",
        utc("2026-06-24T20:00"),
    ),
    ("  ⎿  You've hit your brand-new limit · resets 20:00 (UTC)", "usage", utc("2026-06-24T20:00")),
    ("Turbo limit reached · resets 8pm (UTC)", "usage", utc("2026-06-24T20:00")),
    ("Out of usage credits", "spend", None),
    ("Quota exceeded. Check your plan and billing details.", "spend", None),
    (
        "ERROR: You’ve hit your usage limit. Upgrade to Pro (https://example.com/pro) or try again at 9:13 PM (UTC).",
        "usage",
        utc("2026-06-24T21:13"),
    ),
    ("You've hit your usage limit. Try again in 3 hours 5 minutes.", "usage", NOW + 3 * 3600 + 5 * 60),
    ("API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited", "burst", None),
    ("API Error: Request rejected (429) · Number of requests has exceeded your limit", "burst", None),
    ("exceeded retry limit, last status: 429 Too Many Requests", "burst", None),
    ("429 Too Many Requests", "burst", None),
]

OTHERS = [
    ("Please run /login · API Error: 401 Invalid authentication credentials", "auth"),
    ("Invalid API key · Fix external API key", "auth"),
    ("Not logged in · Please run /login", "auth"),
    ("Failed to authenticate: OAuth token revoked. Please log in again.", "auth"),
    ("Your access token could not be refreshed because your refresh token was already used.", "auth"),
    ("invalid_grant", "auth"),
    ("Error: invalid_grant: the token is no longer valid", "auth"),
    ("Credit balance is too low", "auth"),
    ("API Error: Repeated 529 Overloaded errors. The API is at capacity", "overload"),
    ("API Error: 500 Internal server error. This is a server-side issue", "overload"),
    ("API Error: Connection refused (ECONNREFUSED)", "overload"),
    ("Selected model is at capacity. Please try a different model.", "overload"),
    ("Error: Session ID 00000000-0000-4000-8000-000000000001 is already in use.", "refused"),
    ("Session 17ab is currently running as a background agent (bg). Attach to it.", "refused"),
    ("No conversation found with session ID: 17ab", "refused"),
    ("error: unknown option '--nonsense'", "refused"),
]

# What an agent may well report of a server that it was sent to look at.
FOUND = [
    "401 Unauthorized",
    "429 Too Many Requests",
    "503 Service Unavailable",
    "Connection refused",
    "Not logged in.",
    "invalid_grant",
    "Token expired.",
]

ACCOUNT = [
    "Please run /login · API Error: 401 Invalid authentication credentials",
    "Not logged in · Please run /login",
    "Invalid API key · Fix external API key",
    "Credit balance is too low",
    "API Error: Request rejected (429) · Number of requests",
    "API Error: 529 Overloaded",
    "API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited",
]

ANSWERS = [
    "",
    "done",
    "@@ -429,7 +429,7 @@ def limit():",
    "test_resets_counter: FAILED",
    "tests/test_limits.py::test_limit_reached_resets_at_3am PASSED",
    "error TS2394: overloaded functions must agree",
    "the limit was reached",
    "Recursion limit reached.",
    "Speed limit exceeded, says the sign.",
    "You've hit your limit is the text that the page shows when the quota is used up.",
    "I changed the banner to say: You've hit your limit · resets 8pm (UTC)",
    "-    You've hit your limit · resets 8pm (UTC)\n+    You have used everything · resets 8pm (UTC)",
    "2026-06-24 14:00:01 worker 3: You've hit your limit · resets 8pm (UTC)",
    "You've hit your limit · resets 8pm (UTC)\n\nThat is what the page says now; I saved a screenshot.",
    "Please run the login test again: 401 is what it gave.",
    "The server answers 429 Too Many Requests after the fifth request, as it should.",
    "HTTP 500 came up once, then the page loaded.",
    "Connection to the database works. refused: 0",
    "The refresh of the token works; invalid_grant is handled.",
    "The session ID in the cookie is already in use by the second browser, so the bug is confirmed.",
    "You've hit your limit · resets 8pm (UTC)\n" * 40,
    "Rate limits: 5 a minute. " * 40,
    "You've hit your limit · see what I found about it: " + "it is described in many words. " * 40,
]


@pytest.mark.parametrize(("text", "kind", "resets_at"), LIMITS)
def test_a_limit_is_known_by_its_family_with_its_kind_and_its_reset(
    text: str, kind: str, resets_at: float | None
) -> None:
    found = banner(text, NOW, failed=True)

    assert found is not None
    assert (found.kind, found.limit) == ("limit", kind)
    if resets_at is not None:
        assert found.resets_at == resets_at


@pytest.mark.parametrize(("text", "kind"), OTHERS)
def test_other_banners_are_told_apart_from_limits(text: str, kind: str) -> None:
    found = banner(text, NOW, failed=True)

    assert found is not None
    assert (found.kind, found.limit, found.resets_at) == (kind, "", None)


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_that_speaks_of_limits_is_no_limit(text: str) -> None:
    assert banner(text, NOW, failed=False) is None
    assert banner(text, NOW, failed=True) is None


@pytest.mark.parametrize("text", FOUND)
def test_an_error_that_an_agent_found_is_its_answer_unless_its_process_failed(text: str) -> None:
    assert banner(text, NOW, failed=False) is None
    assert banner(text, NOW, failed=True) is not None


@pytest.mark.parametrize("text", [row[0] for row in LIMITS if row[1] != "burst"] + ACCOUNT)
def test_words_about_the_account_itself_are_no_answer_even_of_a_process_that_ended_well(text: str) -> None:
    assert banner(text, NOW, failed=False) is not None


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("resets 12am (UTC)", utc("2026-06-25T00:00")),
        ("resets 12pm (UTC)", utc("2026-06-25T12:00")),
        ("resets 2:29pm (UTC)", utc("2026-06-25T14:29")),
        ("resets 2:30pm (UTC)", utc("2026-06-24T14:31")),
        ("resets 2:31pm (UTC)", utc("2026-06-24T14:31")),
        ("resets 14:31 UTC", utc("2026-06-24T14:31")),
        ("resets at 23:59 (GMT)", utc("2026-06-24T23:59")),
        ("resets tomorrow at 3am (UTC)", utc("2026-06-25T03:00")),
        ("resets Wednesday 2pm (UTC)", utc("2026-07-01T14:00")),
        ("resets Wed, 15:00 (UTC)", utc("2026-06-24T15:00")),
        ("resets Jul 3 (UTC)", utc("2026-07-03T00:00")),
        ("resets 3 July, 10am (UTC)", utc("2026-07-03T10:00")),
        ("resets Jun 24 at 9am (UTC)", utc("2026-06-24T09:00")),
        ("resets Jan 2, 2027, 10am (UTC)", utc("2027-01-02T10:00")),
        ("resets 2026-06-25T10:00:00Z", utc("2026-06-25T10:00")),
        ("try again in 45m", NOW + 2700),
        ("try again in 1 day, 2 hours and 3 minutes", NOW + 86400 + 7200 + 180),
        ("limit reached|1789436526", 1789436526.0),
        ("limit reached|1789436526000", 1789436526.0),
        ("resets 3am (Mars/Olympus)", None),
        ("resets 3am (Asia)", None),
        ("resets 3am (../../etc/passwd)", None),
        ("resets 13pm (UTC)", None),
        ("resets 25:00 (UTC)", None),
        ("resets Feb 30, 3am (UTC)", None),
        ("resets soon", None),
        ("resets", None),
        ("nothing of the kind", None),
    ],
)
def test_the_moment_of_a_reset_is_the_next_one_meant_or_unknown(phrase: str, expected: float | None) -> None:
    assert reset_time(phrase, NOW) == expected


def test_a_reset_without_a_year_is_found_across_the_turn_of_the_year() -> None:
    december = datetime(2026, 12, 30, 12, tzinfo=UTC).timestamp()
    january = datetime(2027, 1, 1, 12, tzinfo=UTC).timestamp()

    assert reset_time("resets Jan 2, 3am (UTC)", december) == utc("2027-01-02T03:00")
    assert reset_time("resets Dec 31, 3am (UTC)", january) == utc("2026-12-31T03:00")


def test_a_day_on_which_the_clocks_change_has_no_hour_too_many() -> None:
    zone = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 3, 28, 12, tzinfo=zone).timestamp()  # the next night is an hour short
    reset = reset_time("resets 11am (Europe/Berlin)", before)

    assert reset == datetime(2026, 3, 29, 11, tzinfo=zone).timestamp()
    assert reset is not None
    assert reset - before == 22 * 3600


def test_an_hour_that_comes_twice_is_the_one_still_to_come() -> None:
    zone = ZoneInfo("Europe/Berlin")
    between = datetime(2026, 10, 25, 2, 45, tzinfo=zone, fold=0).timestamp()

    assert (
        reset_time("resets 2:30am (Europe/Berlin)", between)
        == datetime(2026, 10, 25, 2, 30, tzinfo=zone, fold=1).timestamp()
    )


def test_without_a_zone_the_machines_own_is_meant() -> None:
    expected = datetime.fromtimestamp(NOW).replace(hour=23, minute=59, second=0)  # noqa: DTZ006 - the machine's own zone is the point

    assert reset_time("resets 11:59pm", NOW) == expected.timestamp()
