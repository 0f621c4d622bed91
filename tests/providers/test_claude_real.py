"""The provider's own launch of the real Claude Code, against a scripted model on loopback."""

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
from agent_fleet_providers.claude import Claude
from support import claude_cli
from support.jobs import NONCE, job, settings
from support.launching import attempt
from support.model_server import Brain, Call, Fault, ModelServer, Reply, Say, Tokens, Turn, bash, exhausted, say, script

pytestmark = pytest.mark.real_cli


def provider(root: Path, extra: str = "") -> Claude:
    return Claude(settings(root, f'[provider.claude]\nbinary = "{claude_cli.binary()}"\n{extra}\n'))


def run(
    root: Path, server: ModelServer, work: Job | None = None, *, extra: str = "", env: Mapping[str, str] | None = None
) -> tuple[Outcome, list[Event]]:
    """One attempt of the real program, judged."""
    environment = {**claude_cli.environment(root, server.url), **(env or {})}
    work = replace(work or job(root), env=environment)
    claude = provider(root, extra)
    return attempt(claude.launch(work), claude.reader(work))


def tokens_of(usage: Usage) -> Tokens:
    return Tokens(
        input=usage.input,
        cache_write=usage.cache_write,
        cache_read=usage.cache_read,
        output=usage.output + usage.reasoning,
    )


def serve(root: Path, brain: Brain, **more: Any) -> tuple[Outcome, ModelServer]:
    with ModelServer(brain) as server:
        return run(root, server, **more)[0], server


def test_a_task_is_worked_on_with_tools_and_comes_back_with_its_use_to_the_token(tmp_path: Path) -> None:
    brain = script(bash("echo hi > seen.txt && cat seen.txt"), say(f"cat said hi\n\nFLEET-{NONCE} DONE"))
    with ModelServer(brain) as server:
        outcome, events = run(tmp_path, server)

    assert (outcome.kind, outcome.result) == ("done", "cat said hi")
    assert (tmp_path / "cwd" / "seen.txt").read_text() == "hi\n"
    assert tokens_of(outcome.usage) == server.sent(outcome.session) == server.sent()
    assert outcome.usage.turns == 2
    assert outcome.usage.money is not None
    assert outcome.usage.money > 0
    assert [event.kind for event in events] == ["started", "tool", "text", "result"]
    assert {turn.session for turn in server.turns} == {outcome.session}


def test_a_resumed_session_is_the_same_one_and_only_the_new_run_is_counted(tmp_path: Path) -> None:
    first, before = serve(tmp_path, script(bash("echo one"), say("said one")))
    again, after = serve(tmp_path, script(say("said two")), work=job(tmp_path, session=first.session, prompt="go on"))

    assert again.kind == "done"
    assert again.session == first.session
    assert "said one" in json.dumps(after.turns[0].body["messages"])
    assert tokens_of(first.usage) == before.sent()
    assert tokens_of(again.usage) == after.sent()
    assert again.usage.money is not None
    assert first.usage.money is not None
    assert again.usage.money < first.usage.money


def test_a_subagent_in_the_background_is_waited_for_and_its_tokens_are_counted_once(tmp_path: Path) -> None:
    def brain(turn: Turn) -> Reply:
        if turn.prompt.startswith("SUBTASK"):
            return say("the subagent's report")
        if not any(isinstance(m["content"], list) and "tool_use" in json.dumps(m) for m in turn.body["messages"]):
            given = {"description": "help", "prompt": "SUBTASK: look", "subagent_type": "general-purpose"}
            return Reply([Call("Agent", given)])
        return say("all reported")

    with ModelServer(brain) as server:
        outcome, _ = run(tmp_path, server, extra='allowed_tools = ["Agent"]')

    assert (outcome.kind, outcome.result) == ("done", "all reported")
    assert any(turn.prompt.startswith("SUBTASK") for turn in server.turns)
    assert tokens_of(outcome.usage) == server.sent()


@pytest.mark.parametrize(
    "text",
    [
        "-p --help; -x",
        'it\'s "quoted" $HOME `id` \\ %s {id}\n\n\ttab\r\nend  ',
        "🐟 é ü 漢字 \u202e \u2028 \U0001f468\u200d\U0001f469",
        "line of a megabyte " * 55_000,
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
        (Fault(404, "not_found_error", "model: none"), "refused", ""),
        (Fault(400, "invalid_request_error", "Your credit balance is too low to access the API."), "auth", ""),
        (Fault(401, "authentication_error", "invalid x-api-key"), "auth", ""),
        (Fault(429, "rate_limit_error", "Number of requests"), "limit", "burst"),
        (Fault(500, "api_error", "Internal server error"), "overload", ""),
        (Fault(529, "overloaded_error", "Overloaded"), "overload", ""),
    ],
    ids=["404", "credit", "401", "429", "500", "529"],
)
def test_an_answer_that_is_an_error_has_its_class(tmp_path: Path, fault: Fault, kind: str, limit: str) -> None:
    outcome, _ = serve(tmp_path, script(fault))

    assert (outcome.kind, outcome.limit) == (kind, limit)
    assert outcome.reason


def test_an_overload_that_passes_is_no_outcome(tmp_path: Path) -> None:
    brain = script(Fault(529, "overloaded_error", "Overloaded"), say("seen"))
    with ModelServer(brain) as server:
        outcome, events = run(tmp_path, server)

    assert (outcome.kind, outcome.result) == ("done", "seen")
    assert "retry" in [event.kind for event in events]


