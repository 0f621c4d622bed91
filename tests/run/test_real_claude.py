"""`fleet run` with the real Claude Code against a scripted model on loopback: no request leaves this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet.queue import records
from support.claude_lab import Lab, task_of, verdict
from support.desktop import require
from support.model_server import Brain, Fault, ModelServer, Reply, Tokens, Turn, bash, say
from support.procs import pids_in, running, wait_until
from support.project import repository
from support.runs import overlap

pytestmark = pytest.mark.real_cli


@pytest.fixture
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    brain: Brain = request.param
    with ModelServer(brain) as server:
        yield Lab(tmp_path, server)


def _diligent(turn: Turn) -> Reply:
    if not turn.results:
        return bash(f"echo {task_of(turn)} >> seen.txt; sleep 0.2; echo wrote {task_of(turn)}")
    return verdict(turn, f"the file got {task_of(turn)}: {turn.results[-1].strip()}")


@pytest.mark.parametrize("lab", [_diligent], indirect=True)
def test_twelve_tasks_are_done_side_by_side_and_every_token_is_accounted_for(lab: Lab) -> None:
    site = lab.site
    tasks = [site.add(f"look at part {n}") for n in range(12)]
    lab.work()

    assert site.counts() == {"done": 12}
    assert sorted((site.root / "seen.txt").read_text().split()) == sorted(tasks)
    total = Tokens()
    for task in tasks:
        record = site.record(task)
        assert record["result"] == f"the file got {task}: wrote {task}"
        assert lab.used(record) == lab.server.sent(record["session"])
        assert record["usage"]["turns"] == 2
        total += lab.used(record)
    assert total == lab.server.sent()
    told = [event for event in site.events("finished") if event["to"] == "done"]
    assert sum((lab.used(event) for event in told), Tokens()) == total
    assert {turn.session for turn in lab.server.turns} == {site.record(task)["session"] for task in tasks}
    assert {task_of(turn) for turn in lab.server.turns} == set(tasks)
    assert len(lab.server.turns) == 24
    spans = [span for each in site.intervals().values() for span in each]
    assert any(overlap(one, other) for one in spans for other in spans if one != other)
    assert site.is_clean()


@pytest.mark.parametrize("lab", [_diligent], indirect=True)
def test_in_a_terminal_of_its_own_every_event_is_read_as_elsewhere(lab: Lab) -> None:
    require("tmux")
    site = lab.site
    repository(site.root)
    text = "".join(f"line {n} '\"$(id)\u00e9\U0001f680\x04\n" for n in range(20000))
    (site.home / "text").write_text(text)
    tasks = [site.add("look at this part"), site.add("--file", str(site.home / "text"), "--priority", "6")]
    lab.work("--tmux", "--worktree")  # without worktrees one session in a terminal claims for itself

    for task in tasks:
        record = site.record(task)
        assert (record["lane"], record["result"]) == ("terminal", f"the file got {task}: wrote {task}")
        assert lab.used(record) == lab.server.sent(record["session"])
    asked = max(len(turn.prompt) for turn in lab.server.turns)
    assert asked > len(text)


def _mixed(turn: Turn) -> Reply | Fault:
    text = turn.prompt
    if "WALL" in text:
        return verdict(turn, "there is a login page", "BLOCKED: login required: shop.example")
    if "EMPTY" in text:
        return say("")
    if "BANNER" in text:
        return say("Claude usage limit reached. Your limit will reset at 3pm.")
    if "SELF-BLOCK" in text:
        if not turn.results:
            return bash("fleet block $FLEET_TASK --reason 'captcha: shop.example'")
        return verdict(turn, "I have parked it")
    if "SELF-DONE" in text:
        if not turn.results:
            return bash("fleet done $FLEET_TASK --result 'the page said 42' && echo told")
        return verdict(turn, "I have said so")
    return say("I think it is fine")


@pytest.mark.parametrize("lab", [_mixed], indirect=True)
def test_only_evidence_is_done_and_a_wall_is_for_a_person(lab: Lab) -> None:
    site = lab.site
    site.configure((site.dir / "config.toml").read_text() + "[queue]\nmax_attempts = 1\n")
    ids = {word: site.add(f"please {word}") for word in ("WALL", "EMPTY", "SELF-BLOCK", "SELF-DONE")}
    lying = site.add("please make it", "--check", "test -e made.txt")
    ids["BANNER"] = site.add("please BANNER", "--priority", "9")  # last: it closes the gate to those behind it
    with site.driving(env=lab.env) as driver:
        wait_until(lambda: len(site.events("finished")) == 6, "all have been settled", 120)
        site.fleet("stop")
        driver.end()

    assert site.state(ids["WALL"]) == "blocked"
    assert site.record(ids["WALL"])["reason"] == "login required: shop.example"
    assert site.state(ids["EMPTY"]) == "failed"
    # another attempt may have begun, to see whether the limit is over, before the run was stopped
    assert records.outcomes(site.queue(), ids["BANNER"])[0]["outcome"] == "limit"
    assert site.state(ids["BANNER"]) == "inbox"
    assert not site.record(ids["BANNER"])["charged"]
    assert site.state(ids["SELF-BLOCK"]) == "blocked"
    assert site.record(ids["SELF-BLOCK"])["reason"] == "captcha: shop.example"
    assert site.state(ids["SELF-DONE"]) == "done"
    assert site.record(ids["SELF-DONE"])["result"] == "the page said 42"
    assert site.state(lying) == "failed"
    assert "the check failed" in site.record(lying)["reason"]
    assert site.is_clean()


def _clinging(turn: Turn) -> Reply:
    code = (
        "import os, signal, sys, time; d = sys.argv[1]; "
        "note = lambda: open(os.path.join(d, str(os.getpid())), 'w').close(); "
        "(os.fork() or (os.setsid(), os.fork() and os._exit(0))) ; "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); note(); time.sleep(600)"
    )
    return bash(f'mkdir -p ../pids; setsid env -i {sys.executable} -I -c "{code}" ../pids')


@pytest.mark.parametrize("lab", [_clinging], indirect=True)
def test_stop_ends_what_a_tool_of_the_agent_has_started(lab: Lab, tmp_path: Path) -> None:
    site = lab.site
    task = site.add("start something that stays")
    pids = tmp_path / "pids"
    with site.driving(env=lab.env) as driver:
        wait_until(lambda: pids.exists() and len(pids_in(pids)) == 2, "the tool has started both", 120)
        assert site.fleet("stop").status == 0
        assert not any(running(pid) for pid in pids_in(pids))
        assert driver.end().status == 0

    assert site.state(task) == "inbox"
    assert not any(record["charged"] for record in site.records(task))
    assert site.alive() == []
    assert os.path.exists(site.dir / "logs" / f"{task}.g1.log")
