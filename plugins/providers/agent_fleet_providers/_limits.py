"""Banners: what a program prints instead of an answer when an account, a limit or a service stands in the way.

The wording changes from release to release, so each is matched as a family. A banner is the *whole* of a short text:
the same words inside an answer, a diff, a log or the name of a test are what the agent talks about, and no limit.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from agent_fleet.api import plain
from agent_fleet_providers._output import one_line
from agent_fleet_providers._resets import reset_time

BannerKind = Literal["limit", "auth", "overload", "refused"]

MOST = 600  # characters; the longest banner known is shorter than half of this


class Banner(NamedTuple):
    """What stands in the way. `limit` is the kind of limit, empty for the other kinds; the reset is None if unknown."""

    kind: BannerKind
    reason: str
    limit: str = ""
    resets_at: float | None = None


def _any(*patterns: str) -> re.Pattern[str]:
    """A text that begins in one of these ways."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.I | re.S)


# How a banner goes on after its first words: with when it resets or what to do. Any other continuation is prose.
_ADVICE = (
    r"(?:resets?|will reset|it (?:will )?resets?|your (?:\w+ )?(?:limit|access)|upgrade|or |try again|please|visit"
    r"|contact|see |add |buy |to |ask |switch|wait|/|run |you can|request|rate limited|https?:|\d{9,}|learn|check"
    r"|enable|turn on)"
)
_TAIL = rf"(?:$|\s*(?:[·∙•|.,;:(—–-]|$)\s*(?:$|{_ADVICE}))"
_GLYPHS = r"[\s>*●•✗✖⚠️⎿❯└╰─│\"]"
_PREFIX = re.compile(rf"(?:{_GLYPHS}|(?:api |stream |fatal )?error:|warning:|claude:|codex:)+", re.I)

_HIT = _any(
    r"you(?:['’‘`]?ve| have) (?:hit|reached|exceeded|used up) your "
    r"(?P<what>(?:[\w'’-]+ ){0,5}?)limit\b" + _TAIL
)
_REACHED = _any(
    r"(?P<what>(?:[\w'’-]+ ){1,5}?)limit (?:has been )?(?:reached|exceeded|hit)\b(?=" + _TAIL + r")(?P<rest>.*)"
)
_PLAN_WORDS = re.compile(
    r"\b(?:usage|session|weekly|daily|monthly|hourly|\d+[- ]?h(?:our)?|five[- ]hour|\d+[- ]?day|opus|sonnet|haiku"
    r"|fable|spend|spending|plan)\b",
    re.I,
)
_SPENT = _any(
    r"(?:you(?:['’]re| are) )?out of (?:extra )?usage(?: credits)?\b" + _TAIL,
    r"quota exceeded\b" + _TAIL,
)
_BUSY = _any(r"server is temporarily limiting requests\b")
_BURST = _any(
    r"request rejected \(429\)",
    r"(?:http )?429\b.{0,60}(?:too many|rate|limit)",
    r"429 \{",
    r"too many requests" + _TAIL,
    r"rate[- ]?limited$",
    r"rate limit (?:reached|exceeded)" + _TAIL,
    r"exceeded retry limit, last status: 429",
)
_LOGIN = _any(
    r"please run /login\b",
    r"not logged in\b.{0,40}/login",
    r"invalid api key\s*·",
    r"(?:your )?credit balance is too low\b" + _TAIL,
    r"(?:\S+ ){0,12}refresh token was already used\b",
)
_AUTH = _any(
    r"not logged in\b" + _TAIL,
    r"invalid api key(?:$|\s*[:.(])",
    r"failed to authenticate(?:$|\s*[·:.])",
    r"(?:\S+ ){0,4}\(?invalid_grant\b",
    r"invalid (?:authentication|bearer|x-api-key)\b",
    r"(?:unexpected status )?401\b.{0,200}(?:unauthori|authent|credential|token|key)",
    r"(?:your )?(?:oauth |access |refresh )?token (?:has |was |is )?(?:been )?(?:expired|revoked|invalid)" + _TAIL,
    r"(?:your |this )?(?:account|organization) (?:is|has been|does not) .{0,40}(?:disabled|hold|suspended|have access)",
    r"login (?:required|expired)\b" + _TAIL,
    r"(?:you must|please) (?:log|sign) in\b",
    r"verification required\b" + _TAIL,
)
_OVERLOAD = _any(
    r"5\d\d\b.{0,40}(?:overloaded|server error|unavailable|bad gateway|gateway time|timeout|\{)",
    r"repeated 5\d\d overloaded errors?\b",
    r"overloaded(?:_error)?" + _TAIL,
    r"connection (?:refused|error|closed|reset|timed out)\b",
    r"unable to connect\b",
    r"request timed out\b",
    r"fetch failed$",
    r"selected model is at capacity\b",
    r"we['’]re currently experiencing high demand\b",
)
_REFUSED = _any(
    r"session (?:id )?\S+ is already in use\b",
    r"session \S+ is currently running as a background agent\b",
    r"no conversation found with session id\b",
    r"(?:\S+ ){0,4}cannot be used with root/sudo",
    r"unknown option\b",
    r"option '.{0,80}' argument\b",
    r"there['’]s an issue with the selected model\b",
)
_OTHERS: tuple[tuple[re.Pattern[str], BannerKind], ...] = (
    (_AUTH, "auth"),
    (_OVERLOAD, "overload"),
    (_REFUSED, "refused"),
)
MODELS = ("opus", "sonnet", "haiku", "fable")  # those that Claude Code's events or words know limits of
_KINDS = (
    (re.compile(r"spend|credit|extra|quota"), "spend"),
    (re.compile(r"session|\b5[- ]?h|five[- ]hour"), "five_hour"),
    (re.compile(r"week|\b7[- ]?d|seven[- ]day"), "seven_day"),
    (re.compile(r"daily|\b1[- ]?day"), "daily"),
    (re.compile(r"month"), "monthly"),
)


