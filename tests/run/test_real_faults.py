"""`fleet run` with the real Claude Code and the real Codex against servers that fail in every way, and then recover."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support import claude_cli, codex_cli, model_server, responses_server
from support.model_server import ModelServer
from support.project import Answer
from support.responses_server import ResponsesServer
from support.runs import Site
from support.scripted import Fault, Reply, ScriptedServer, Tokens, Turn, say

pytestmark = [pytest.mark.real_cli, pytest.mark.slow]

CONFIG = """
[run]
stagger = 0
grace = 2
[provider.{provider}]
binary = "{binary}"
"""
PATIENCE = {
    "FLEET_RUN_BACKOFF": "0.5",
    "FLEET_RUN_FIRST_BYTE": "20",
    "FLEET_RUN_IDLE": "6",
    "FLEET_RUN_TIMEOUT": "60",
    "FLEET_RUN_MAX_WAIT": "10",
}
RETRIES = 1

# What each failure is, in the words of the outcome: its class, the kind of the limit, and whether it costs the task an attempt.
WANTED = {
    "burst": ("limit", "burst", False),
    "overload": ("overload", "", False),
    "broken": ("overload", "", False),
    "cut": ("overload", "", False),
    "refused": ("overload", "", False),
    "missing": ("refused", "", True),
    "silence": ("timeout", "", True),
    "login": ("auth", "", False),
}
Faults = Mapping[str, Callable[[], Reply | Fault]]

CLAUDE: Faults = {
    "burst": lambda: Fault(429, "rate_limit_error", "Number of requests"),
    "plan": lambda: model_server.exhausted("five_hour", int(time.time()) + 6),
    "overload": lambda: Fault(529, "overloaded_error", "Overloaded"),
    "broken": lambda: Fault(500, "api_error", "Internal server error"),
    "login": lambda: Fault(401, "authentication_error", "invalid x-api-key"),
    "missing": lambda: Fault(404, "not_found_error", "model: none"),
    "cut": lambda: say("half of it", cut=True),
    "silence": lambda: say("too late", delay=60.0),
}
CODEX: Faults = {
    "burst": lambda: Fault(429, "rate_limit_exceeded", "Rate limit reached"),
    "plan": lambda: responses_server.exhausted(int(time.time()) + 6),
    "overload": lambda: Fault(503, "server_is_overloaded", "busy"),
    "broken": lambda: Fault(500, "server_error", "oops"),
    "login": lambda: Fault(401, "invalid_api_key", "Incorrect API key provided"),
    "missing": lambda: Fault(404, "model_not_found", "The model does not exist"),
    "cut": lambda: say("half of it", cut=True),
    "silence": lambda: say("too late", delay=60.0),
}


class Recovering:
    """A brain that fails all requests of the first attempt at a task as its text asks, and answers those of later ones."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._first: dict[str, str] = {}

    def __call__(self, turn: Turn) -> Reply | Fault:
        name, attempt = fault_of(turn), attempt_of(turn)
        if name in self.faults and self._first.setdefault(name, attempt) == attempt:
            return self.faults[name]()
        return say(f"all is well after {name or 'nothing'}\n\nFLEET-{attempt} DONE")


def fault_of(turn: Turn) -> str:
    found = re.search(r"FAULT-([a-z]+)", turn.prompt)
    return found[1] if found else ""


def attempt_of(turn: Turn) -> str:
    """The word that the prompt of each attempt has for itself alone; a prompt that was never answered stands before it."""
    return str(re.findall(r"FLEET-([0-9a-z]+) DONE", turn.prompt)[-1])


