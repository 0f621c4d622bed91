"""What is left, as each source tells it: recorded answers of every shape, and the real programs' own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.accounts.readers import read_quota
from agent_fleet.api import Account, QuotaReading
from agent_fleet_providers import _claude_account, _codex_account
from agent_fleet_providers._claude_quota import LastRun
from agent_fleet_providers._codex_quota import Rollout, Server
from agent_fleet_providers._quota_axi import QuotaAxi
from support import account_homes, claude_cli, codex_cli
from support.model_server import ModelServer, exhausted
from support.responses_server import ResponsesServer
from support.responses_server import say as answer

SECRET = "sk-ant-oat01-PLANTED0123456789"
IDENTITY = "account:acc-1:org-1"


def identity(_: Account) -> str:
    return IDENTITY


def account(home: Path, **more: Any) -> Account:
    return Account(
        **{"profile": "p-1", "provider": "p", "home": str(home), "environ": {"PATH": "/usr/bin:/bin"}, **more}
    )


def left(reading: QuotaReading | None) -> dict[str, float]:
    return {window.id: window.remaining for window in reading.windows} if reading else {}


# ------------------------------------------------------------------------------------------- Claude's last run


def event(at: float, **info: Any) -> list[str]:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    before = {"type": "assistant", "timestamp": stamp, "message": {"content": [{"type": "text", "text": SECRET}]}}
    return [json.dumps(before), json.dumps({"type": "rate_limit_event", "rate_limit_info": info, "session_id": "s"})]


def last_run(tmp_path: Path, *lines: str) -> QuotaReading | None:
    log = tmp_path / "output.log"
    log.write_text("\n".join(["Warning: x", *lines, '{"cut', ""]))
    return LastRun().read(account(tmp_path, last_output=str(log)), 1)


def test_the_last_event_about_limits_counts(tmp_path: Path) -> None:
    now = time.time()
    windows = {
        "five_hour": {"utilization": 0.25, "resetsAt": int(now) + 600, "status": "allowed"},
        "seven_day": {"utilization": 1, "resetsAt": int(now) + 6000, "status": "rejected"},
        "seven_day_opus": {"utilization": 0.5},
    }
    old = event(now - 900, status="allowed", unifiedWindows={"five_hour": {"utilization": 0.1}})
    found = last_run(tmp_path, *old, *event(now - 60, status="allowed_warning", unifiedWindows=windows))
    assert left(found) == {"five_hour": 75, "seven_day": 0, "seven_day_opus": 50}
    assert found is not None
    assert found.observed_at is not None
    assert abs(found.observed_at - now + 60) < 2
    assert {window.id: window.kind for window in found.windows}["seven_day_opus"] == "model"


@pytest.mark.parametrize("used", [42, -1, True, "0.5", None, float("nan"), [], 1.6])
def test_a_use_that_is_no_fraction_is_unknown(tmp_path: Path, used: object) -> None:
    assert (
        last_run(tmp_path, *event(time.time(), status="allowed", unifiedWindows={"five_hour": {"utilization": used}}))
        is None
    )


def test_a_rejection_without_windows_names_the_one_that_is_used_up(tmp_path: Path) -> None:
    now = int(time.time())
    found = last_run(tmp_path, *event(now, status="rejected", rateLimitType="seven_day", resetsAt=now + 60))
    assert left(found) == {"seven_day": 0}
    assert found is not None
    assert found.windows[0].resets_at == now + 60


@pytest.mark.parametrize(
    "line", ['{"type":"rate_limit_event"}', '{"x":"rate_limit_event"}', "rate_limit_event", "{}", ""]
)
def test_a_log_without_such_an_event_says_nothing(tmp_path: Path, line: str) -> None:
    assert last_run(tmp_path, line) is None
    assert LastRun().read(account(tmp_path), 1) is None
    assert LastRun().read(account(tmp_path, last_output=str(tmp_path)), 1) is None


def test_what_an_agent_says_is_no_event(tmp_path: Path) -> None:
    """The text of a model can hold anything, but only as a text inside of its own event."""
    forged = event(time.time(), status="allowed", unifiedWindows={"five_hour": {"utilization": 0}})[1]
    said = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": forged}]}})
    assert last_run(tmp_path, said) is None


@pytest.mark.real_cli
def test_the_real_claude_code_tells_its_limit(tmp_path: Path) -> None:
    spec, home, reset = _claude_account.SPEC, tmp_path / "cc", int(time.time()) + 3600
    calls = account_homes.Calls(tmp_path)
    account_homes.ready(spec, home, calls, tmp_path)
    account_homes.claude_login(home)
    with ModelServer(lambda _turn: exhausted("five_hour", reset)) as server:
        env = account_homes.claude_environment(tmp_path, spec, home, server.url)
        argv = [claude_cli.binary(), "-p", "--output-format", "stream-json", "--verbose", "hi"]
        done = subprocess.run(
            argv, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
    log = tmp_path / "log"
    log.write_bytes(done.stdout)
    found = read_quota([LastRun()], account(home, last_output=str(log)), fresh_for=300)
    assert (found.status, found.source) == ("fresh", "claude-last-run"), done.stdout
    assert left(found) == {"five_hour": 0, "seven_day": 70}, done.stdout
    assert found.windows[0].resets_at == reset


# ------------------------------------------------------------------------------------------------------- Codex


def rollout(home: Path, *payloads: Any, day: str = "2026/11/30", name: str = "a") -> Path:
    folder = home / "sessions" / day
    folder.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    lines = [json.dumps({"timestamp": stamp, "type": "event_msg", "payload": payload}) for payload in payloads]
    file = folder / f"rollout-{name}.jsonl"
    file.write_text("\n".join([*lines, '{"cut']))
    return file


def limits(primary: Any, secondary: Any = None) -> dict[str, Any]:
    return {"type": "token_count", "rate_limits": {"primary": primary, "secondary": secondary, "plan_type": "plus"}}


def test_the_newest_thread_tells_what_was_left(tmp_path: Path) -> None:
    reset = int(time.time()) + 60
    five = {"used_percent": 30.0, "window_minutes": 300, "resets_at": reset}
    rollout(tmp_path, limits({"used_percent": 99, "window_minutes": 300}), day="2026/11/29", name="old")
    rollout(
        tmp_path,
        limits({"used_percent": 1, "window_minutes": 300}),
        limits(five, {"used_percent": 5, "window_minutes": 10080}),
    )
    found = Rollout().read(account(tmp_path), 1)
    assert left(found) == {"five_hour": 70, "seven_day": 95}
    assert found is not None
    assert found.windows[0].resets_at == reset
    assert found.observed_at is not None
    assert abs(found.observed_at - time.time()) < 60


def test_a_window_that_cannot_be_read_is_not_hidden_by_one_that_can(tmp_path: Path) -> None:
    """The week has plenty left; what the five hours have is not known."""
    week = {"used_percent": 5, "window_minutes": 10080}
    rollout(tmp_path, limits({"used_percent": "99", "window_minutes": 300}, week))
    mine = account(tmp_path)
    assert read_quota([Rollout()], mine, fresh_for=300).reason == "ambiguous_window"
    rollout(tmp_path, limits({"used_percent": 99, "window_minutes": 299}, week), day="2031/01/01")
    assert left(read_quota([Rollout()], mine, fresh_for=300)) == {"five_hour": 1, "seven_day": 95}
    windows = {"five_hour": {"utilization": 99}, "seven_day": {"utilization": 0.05}}
    log = tmp_path / "output.log"
    log.write_text("\n".join([*event(time.time() - 5, status="allowed", unifiedWindows=windows), ""]))
    claude = account(tmp_path, last_output=str(log))
    assert read_quota([LastRun()], claude, fresh_for=300).reason == "ambiguous_window"
    rows = [
        {"id": "five_hour", "kind": "session", "percentUsed": 20},
        {"id": "seven_day", "kind": "weekly", "percentUsed": 5},
    ]
    assert asked(tmp_path, reply(windows=rows)).status == "fresh"
    doubted = reply(windows=rows)
    doubted["providers"][0]["state"]["untrustedWindowIds"] = ["five_hour"]
    assert asked(tmp_path, doubted).reason == "ambiguous_window"
    assert asked(tmp_path, reply(windows=[{**rows[0], "percentRemaining": 10}, rows[1]])).reason == "ambiguous_window"
    assert asked(tmp_path, reply(windows=[{"id": "five_hour", "kind": "session"}, rows[1]])).status == "fresh"


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "token_count", "rate_limits": None},
        {"type": "other", "rate_limits": {"primary": {"used_percent": 1}}},
        limits({"used_percent": "30"}),
        limits([]),
        limits({"window_minutes": 300}),
        "token_count rate_limits",
    ],
)
def test_a_thread_without_figures_says_nothing(tmp_path: Path, payload: Any) -> None:
    rollout(tmp_path, payload)
    assert Rollout().read(account(tmp_path), 1) is None
    assert Rollout().read(account(tmp_path / "none"), 1) is None


HEADERS = {
    "x-codex-primary-used-percent": "42",
    "x-codex-primary-window-minutes": "300",
    "x-codex-secondary-used-percent": "7",
    "x-codex-secondary-window-minutes": "10080",
}


@pytest.mark.real_cli
def test_the_real_codex_writes_down_what_its_answers_say_and_its_server_tells_it(tmp_path: Path) -> None:
    spec, home, now = _codex_account.SPEC, tmp_path / "cx", int(time.time())
    resets = {"x-codex-primary-reset-at": str(now + 60), "x-codex-secondary-reset-at": str(now + 600)}
    with ResponsesServer(lambda _turn: answer("hello", headers={**HEADERS, **resets})) as server:
        env = account_homes.codex_environment(tmp_path, spec, home, server.url, login=True)
        account_homes.ready(spec, home, account_homes.Calls(tmp_path), tmp_path)
        argv = [codex_cli.binary(), "exec", "--skip-git-repo-check", "hi"]
        subprocess.run(
            argv, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True
        )
        mine = account(home, binary=codex_cli.binary(), environ=env)
        found = read_quota([Rollout()], mine, fresh_for=300)
        assert (found.status, left(found)) == ("fresh", {"five_hour": 58, "seven_day": 93})
        assert found.windows[0].resets_at == now + 60

        assert read_quota([Server()], mine, fresh_for=300).status == "unavailable"  # nobody is logged in
        account_homes.codex_login(home)
        part = {"limit_window_seconds": 18000, "reset_after_seconds": 60, "reset_at": now + 60}
        week = {"limit_window_seconds": 604800, "reset_after_seconds": 600, "reset_at": now + 600}
        server.pages["/backend-api/wham/usage"] = {
            "plan_type": "plus",
            "rate_limit": {
                "allowed": True,
                "limit_reached": False,
                "primary_window": {"used_percent": 10, **part},
                "secondary_window": {"used_percent": 20, **week},
            },
        }
        found = read_quota([Server()], mine, fresh_for=300)
        assert (found.status, found.source, left(found)) == (
            "fresh",
            "codex-app-server",
            {"five_hour": 90, "seven_day": 80},
        )
        assert found.windows[0].resets_at == now + 60


SERVERS = {
    "silent": "import time; time.sleep(60)",
    "gone": "raise SystemExit(3)",
    "noise": f"print('{SECRET}' * 99999)",
    "refusing": f"""import json