def banner(text: str, now: float, *, failed: bool) -> Banner | None:
    """What the text says if it is a banner and nothing else; None if it is an answer that may speak of a limit.

    A program that `failed` is taken at its word whatever its error is. One that ended well may have been asked what
    a server answers, and "401 Unauthorized" is then what it found: from it only words about the account itself count,
    and errors that name the API.
    """
    if len(text) > MOST:
        return None
    lines = [line for line in (plain(each).strip() for each in text.splitlines()) if line]
    if not lines or not all(_is_advice(line) for line in lines[1:]):
        return None
    head = lines[0]
    prefix = _PREFIX.match(head)
    if prefix:
        head = head[prefix.end() :]
        failed = failed or "api error" in prefix[0].lower()
    head, reason = head.strip(' "'), one_line(" ".join(lines))
    return _account(head, reason, now) or (_error(head, reason, now) if failed else None)


def limit_model(kind: str) -> str:
    """The model whose limit a kind of Claude Code's events is; empty for one of all work, and for one that is not known."""
    model = kind.removeprefix("seven_day_")
    return model if model != kind and model in MODELS else ""


def limit_kind(words: str) -> str:
    """The kind of limit that a qualifier names, in the terms of Claude Code's own events; `usage` if it names none."""
    words = words.lower()
    for model in MODELS:
        if model in words:
            return f"seven_day_{model}"
    return next((kind for pattern, kind in _KINDS if pattern.search(words)), "usage")


def _is_advice(line: str) -> bool:
    """Whether a further line only says what to do about the first."""
    return len(line) <= 200 and re.match(rf"[·•⎿\s]*{_ADVICE}", line, re.I) is not None


def _account(head: str, reason: str, now: float) -> Banner | None:
    """A limit or a login of the account that the program itself runs on."""
    if _BUSY.match(head):
        return Banner("limit", reason, "burst", reset_time(reason, now))
    if found := _HIT.match(head) or _reached(head):
        return Banner("limit", reason, limit_kind(found["what"]), reset_time(reason, now))
    if _SPENT.match(head):
        return Banner("limit", reason, "spend", reset_time(reason, now))
    return Banner("auth", reason) if _LOGIN.match(head) else None


def _error(head: str, reason: str, now: float) -> Banner | None:
    if _BURST.match(head):
        return Banner("limit", reason, "burst", reset_time(reason, now))
    return next((Banner(kind, reason) for pattern, kind in _OTHERS if pattern.match(head)), None)


def _reached(head: str) -> re.Match[str] | None:
    """`X limit reached`: X is a word for a plan's limit, or a reset follows; a recursion limit is neither."""
    found = _REACHED.match(head)
    if found and (_PLAN_WORDS.search(found["what"]) or re.search(r"\bresets?\b", found["rest"], re.I)):
        return found
    return None