class Lab(NamedTuple):
    """A site whose agents are one real program, and the server that they talk to."""

    site: Site
    server: ScriptedServer
    provider: str
    env: dict[str, str]
    away: str

    def add(self, fault: str, *options: str) -> str:
        return self.site.add(f"please look FAULT-{fault}", "--provider", self.provider, *options)

    def leave(self, task: str) -> None:
        """Have the first attempt at this task find nobody at the server's address."""
        agent = self.site.root.parent / "agent"
        text = agent.read_text()
        agent.write_text(text.replace("nobody", task))

    def run(self, *arguments: str, seconds: float = 120.0, **env: str) -> Answer:
        with self.site.driving(*arguments, env={**self.env, **PATIENCE, **env}) as driver:
            return driver.end(seconds)


@contextmanager
def lab(root: Path, provider: str, brain: Callable[[Turn], Reply | Fault], **login: Any) -> Iterator[Lab]:
    server: ScriptedServer = ModelServer(brain) if provider == "claude" else ResponsesServer(brain)
    with server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets this port, and it refuses
        away = f"http://127.0.0.1:{free.getsockname()[1]}"
        agent = root / "agent"
        agent.write_text(_script(provider, away))
        agent.chmod(0o755)
        site = Site(root, CONFIG.format(provider=provider, binary=agent))
        found = Lab(site, server, provider, _environment(root, provider, server.url, login), away)
        yield found


def _environment(root: Path, provider: str, url: str, login: Mapping[str, Any]) -> dict[str, str]:
    if provider == "claude":
        whole = claude_cli.environment(root / "agents", url, **{"retries": RETRIES, **login})
    else:
        whole = codex_cli.environment(root / "agents", url, **{"retries": RETRIES, **login})
    return {name: value for name, value in whole.items() if name != "HOME"}


def _script(provider: str, away: str) -> str:
    """Starts the real program as it is; one attempt gets another address."""
    if provider == "claude":
        there, program = f"export ANTHROPIC_BASE_URL={away}", f"'{claude_cli.binary()}'"
    else:
        there = f'set -- -c \'model_providers.scripted.base_url="{away}/v1"\' "$@"'
        program = f"'{codex_cli.binary()}'"
    return f'#!/bin/sh\nif [ "$FLEET_TASK.$FLEET_GENERATION" = nobody.1 ]; then {there}; fi\nexec {program} "$@"\n'


def first_of(site: Site, task: str) -> tuple[str, str, bool]:
    record = site.records(task)[0]
    return record["outcome"], record["limit"], record["charged"]


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_twelve_tasks_meet_every_failure_of_a_server_and_end_done(tmp_path: Path, provider: str) -> None:
    login = {"subscription": True} if provider == "claude" else {}
    with lab(tmp_path, provider, Recovering(CLAUDE if provider == "claude" else CODEX), **login) as work:
        site = work.site
        tasks = {name: work.add(name) for name in [*WANTED, "plan"] if name != "login"}
        work.leave(tasks["refused"])
        good = [work.add("none") for _ in range(2)]
        begun = time.monotonic()
        answer = work.run()
        assert time.monotonic() - begun < 100, "nothing waits for ever"
        assert answer.status == 0, answer.err

        # the login wall comes alone, since it holds every task of its provider until a person has seen to it
        tasks["login"] = work.add("login", "--priority", "1")
        behind = work.add("none")
        walled = work.run("--max", "1")
        assert site.state(behind) == site.state(tasks["login"]) == "inbox", walled.err
        assert not site.records(behind)
        assert site.json("why", behind)["reasons"][0]["name"] == "gate"
        assert work.run("--max", "1").status == 0

    found = {name: first_of(site, task) for name, task in tasks.items() if name != "plan"}
    # where a stream is cut, Claude Code asks for the whole message in one piece, and gets it
    by_itself = {"cut": ("done", "", False)} if provider == "claude" else {}
    assert found == {**WANTED, **by_itself}
    for name, task in tasks.items():
        later = [record["outcome"] for record in site.records(task)][1:]
        assert later == ([] if name in by_itself else ["done"]), site.records(task)
    plan = site.records(tasks["plan"])[0]
    window = "five_hour" if provider == "claude" else "usage"
    assert (plan["outcome"], plan["limit"], plan["charged"]) == ("limit", window, False)
    assert site.counts() == {"done": len(WANTED) + 1 + len(good) + 1}
    assert len(work.server.turns) <= (RETRIES + 1) * len(site.events("started")), "retries are bounded"
    assert site.is_clean()


