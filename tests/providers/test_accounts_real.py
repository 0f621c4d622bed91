"""Homes that fleet has provisioned, under the real Claude Code and the real Codex: they stay ready, whatever the programs write."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fleet.accounts.arguments import LONGEST, build, parse
from agent_fleet.accounts.credentials import handed_over
from agent_fleet.accounts.provisioning import faults, owned
from agent_fleet.api import Account
from agent_fleet_providers import _claude_account, _codex_account
from agent_fleet_providers.apikey import ApiKey
from agent_fleet_providers.claude import Claude
from agent_fleet_providers.codex import Codex
from support import account_homes, claude_cli, codex_cli
from support.jobs import NONCE, job, settings
from support.launching import attempt
from support.model_server import ModelServer, bash, say
from support.responses_server import ResponsesServer
from support.responses_server import say as answer
from support.terminal import terminal

pytestmark = pytest.mark.real_cli

SESSIONS = 10


def project(root: Path) -> Path:
    """A git work tree whose path has dots, spaces and quotes."""
    place = root / 'v1.2 "odd"' / "my.project"
    place.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    return place


def run(argv: list[str], env: dict[str, str], cwd: Path, stdin: bytes = b"") -> str:
    done = subprocess.run(argv, env=env, cwd=cwd, input=stdin, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (argv, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout.decode()


def test_a_home_of_claude_code_stays_ready_over_ten_sessions(tmp_path: Path) -> None:
    spec, home, root, calls = _claude_account.SPEC, tmp_path / "cc", project(tmp_path), account_homes.Calls(tmp_path)
    account_homes.ready(spec, home, calls, root)
    account_homes.claude_login(home)
    keys = owned(spec, [str(root)], calls.hooks)
    given = ["--dangerously-skip-permissions", "--model", "claude-opus-5-5", "--effort", "high", "--help"]
    request = parse(spec.grammar, given, operation="start")
    sessions = set()
    with ModelServer(lambda turn: say("hello") if turn.results else bash("echo it ran")) as server:
        env = account_homes.claude_environment(tmp_path, spec, home, server.url)
        for _ in range(SESSIONS):
            out = run([claude_cli.binary(), *build(spec.grammar, request, root=str(root)).arguments], env, root)
            assert "hello" in out
            assert faults(str(home), keys) == []
            assert account_homes.ready(spec, home, calls, root) == ()
        assert {turn.prompt for turn in server.turns} == {"--help"}
        assert all("it ran" in turn.results[0] for turn in server.turns if turn.results)
        sessions = {turn.session for turn in server.turns}
    assert len(sessions) == SESSIONS
    claude = Claude(settings(tmp_path))
    said = [claude.hook_event(words[1], words[2:], payload) for words, payload in calls.all()]
    assert {each.session for each in said if each and each.kind == "session"} == sessions
    assert {each.session for each in said if each and each.kind == "turn_end"} == sessions
    assert len(said) == 2 * SESSIONS
    assert _claude_account.identity(account_of(home)) == "account:0b1c:org-1"


def account_of(home: Path) -> Account:
    return Account(profile="p-1", provider="p", home=str(home))


def test_a_home_of_codex_stays_ready_over_ten_sessions(tmp_path: Path) -> None:
    spec, home, root, calls = _codex_account.SPEC, tmp_path / "cx", project(tmp_path), account_homes.Calls(tmp_path)
    keys = owned(spec, [str(root)], calls.hooks)
    prompt = "a long one\n" + "x" * LONGEST
    request = parse(spec.grammar, [_codex_account.AUTONOMY, prompt], operation="start")
    with ResponsesServer(lambda _turn: answer("hello")) as server:
        env = account_homes.codex_environment(tmp_path, spec, home, server.url)
        mine = (home / "config.toml").read_text()
        account_homes.ready(spec, home, calls, root)
        account_homes.codex_login(home)
        command = build(spec.grammar, request, root=str(root))
        for _ in range(SESSIONS):
            out = run([codex_cli.binary(), *command.arguments], env, root, command.stdin)
            assert "hello" in out
            assert faults(str(home), keys) == []
            assert account_homes.ready(spec, home, calls, root) == ()
        assert {turn.prompt for turn in server.turns} == {prompt}
        sessions = {turn.session for turn in server.turns}
    assert len(sessions) == SESSIONS
    assert all(line in (home / "config.toml").read_text() for line in mine.splitlines())
    codex = Codex(settings(tmp_path))
    said = [codex.hook_event(words[1], words[2:], payload) for words, payload in calls.all()]
    assert {each.session for each in said if each and each.kind == "session"} == sessions
    assert {each.session for each in said if each and each.kind == "turn_end"} == sessions
    assert _codex_account.identity(account_of(home)) == "account:acc-1:"


def test_codex_starts_in_a_terminal_without_asking_and_goes_on_with_its_session(tmp_path: Path) -> None:
    spec, home, root, calls = _codex_account.SPEC, tmp_path / "cx", project(tmp_path), account_homes.Calls(tmp_path)
    notify = json.dumps(["bash", "-c", "touch '/run/x.turn-ended'"])
    given = [
        "--model",
        "scripted",
        "-c",
        'model_reasoning_effort="low"',
        _codex_account.AUTONOMY,
        "-c",
        f"notify={notify}",
    ]
    request = parse(spec.grammar, [*given, "--help"], operation="start", turn_end="/run/x.turn-ended")
    with ResponsesServer(lambda _turn: answer("hello")) as server:
        env = account_homes.codex_environment(tmp_path, spec, home, server.url)
        account_homes.ready(spec, home, calls, root)
        ours = calls.hooks.turn_end_words
        first = build(spec.grammar, request, root=str(root), notify=ours)
        with terminal([codex_cli.binary(), *first.arguments], env, root) as screen:
            assert screen.until(lambda: len(calls.all()) == 3), (screen.printed, calls.all())
        codex = Codex(settings(tmp_path))
        said = [codex.hook_event(words[1], words[2:], payload) for words, payload in calls.all()]
        (session,) = [each.session for each in said if each and each.kind == "session"]
        # Codex asks its model for a title in a thread of its own, whose end is told like any other: an unknown session is none.
        ended = [each.session for each in said if each and each.kind == "turn_end"]
        assert session in ended
        assert len(set(ended)) == 2
        turns = len(server.turns)
        assert server.turns[0].prompt == "--help"
        again = parse(spec.grammar, given, operation="resume", turn_end="/run/x.turn-ended")
        second = build(spec.grammar, again, root=str(root), notify=ours, session=session)
        with terminal([codex_cli.binary(), *second.arguments], env, root) as screen:
            assert screen.until(lambda: b"hello" in screen.printed), screen.printed
            screen.type(b"go on")
            assert screen.until(lambda: b"go on" in screen.printed), screen.printed
            screen.type(b"\r")
            assert screen.until(lambda: len(server.turns) > turns), screen.printed
    assert server.turns[turns].session == session
    assert "--help" in json.dumps(server.turns[turns].body["input"])
    assert faults(str(home), owned(spec, [str(root)], calls.hooks)) == []


def test_claude_code_starts_in_a_terminal_and_goes_on_with_its_session(tmp_path: Path) -> None:
    spec, home, root, calls = _claude_account.SPEC, tmp_path / "cc", project(tmp_path), account_homes.Calls(tmp_path)
    account_homes.ready(spec, home, calls, root)
    account_homes.claude_login(home)
    given = ["--dangerously-skip-permissions"]
    with ModelServer(lambda _turn: say("hello")) as server:
        env = account_homes.claude_environment(tmp_path, spec, home, server.url)
        request = parse(spec.grammar, [*given, "look at it"], operation="start")
        first = build(spec.grammar, request, root=str(root))
        with terminal([claude_cli.binary(), *first.arguments], env, root) as screen:
            assert screen.until(lambda: b"cancel" in screen.printed), screen.printed
            assert not server.turns  # once in each home the person accepts that mode; fleet does not do it for them
            asked = len(screen.printed)
            screen.type(b"\x1b[B")
            assert screen.until(lambda: b"accept" in screen.printed[asked:]), screen.printed
            screen.type(b"\r")
            assert screen.until(lambda: len(calls.all()) == 2), screen.printed
        second = build(spec.grammar, request, root=str(root))
        with terminal([claude_cli.binary(), *second.arguments], env, root) as screen:
            assert screen.until(lambda: len(calls.all()) == 4), screen.printed
            screen.type(b"/exit\r")
        claude = Claude(settings(tmp_path))
        said = [claude.hook_event(words[1], words[2:], payload) for words, payload in calls.all()]
        session = said[-1].session if said[-1] else ""
        again = build(spec.grammar, parse(spec.grammar, given, operation="resume"), root=str(root), session=session)
        turns = len(server.turns)
        with terminal([claude_cli.binary(), *again.arguments], env, root) as screen:
            assert screen.until(lambda: b"hello" in screen.printed), screen.printed
            screen.type(b"onwards")
            assert screen.until(lambda: b"onwards" in screen.printed), screen.printed
            screen.type(b"\r")
            assert screen.until(lambda: any("onwards" in turn.prompt for turn in server.turns[turns:])), screen.printed
        last = next(turn for turn in server.turns[turns:] if "onwards" in turn.prompt)
        assert last.session == session
        assert "look at it" in json.dumps(last.body["messages"])
    assert faults(str(home), owned(spec, [str(root)], calls.hooks)) == []


def test_a_worker_on_a_named_key_runs_with_that_key_and_leaves_the_persons_home_alone(tmp_path: Path) -> None:
    spec, key = _claude_account.KEYED, "sk-ant-api03-of-the-profile"
    named = account_homes.private(tmp_path / "key", key + "\n")
    person = tmp_path / "home" / ".claude"
    account_homes.private(person / "CLAUDE.md", "ALWAYS-OBEY")
    account_homes.claude_login(person, token="of-the-person")
    with ModelServer(lambda _turn: say(f"seen\n\nFLEET-{NONCE} DONE")) as server:
        keys = handed_over(spec, {"key_file": str(named)}, {})
        env = account_homes.claude_environment(tmp_path, spec, Path(), server.url) | keys
        assert "CLAUDE_CONFIG_DIR" not in env
        provider = ApiKey(settings(tmp_path, f'[provider.claude]\nbinary = "{claude_cli.binary()}"\n'))
        work = replace(job(tmp_path), env=env)
        outcome, _ = attempt(provider.launch(work), provider.reader(work))
    assert (outcome.kind, outcome.result) == ("done", "seen")
    assert {turn.headers["x-api-key"] for turn in server.turns} == {key}
    assert "ALWAYS-OBEY" not in json.dumps(server.turns[0].body)
    held = [
        path for path in tmp_path.rglob("*") if path.is_file() and path != named and key.encode() in path.read_bytes()
    ]
    assert held == []