@pytest.mark.parametrize("window", ["five_hour", "seven_day"])
def test_a_used_up_subscription_is_a_limit_with_its_reset(tmp_path: Path, window: str) -> None:
    resets_at = int(time.time()) + 5400
    with ModelServer(script(exhausted(window, resets_at))) as server:
        env = claude_cli.environment(tmp_path, server.url, subscription=True)
        work = replace(job(tmp_path), env=env)
        claude = provider(tmp_path)
        outcome, events = attempt(claude.launch(work), claude.reader(work))

    assert (outcome.kind, outcome.limit, outcome.resets_at) == ("limit", window, float(resets_at))
    assert "limit" in [event.kind for event in events]


def test_a_burst_is_no_used_up_subscription(tmp_path: Path) -> None:
    with ModelServer(script(Fault(429, "rate_limit_error", "Number of requests"))) as server:
        env = claude_cli.environment(tmp_path, server.url, subscription=True)
        work = replace(job(tmp_path), env=env)
        claude = provider(tmp_path)
        outcome, _ = attempt(claude.launch(work), claude.reader(work))

    assert (outcome.kind, outcome.limit, outcome.resets_at) == ("limit", "burst", None)


def test_a_refused_connection_is_an_overload(tmp_path: Path) -> None:
    with socket.socket() as free:  # bound and not listening: nobody else gets this port, and it refuses
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        work = replace(job(tmp_path), env=claude_cli.environment(tmp_path, address))
        claude = provider(tmp_path)
        outcome, _ = attempt(claude.launch(work), claude.reader(work))

    assert outcome.kind == "overload"


def test_a_tool_that_is_not_allowed_is_denied_and_told(tmp_path: Path) -> None:
    with ModelServer(script(bash("echo x > made.txt"), say("I could not"))) as server:
        outcome, events = run(tmp_path, server, extra='allowed_tools = ["Read"]')

    assert outcome.kind == "done"
    assert outcome.reason == "permission was denied: Bash (1)"
    assert "denied" in [event.kind for event in events]
    assert not (tmp_path / "cwd" / "made.txt").exists()


def test_turns_and_money_of_a_budget_end_the_attempt(tmp_path: Path) -> None:
    from agent_fleet.api import Budget

    endless = script(bash("echo more"))
    turns, _ = serve(tmp_path, endless, work=job(tmp_path, budget=Budget(turns=2)))
    big = script(bash("echo more", tokens=Tokens(input=100_000, output=5)))
    money, server = serve(tmp_path / "b", big, work=job(tmp_path / "b", budget=Budget(money=0.01)))

    assert (turns.kind, money.kind) == ("budget", "budget")
    assert tokens_of(money.usage) == server.sent()


def test_nothing_said_is_not_done(tmp_path: Path) -> None:
    outcome, _ = serve(tmp_path, script(Reply([Say("")])))

    assert (outcome.kind, outcome.reason) == ("failed", "empty answer")


def test_a_session_that_is_not_there_is_refused_and_not_kept(tmp_path: Path) -> None:
    outcome, server = serve(tmp_path, script(say("x")), work=job(tmp_path, session=str(uuid.uuid4())))

    assert (outcome.kind, outcome.session, len(server.turns)) == ("refused", "", 0)


def test_a_stopped_worker_keeps_its_session_and_what_it_had_used(tmp_path: Path) -> None:
    with ModelServer(script(bash("python3 -c 'import time; time.sleep(60)'"), say("never"))) as server:
        work = replace(job(tmp_path), env=claude_cli.environment(tmp_path, server.url))
        claude = provider(tmp_path)
        launch, reader = claude.launch(work), claude.reader(work)
        with open(launch.log, "wb") as log:
            process = subprocess.Popen(
                launch.argv, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=launch.cwd, env=dict(launch.env)
            )
        assert process.stdin is not None
        process.stdin.write(launch.stdin)
        process.stdin.close()
        try:
            _wait_for_text(launch.log, '"tool_use"')
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        finally:
            process.kill()
            process.wait()
    for line in Path(launch.log).read_text(encoding="utf-8").splitlines():
        list(reader.feed(line))
    stopped = reader.outcome(Exit(code=code, cause="stopped"))
    died = reader.outcome(Exit(code=code))

    assert code == 143
    assert (stopped.kind, died.kind, died.reason) == ("unknown", "crashed", "ended by SIGTERM")
    assert stopped.session == server.turns[0].session
    assert stopped.usage.partial
    assert stopped.usage.input == server.sent().input


def test_a_worker_does_not_take_itself_for_a_part_of_the_session_around_it(tmp_path: Path) -> None:
    inherited = {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_SESSION_ID": str(uuid.uuid4()),
        "CLAUDE_CODE_CHILD_SESSION": "1",
        "CLAUDE_PROJECT_DIR": "/elsewhere",
    }
    with ModelServer(script(bash("env"), say("done"))) as server:
        outcome, _ = run(tmp_path, server, env=inherited)
        shown = server.turns[1].results[0]

    assert outcome.kind == "done"
    assert f"CLAUDE_CODE_SESSION_ID={inherited['CLAUDE_CODE_SESSION_ID']}" not in shown
    assert "/elsewhere" not in shown
    assert outcome.session != inherited["CLAUDE_CODE_SESSION_ID"]


def _wait_for_text(path: str, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in Path(path).read_text(encoding="utf-8", errors="replace"):
        assert time.monotonic() < deadline, f"{text} did not come"
        time.sleep(0.05)