def test_a_plan_that_is_used_up_is_waited_for_and_the_run_ends_by_itself(tmp_path: Path) -> None:
    resets_at = 0

    def brain(turn: Turn) -> Reply | Fault:
        nonlocal resets_at
        resets_at = resets_at or int(time.time()) + 20
        if time.time() < resets_at:
            return model_server.exhausted("five_hour", resets_at)
        return say(f"seen\n\nFLEET-{attempt_of(turn)} DONE")

    with lab(tmp_path, "claude", brain, subscription=True) as work:
        tasks = [work.add("none") for _ in range(3)]
        answer = work.run("--max", "1", FLEET_RUN_MAX_WAIT="600")

    site = work.site
    assert answer.status == 0, answer.err
    assert [site.state(task) for task in tasks] == ["done"] * 3
    begun = [event["at"] for event in site.events("started")]
    assert len(begun) == 4, "one attempt met the limit, and no other before its reset"
    assert begun[1] >= resets_at
    assert "claude waits" in answer.err
    assert time.strftime("until %H:%M:%S", time.localtime(resets_at)) in answer.err
    assert not any(record["charged"] for task in tasks for record in site.records(task))


@pytest.mark.parametrize(("retries", "allowed"), [(None, 2), (0, 0)], ids=["by itself", "set by the person"])
def test_a_server_that_refuses_for_ever_is_asked_a_bounded_number_of_times(
    tmp_path: Path, retries: int | None, allowed: int
) -> None:
    with lab(tmp_path, "claude", lambda _turn: Fault(429, "rate_limit_error", "Number of requests")) as work:
        tasks = [work.add("none") for _ in range(2)]
        work.env.pop("CLAUDE_CODE_MAX_RETRIES")
        if retries is not None:
            work.env["CLAUDE_CODE_MAX_RETRIES"] = str(retries)
        answer = work.run(FLEET_RUN_ATTEMPTS="3")

    started = len(work.site.events("started"))
    assert 1 <= started <= 3, answer.err
    assert started <= len(work.server.turns) <= started * (1 + allowed)
    assert [work.site.state(task) for task in tasks] == ["inbox", "inbox"]
    assert "the cap of this run is 3" in answer.err


# Claude Code keeps to a budget of money by itself; that of tokens is the fleet's alone.
@pytest.mark.parametrize("budget", ["money=0.05", "tokens=150000"])
def test_a_task_of_five_cents_that_would_cost_a_dollar_is_ended_on_the_way(tmp_path: Path, budget: str) -> None:
    # each request is mostly a read of the cache, which is cheap by the token and not by the million
    each = Tokens(input=10, cache_write=500, cache_read=60_000, output=200)

    def brain(turn: Turn) -> Reply:
        return model_server.bash(
            f"echo step {len(turn.results)}; python3 -c 'import time; time.sleep(0.3)'", tokens=each
        )

    with lab(tmp_path, "claude", brain) as work:
        task = work.add("none", "--budget", budget)
        answer = work.run()

    site = work.site
    (record,) = site.records(task)
    assert (record["outcome"], record["charged"]) == ("budget", True), answer.err
    assert site.state(task) == "failed"
    assert len(work.server.turns) < 10
    used = record["usage"]
    assert used["cache_read"] > 100 * used["input"]
    cost = site.json("cost")
    assert cost["total"]["tokens"]["cache_read"] == used["cache_read"]
    assert used["partial"] == budget.startswith("tokens"), "the fleet did not wait for the end"
    amount = cost["total"]["money"]["amount"] or cost["total"]["money"]["known"]
    assert 0.02 < amount < 0.2
    assert cost["prices"]["date"] in site.fleet("cost").out