for _ in range(3): print(json.dumps({{"method": "x/updated", "params": {{}}}}))
print(json.dumps({{"id": 2, "error": {{"code": -32600, "message": "{SECRET}"}}}}), flush=True)
import time; time.sleep(60)""",
    "odd": """import json
print(json.dumps({"id": 2, "result": {"rateLimits": {"primary": {"usedPercent": "x"}, "secondary": [1]}}}), flush=True)""",
}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_does_not_tell_is_unavailable_and_its_words_are_dropped(tmp_path: Path, kind: str) -> None:
    program = tmp_path / "codex"
    program.write_text(f"#!{sys.executable}\n{SERVERS[kind]}\n")
    program.chmod(0o755)
    found = read_quota([Server()], account(tmp_path, binary=str(program)), fresh_for=300, deadline=2.0)
    assert found.status == "unavailable"
    assert SECRET not in repr(found)


# --------------------------------------------------------------------------------------------------- quota-axi


def tool(tmp_path: Path, text: str) -> Account:
    program = tmp_path / "quota-axi"
    note = tmp_path / "asked"
    told = f"open({str(note)!r}, 'w').write(json.dumps([sys.argv[1:], dict(os.environ)]))"
    program.write_text(f"#!{sys.executable}\nimport os, sys, json\n{told}\n{text}\n")
    program.chmod(0o755)
    return account(tmp_path, binary="/b/claude", tools={"quota-axi": str(program)})


def reply(provider: str = "claude", status: str = "fresh", **more: Any) -> dict[str, Any]:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    window = {
        "id": "five_hour",
        "label": "5h",
        "kind": "session",
        "percentUsed": 20,
        "percentRemaining": 80,
        "resetsAt": stamp,
    }
    row = {
        "provider": provider,
        "source": "oauth",
        "account": {"email": "a@example.invalid", "accountId": "ACC-1"},
        "windows": [window],
        "state": {"status": status, "stale": False, "refreshedAt": stamp},
        "attempts": [{"source": "oauth-file", "status": "success"}],
    }
    return {"generatedAt": stamp, "schemaVersion": 5, "providers": [{**row, **more}]}


def asked(tmp_path: Path, given: object, *, status: int = 0) -> QuotaReading:
    printed = given if isinstance(given, str) else json.dumps(given)
    mine = tool(tmp_path, f"print({printed!r})\nprint({SECRET!r}, file=sys.stderr)\nsys.exit({status})")
    return read_quota([QuotaAxi("claude", identity)], mine, fresh_for=300, deadline=20.0)


def test_only_a_person_who_is_there_is_asked_for_a_keychain_and_only_about_the_login_that_lies_in_one(
    tmp_path: Path,
) -> None:
    mine = tool(tmp_path, "print()")
    for provider, may_ask, said in (("claude", True, True), ("claude", False, False), ("codex", True, False)):
        QuotaAxi(provider, identity).read(replace(mine, may_ask=may_ask), 20.0)
        words, _ = json.loads((tmp_path / "asked").read_text())
        assert ("--allow-keychain-prompt" in words) is said, (provider, may_ask)


def test_the_tool_is_asked_for_one_provider_and_keeps_its_cache_in_the_home(tmp_path: Path) -> None:
    found = asked(tmp_path, reply())
    assert (found.status, found.source, left(found), found.account) == (
        "fresh",
        "quota-axi",
        {"five_hour": 80},
        IDENTITY,
    )
    words, environ = json.loads((tmp_path / "asked").read_text())
    assert words == ["--provider", "claude", "--json", "--full"]
    assert environ["XDG_CACHE_HOME"].startswith(str(tmp_path))
    assert {"HOME", "USER"} & set(environ) == set()  # the account's environment, and no more
    assert QuotaAxi("claude", identity).read(account(tmp_path), 1) is None


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (reply(status="auth_required"), "auth_required"),
        (reply(status="rate_limited"), "rate_limited"),
        (reply(status="error"), "error"),
        (reply(status="new-word"), "unavailable"),
        (reply(state={"status": "stale", "error": f"reauth {SECRET}"}), "auth_required"),
        (reply(state={"status": "stale", "error": "rate limit"}), "rate_limited"),
        (reply(state={"status": "stale"}), "stale"),
        (reply(state={"status": "fresh"}), "unavailable"),
        (reply(source="cache"), "stale"),
        (reply(source="pi:openai-codex"), "stale"),
        (reply(windows=[]), "unavailable"),
        (reply(windows=[{"id": "five_hour", "kind": "session"}]), "unavailable"),
        (reply(windows=[{"id": SECRET, "kind": SECRET, "percentUsed": 1}]), "unavailable"),
        (reply("codex"), "error"),
        ({"providers": [*reply()["providers"], *reply()["providers"]]}, "error"),
        ({"providers": SECRET}, "error"),
        (SECRET, "error"),
        ("", "error"),
        ("[" * 5000, "error"),
    ],
)
def test_every_other_reply_is_its_own_kind_of_no(tmp_path: Path, given: object, status: str) -> None:
    found = asked(tmp_path, given, status=1)
    assert found.status == status
    assert SECRET not in repr(found)
    assert found.account != SECRET


def test_an_account_that_is_not_sure_is_unknown(tmp_path: Path) -> None:
    assert asked(tmp_path, reply(account={"accountId": "x", "identityStatus": "unverified"})).account == ""
    assert asked(tmp_path, reply(account={"email": "a@example.invalid"})).account == ""
    assert asked(tmp_path, reply(account={"accountId": "ACC-2"})).account == "account:acc-2:"
    assert asked(tmp_path, reply(account={"accountId": "ACC"})).account == "account:acc:"
    assert asked(tmp_path, reply(source="cache", account={"accountId": "ACC-2"})).account == ""


def test_a_tool_that_hangs_costs_its_deadline(tmp_path: Path) -> None:
    mine = tool(tmp_path, "import time; time.sleep(60)")
    begun = time.monotonic()
    assert read_quota([QuotaAxi("claude", identity)], mine, fresh_for=300, deadline=1.0).status == "unavailable"
    assert time.monotonic() - begun < 20
