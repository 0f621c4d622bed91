"""The provider's own launch of the real Codex, against a scripted model on loopback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.api import Event, Exit, Job, Outcome, Usage
from agent_fleet.run.prompt import compose
from agent_fleet_providers.codex import Codex
from support import codex_cli
from support.jobs import NONCE, job, settings
from support.launching import attempt
from support.responses_server import (
    Brain,
    Call,
    Fault,
    Reply,
    ResponsesServer,
    Say,
    Tokens,
    Turn,
    agents,
    exhausted,
    say,
    script,
    shell,
)

pytestmark = pytest.mark.real_cli


def provider(root: Path, extra: str = "") -> Codex:
    return Codex(settings(root, f'[provider.codex]\nbinary = "{codex_cli.binary()}"\n{extra}\n'))


def run(
    root: Path,
    server: ResponsesServer,
    work: Job | None = None,
    *,
    extra: str = "",
    env: Mapping[str, str] | None = None,
    retries: int = 1,
) -> tuple[Outcome, list[Event]]:
    """One attempt of the real program, judged as settling does: by a reader that knows neither session nor environment."""
    environment = {**codex_cli.environment(root, server.url, retries=retries), **(env or {})}
    work = replace(work or job(root), env=environment)
    codex = provider(root, extra)
    return attempt(codex.launch(work), codex.reader(replace(work, session="", env={})))


def tokens_of(usage: Usage) -> Tokens:
    return Tokens(
        input=usage.input,
        cache_write=usage.cache_write,
        cache_read=usage.cache_read,
        output=usage.output,
        reasoning=usage.reasoning,
    )


def serve(root: Path, brain: Brain, **more: Any) -> tuple[Outcome, ResponsesServer]:
    with ResponsesServer(brain) as server:
        return run(root, server, **more)[0], server


def test_a_task_is_worked_on_with_tools_and_comes_back_with_its_use_to_the_token(tmp_path: Path) -> None:
    brain = script(shell("echo hi > seen.txt && cat seen.txt"), say(f"cat said hi\n\nFLEET-{NONCE} DONE"))
    with ResponsesServer(brain) as server:
        outcome, events = run(tmp_path, server)

    assert (outcome.kind, outcome.result) == ("done", "cat said hi")
    assert (tmp_path / "cwd" / "seen.txt").read_text() == "hi\n"
    assert tokens_of(outcome.usage) == server.sent(outcome.session) == server.sent()
    assert (outcome.usage.turns, outcome.usage.models, outcome.usage.partial) == (2, ("scripted",), False)
    assert outcome.usage.money is None
    assert [event.kind for event in events if event.kind != "other"] == ["started", "tool", "text", "result"]
    assert {turn.session for turn in server.turns} == {outcome.session}


def test_a_resumed_thread_is_the_same_one_and_only_the_new_run_is_counted(tmp_path: Path) -> None:
    first, before = serve(tmp_path, script(shell("echo one"), say("said one")))
    again, after = serve(tmp_path, script(say("said two")), work=job(tmp_path, session=first.session, prompt="go on"))
    third, last = serve(tmp_path, script(shell("echo 3"), say("three")), work=job(tmp_path, session=first.session))

    assert (again.kind, again.session, third.session) == ("done", first.session, first.session)
    assert "said one" in json.dumps(after.turns[0].body["input"])
    assert tokens_of(first.usage) == before.sent()
    assert tokens_of(again.usage) == after.sent()
    assert tokens_of(third.usage) == last.sent()
    assert (first.usage.turns, again.usage.turns, third.usage.turns) == (2, 1, 2)


def test_a_resumed_thread_keeps_the_sandbox_of_the_settings(tmp_path: Path) -> None:
    first, _ = serve(tmp_path, script(say("begun")))
    brain = script(shell("touch made.txt || echo no"), say("tried"))
    _, server = serve(
        tmp_path,
        brain,
        work=job(tmp_path, session=first.session),
        extra='sandbox = "read-only"\nargs = ["--add-dir", "/"]',
    )

    assert "Read-only file system" in server.turns[1].results[0]
    assert not (tmp_path / "cwd" / "made.txt").exists()


def test_tokens_of_subagents_are_counted_with_those_of_their_task(tmp_path: Path) -> None:
    def brain(turn: Turn) -> Reply:
        if turn.prompt.startswith("SUBTASK"):
            return say("the subagent's report")
        if turn.prompt.startswith("<subagent"):
            return say("all reported")
        if not turn.results:
            return agents("spawn_agent", message="SUBTASK: look")
        if len(turn.results) == 1:
            return agents("wait_agent", targets=[json.loads(turn.results[0])["agent_id"]], timeout_ms=60_000)
        return say("all reported")

    first, server = serve(tmp_path, brain)
    again, after = serve(tmp_path, brain, work=job(tmp_path, session=first.session))

    assert (first.kind, first.result) == ("done", "all reported")
    assert any(turn.prompt.startswith("SUBTASK") for turn in server.turns)
    assert tokens_of(first.usage) == server.sent()
    assert tokens_of(again.usage) == after.sent()


@pytest.mark.parametrize(
    "text",
    [
        "-p --help; -x",
        'it\'s "quoted" $HOME `id` \\ %s {id}\n\n\ttab\r\nend  ',
        "🐟 é ü 漢字 \u202e \u2028 \U0001f468\u200d\U0001f469",
        "line of a megabyte " * 50_000,
    ],
    ids=["dash", "quotes", "unicode", "megabyte"],
)
def test_the_text_of_a_task_reaches_the_model_byte_for_byte(tmp_path: Path, text: str) -> None:
    work = job(tmp_path, target=text)
    prompt = compose(work.task, nonce=NONCE, answers=[], attempts=[])
    outcome, server = serve(tmp_path, script(say("read it")), work=replace(work, prompt=prompt))

    assert outcome.kind == "done"
    assert f"\n{text}\n" in server.turns[0].prompt


def test_a_text_that_begins_with_a_dash_is_no_option(tmp_path: Path) -> None:
    outcome, server = serve(tmp_path, script(say("read it")), work=job(tmp_path, prompt="--version"))

    assert outcome.kind == "done"
    assert server.turns[0].prompt == "--version"


@pytest.mark.parametrize(
    ("fault", "kind", "limit"),
    [
        (Fault(400, "invalid_request_error", "Unsupported value: 'x'"), "refused", ""),
        (Fault(404, "model_not_found", "The model does not exist"), "refused", ""),
        (Fault(401, "invalid_api_key", "Incorrect API key provided"), "auth", ""),
        (Fault(403, "forbidden", "no access"), "auth", ""),
        (Fault(429, "insufficient_quota", "You exceeded your current quota"), "auth", ""),
        (Fault(200, "insufficient_quota", "You exceeded your current quota"), "auth", ""),
        (Fault(429, "usage_not_included", "not in this plan"), "auth", ""),
        (Fault(429, "rate_limit_exceeded", "Rate limit reached"), "limit", "burst"),
        (Fault(200, "rate_limit_exceeded", "Rate limit reached. Please try again in 0.1s."), "limit", "burst"),
        (Fault(503, "slow_down", "busy"), "limit", "burst"),
        (Fault(503, "server_is_overloaded", "busy"), "overload", ""),
        (Fault(500, "server_error", "oops"), "overload", ""),
        (Fault(502, "bad_gateway", "oops"), "overload", ""),
        (Fault(200, "server_error", "oops"), "overload", ""),
        (Fault(200, "context_length_exceeded", "too long"), "refused", ""),
    ],
    ids=lambda value: f"{value.status}-{value.type}" if isinstance(value, Fault) else "",
)
def test_an_answer_that_is_an_error_has_its_class(tmp_path: Path, fault: Fault, kind: str, limit: str) -> None:
    outcome, _ = serve(tmp_path, script(fault))

    assert (outcome.kind, outcome.limit) == (kind, limit)
    assert outcome.reason
    assert outcome.usage == Usage()


def test_an_overload_that_passes_is_no_outcome(tmp_path: Path) -> None:
    cut = say("half", cut=True)
    with ResponsesServer(script(cut, say("seen"))) as server:
        outcome, events = run(tmp_path, server)

    assert (outcome.kind, outcome.result) == ("done", "seen")
    assert "retry" in [event.kind for event in events]


def test_a_stream_that_is_cut_again_and_again_is_an_overload(tmp_path: Path) -> None:
    outcome, _ = serve(tmp_path, script(say("half", cut=True)))

    assert (outcome.kind, outcome.reason.partition(":")[0]) == ("overload", "stream disconnected before completion")


@pytest.mark.parametrize("ahead", [5400, 5 * 86400], ids=["today", "another day"])
def test_a_used_up_plan_is_a_limit_with_its_reset_to_the_minute(tmp_path: Path, ahead: int) -> None:
    resets_at = int(time.time()) + ahead
    with ResponsesServer(script(exhausted(resets_at))) as server:
        outcome, events = run(tmp_path, server)

    assert (outcome.kind, outcome.limit) == ("limit", "usage")
    assert outcome.resets_at is not None
    assert abs(outcome.resets_at - resets_at) <= 60
    assert "limit" in [event.kind for event in events]


def test_what_was_used_before_a_limit_is_counted(tmp_path: Path) -> None:
    outcome, server = serve(tmp_path, script(shell("echo 1"), shell("echo 2"), exhausted(int(time.time()) + 5400)))

    assert outcome.kind == "limit"
    assert tokens_of(outcome.usage) == server.sent()
    assert (outcome.usage.turns, outcome.usage.partial) == (2, False)


def test_a_refused_connection_is_an_overload_once_the_fleet_has_lost_patience(tmp_path: Path) -> None:
    with socket.socket() as free:  # bound and not listening: nobody else gets this port, and it refuses
        free.bind(("127.0.0.1", 0))
        env = codex_cli.environment(tmp_path, f"http://127.0.0.1:{free.getsockname()[1]}", retries=0)
        work = replace(job(tmp_path), env=env)
        code, log, reader = _until(provider(tmp_path), work, "waiting for network", signal.SIGTERM)
    events = [event for line in log for event in reader.feed(line)]

    assert "retry" in [event.kind for event in events]
    assert reader.outcome(Exit(code=code, cause="idle", seconds=60)).kind == "overload"


def test_nothing_said_is_not_done(tmp_path: Path) -> None:
    for number, reply in enumerate((Reply([]), Reply([Say("")]))):
        outcome, _ = serve(tmp_path / str(number), script(reply))
        assert (outcome.kind, outcome.reason) == ("failed", "empty answer")


def test_a_request_for_more_rights_is_denied_and_told(tmp_path: Path) -> None:
    more = {"cmd": "touch made.txt", "sandbox_permissions": "require_escalated", "justification": "please"}
    with ResponsesServer(script(Reply([Call("exec_command", more)]), say("I could not"))) as server:
        outcome, events = run(tmp_path, server)

    assert (outcome.kind, outcome.reason) == ("done", "permission was denied (1)")
    assert "denied" in [event.kind for event in events]
    assert not (tmp_path / "cwd" / "made.txt").exists()


@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write", "danger-full-access"])
def test_the_sandbox_is_the_one_of_the_settings(tmp_path: Path, sandbox: str) -> None:
    outside = tmp_path / "codex" / "outside.txt"
    brain = script(shell(f"touch inside.txt; touch {outside}; true"), say("tried"))
    serve(tmp_path, brain, extra=f'sandbox = "{sandbox}"', env={"TMPDIR": str(tmp_path / "tmp")})

    assert (tmp_path / "cwd" / "inside.txt").exists() == (sandbox != "read-only")


def test_a_thread_that_is_not_there_is_refused_and_not_kept(tmp_path: Path) -> None:
    outcome, server = serve(tmp_path, script(say("x")), work=job(tmp_path, session=str(uuid.uuid4())))

    assert (outcome.kind, outcome.session, len(server.turns)) == ("refused", "", 0)
    assert "no rollout found" in outcome.reason


def test_an_argument_that_codex_does_not_know_is_refused_with_its_words(tmp_path: Path) -> None:
    outcome, _ = serve(tmp_path, script(say("x")), extra='args = ["--no-such-option"]')

    assert outcome.kind == "refused"
    assert "unexpected argument '--no-such-option'" in outcome.reason


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_worker_that_was_ended_keeps_its_thread_and_what_it_had_used(tmp_path: Path, sent: signal.Signals) -> None:
    with ResponsesServer(script(shell("echo 1"), shell("python3 -c 'import time; time.sleep(60)'"))) as server:
        work = replace(job(tmp_path), env=codex_cli.environment(tmp_path, server.url))
        code, log, reader = _until(provider(tmp_path), work, "time.sleep(60)", sent)
        begun = server.turns[0].session
    for line in log:
        list(reader.feed(line))
    ended = Exit(code=code) if code >= 0 else Exit(code=None, signal=-code)
    stopped, died = reader.outcome(replace(ended, cause="stopped")), reader.outcome(ended)

    assert (stopped.kind, died.kind, stopped.session) == ("unknown", "crashed", begun)
    assert stopped.usage.partial
    assert tokens_of(stopped.usage) == server.sent()


def test_a_worker_does_not_take_itself_for_a_part_of_the_session_around_it(tmp_path: Path) -> None:
    inherited = {"CODEX_THREAD_ID": str(uuid.uuid4()), "CODEX_SANDBOX_NETWORK_DISABLED": "1", "CODEX_CI": "1"}
    with ResponsesServer(script(shell("env"), say("done"))) as server:
        outcome, _ = run(tmp_path, server, env=inherited, extra='sandbox = "danger-full-access"')
        shown = server.turns[1].results[0]

    assert outcome.kind == "done"
    assert inherited["CODEX_THREAD_ID"] not in shown
    assert "CODEX_SANDBOX_NETWORK_DISABLED" not in shown


def test_the_use_is_known_while_the_task_is_worked_on(tmp_path: Path) -> None:
    seen: list[tuple[Usage, Tokens]] = []
    with ResponsesServer(script(shell("echo 1"), shell("sleep 60 || true"), say("never"))) as server:
        work = replace(job(tmp_path), env=codex_cli.environment(tmp_path, server.url))
        _, log, reader = _until(provider(tmp_path), work, "sleep 60", signal.SIGKILL)
        for line in log:
            seen.extend((event.usage, server.sent()) for event in reader.feed(line) if event.usage)

    assert seen
    assert tokens_of(seen[-1][0]) == seen[-1][1]


def _until(codex: Codex, work: Job, text: str, sent: signal.Signals) -> tuple[int, list[str], Any]:
    """Run until its output holds the text, and end it: its status, its output and a reader."""
    launch = codex.launch(work)
    with open(launch.log, "wb") as log:
        process = subprocess.Popen(
            launch.argv,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=launch.cwd,
            env=dict(launch.env),
        )
    assert process.stdin is not None
    process.stdin.write(launch.stdin)
    process.stdin.close()
    try:
        deadline = time.monotonic() + 60
        while text not in Path(launch.log).read_text(encoding="utf-8", errors="replace"):
            assert time.monotonic() < deadline, f"{text} did not come"
            time.sleep(0.05)
        process.send_signal(sent)
        code = process.wait(60)
    finally:
        process.kill()
        process.wait()
    log_text = Path(launch.log).read_text(encoding="utf-8", errors="replace")
    return code, log_text.splitlines(), codex.reader(replace(work, session="", env={}))
