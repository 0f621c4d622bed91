"""Modes that differ in what the agent says: answers, walls, and output that nobody can read."""

from __future__ import annotations

import os
import sys
import time

from agent_fleet.testing.agent.events import begin, finish, result, say, usage
from agent_fleet.testing.agent.script import Script

BANNER = "You've hit your session limit"
STRANGER = "somebody-else@example.com"


def ok(script: Script) -> int:
    """Works for `seconds`, writes the file `file` if one is named, and says what it did."""
    begin()
    time.sleep(script.number("seconds", 0))
    if file := script.text("file", ""):
        with open(file, "w", encoding="utf-8") as output:
            output.write(script.text("content", "done\n"))
    return finish(script.text("text", ""))


def ok_empty(_script: Script) -> int:
    """Ends well and says nothing."""
    begin()
    result("done")
    return 0


def exit0_limit(script: Script) -> int:
    """Meets a limit of `kind` that resets in `resets_in` seconds (null: unknown), and still ends as if all were well."""
    begin()
    _limit(script, script.text("kind", "session"))
    result("done", BANNER)
    return 0


def exit1_limit(script: Script) -> int:
    """Meets a limit of `kind` that resets in `resets_in` seconds (null: unknown)."""
    begin()
    _limit(script, script.text("kind", "session"))
    return 1


def burst_then_ok(script: Script) -> int:
    """Is refused the first `fails` times, counted over all processes by a file in the directory $FLEET_SCRIPTED_STATE."""
    begin()
    place = os.environ.get("FLEET_SCRIPTED_STATE", "")
    if not place:
        result("failed", reason="429-burst-then-ok needs the directory FLEET_SCRIPTED_STATE")
        return 2
    os.makedirs(place, exist_ok=True)
    name = "".join(sign if sign.isalnum() else "-" for sign in script.text("key", "burst"))
    counter = os.open(
        os.path.join(place, f"{name}.count"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
    )
    os.write(counter, b".")
    calls = os.lseek(counter, 0, os.SEEK_CUR)  # behind the own byte: no two processes read the same number
    if calls <= script.number("fails", 2, "count"):
        return _refused(script, 429, "burst")
    return finish()


def burst_forever(script: Script) -> int:
    """Is refused `retries` times, `wait` seconds apart, in every attempt."""
    begin()
    return _refused(script, 429, "burst")


def auth_401(_script: Script) -> int:
    """Is not logged in."""
    begin()
    say("error", kind="auth", status=401, text="401 Invalid authentication credentials")
    return 1


def overload(script: Script) -> int:
    """Finds the service overloaded, `retries` times."""
    begin()
    return _refused(script, 529, "")


def reads_stdin(script: Script) -> int:
    """Reads standard input to its end, twice, and says how much came."""
    begin()
    more = len(sys.stdin.buffer.read())
    return finish(f"read {len(script.prompt.encode())} bytes, then {more}")


def partial_json(_script: Script) -> int:
    """Ends well, in the middle of its result."""
    begin()
    sys.stdout.write('{"type": "result", "status": "done", "text": "it was cut of')
    return 0


def lone_surrogate(_script: Script) -> int:
    """Prints half of a surrogate pair, escaped and as bytes."""
    begin()
    sys.stdout.flush()
    sys.stdout.buffer.write(b'{"type": "text", "text": "\xed\xa0\xbd"}\n')
    sys.stdout.flush()
    return finish("half a face: \ud83d")


def long_line(script: Script) -> int:
    """Prints one line of `mb` MiB, then works."""
    begin()
    sys.stdout.write('{"type": "text", "text": "')
    for _ in range(int(script.number("mb", 50, "line_mb"))):
        sys.stdout.write("x" * (1 << 20))
    sys.stdout.write('"}\n')
    return finish()


def wrong_identity(script: Script) -> int:
    """Says that it is logged in as `identity`, and works."""
    begin(script.text("identity", STRANGER))
    return finish()


def over_budget(script: Script) -> int:
    """Spends up to `tokens` in ten steps over `seconds`, then says that its budget is spent."""
    begin()
    for step in range(1, 11):
        usage(step, script.number("tokens", 1e7, "tokens") * step / 10)
        time.sleep(script.number("seconds", 0.1) / 10)
    say("error", kind="budget", status=None, text="the budget of this session is spent")
    return 1


def onboarding(script: Script) -> int:
    """Draws a first-start screen, and waits `seconds` for somebody to press a key."""
    sys.stdout.write("\x1b[2J\x1b[HWelcome to Scripted Agent\r\n\r\nChoose a theme\r\n> 1. dark\r\n  2. light\r\n\r\n")
    sys.stdout.write("Press Enter to continue")
    sys.stdout.flush()
    time.sleep(script.number("seconds", 405))
    return 1


def blocked(script: Script) -> int:
    """Meets a wall that only a person can pass; `wall` names it."""
    begin()
    result("blocked", reason=script.text("wall", "login required: shop.example"), text="The page asks for a login.")
    return 0


def failed(script: Script) -> int:
    """Tries and fails, for `reason`."""
    begin()
    usage()
    result("failed", reason=script.text("reason", "there is no such page"), text="It answered 404.")
    return 0


def unknown_exit(script: Script) -> int:
    """Ends with the status `code`, and not one word."""
    return int(script.number("code", 7)) % 256


def false_done(_script: Script) -> int:
    """Claims the work and does none of it."""
    begin()
    result("done", "report.txt is written and the tests pass.")
    return 0


def _limit(script: Script, kind: str) -> None:
    known = script.told.get("resets_in", 3600) is not None
    resets_at = int(time.time() + script.number("resets_in", 3600, "tokens")) if known else None
    say("limit", kind=kind, resets_at=resets_at, text=BANNER)


def _refused(script: Script, status: int, limit: str) -> int:
    for attempt in range(1, int(script.number("retries", 3, "retries")) + 1):
        wait = script.number("wait", 0.02)
        say("retry", status=status, attempt=attempt, wait=wait)
        time.sleep(wait)
    if limit:
        say("limit", kind=limit, resets_at=None, text=f"{status} too many requests")
    else:
        say("error", kind="overload", status=status, text=f"{status} overloaded")
    return 1
