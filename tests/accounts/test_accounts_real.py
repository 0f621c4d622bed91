"""Accounts of the real Claude Code and the real Codex: by `exec` and `resume`, and with the queue at the programs' own limits."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.accounts.arguments import LONGEST
from agent_fleet.queue import records
from support.estate import CLAUDE, CODEX, ELSEWHERE, Estate
from support.model_server import ModelServer, Reply, Turn, bash, exhausted, say
from support.procs import wait_until
from support.project import BOOT, git
from support.responses_server import ResponsesServer
from support.responses_server import say as answer
from support.shop import Shop
from support.terminal import terminal

pytestmark = pytest.mark.real_cli


@pytest.fixture(autouse=True)
def forks(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Estate, "server", server)


RUNS = 10


def odd(root: Path) -> Path:
    """A git work tree whose path has dots, spaces and quotes."""
    place = root / 'v1.2 "odd"' / "my.project"
    place.mkdir(parents=True)
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", "first")
    return place


def places(shop: Shop, provider: str, root: Path) -> list[Path]:
    """A registered project, one with dots in its path, and a work tree that is linked to the first."""
    dotted, linked = odd(root), root / "linked.tree"
    shop.json("project", "register", str(dotted), "--provider", provider)
    git(shop.root, "worktree", "add", "-q", str(linked))
    return [shop.root, dotted, linked]


def test_claude_code_ten_times_killed_recovered_and_resumed(tmp_path: Path) -> None:
    killed = threading.Event()

    def brain(turn: Turn) -> Reply:
        if "hang" in turn.prompt:
            killed.wait(60)
        return say("hello")

    with ModelServer(brain) as server:
        shop = Shop(tmp_path, server.url, claude=1)
        there = places(shop, "claude", tmp_path)
        for number in range(RUNS):
            place = there[number % 3]
            words = ("--pool", "claude-crew")
            done = shop.launch(f"t{number}", *words, argv=[CLAUDE, "--effort", "high", "claim"], workspace=place)
            assert (done.status, done.out.strip()) == (0, "hello"), done
            assert shop.turn_end(f"t{number}").exists()
            session = shop.json("session", "status", "--task", f"t{number}")
            assert (session["session_id"], session["workspace"]) == (server.turns[-1].session, str(place))
        assert len({turn.session for turn in server.turns}) == RUNS
        assert {turn.headers["authorization"] for turn in server.turns} == {"Bearer LOGIN-claude-1"}
        with shop.start(*shop.words("exec", "k", "--pool", "claude-crew", argv=[CLAUDE, "hang on"])) as worker:
            try:
                wait_until(lambda: "k" in sessions(shop), "its conversation is on record")
                assert shop.leases()["k"]["pid"] == worker.pid
                live = shop.launch("k", argv=[CLAUDE], verb="resume")
                assert (live.status, "live worker lease" in live.err) == (2, True), live
                wait_until(lambda: "hang on" in [turn.prompt for turn in server.turns], "it waits for its model")
                wait_until(lambda: is_written(shop, "hang on"), "its conversation is written down")
            finally:
                worker.send_signal(signal.SIGKILL)
                worker.communicate()
                killed.set()
        assert shop.leases() == {}
        recovered = shop.json("lease", "recover", "--task", "k", "--workspace", str(shop.root))
        assert (recovered["profile"], recovered["decision_reason"]) == ("claude-1", "sticky-resume")
        before = shop.json("session", "status", "--task", "k")
        done = shop.launch("k", argv=[CLAUDE], verb="resume", stdin=b"go on then")
        assert (done.status, done.out.strip()) == (0, "hello"), done
        last = next(turn for turn in reversed(server.turns) if "go on then" in turn.prompt)
        assert last.session == before["session_id"]
        assert "hang on" in json.dumps(last.body["messages"])
        assert shop.json("session", "status", "--task", "k")["session_event_seq"] > before["session_event_seq"]
        assert shop.json("lease", "release", "--task", "k")["was"] == "gone"
        assert accounts_in(shop) == ["the accounts are in order: claude-1"]
    assert not (tmp_path / "home" / ".claude").exists()


def test_codex_ten_times_killed_recovered_and_resumed(tmp_path: Path) -> None:
    long = "a long one\n" + "x" * LONGEST
    with ResponsesServer(lambda _turn: answer("hello")) as server:
        shop = Shop(tmp_path, server.url, codex=1)
        there = places(shop, "codex", tmp_path)
        for number in range(RUNS):
            place = there[number % 3]
            done = shop.launch(f"t{number}", "--pool", "codex-crew", argv=[CODEX, long], workspace=place)
            assert (done.status, "hello" in done.out) == (0, True), done
            wait_until(
                shop.turn_end(f"t{number}").exists, "the end of the turn"
            )  # told by a process that outlives Codex
            session = shop.json("session", "status", "--task", f"t{number}")["session_id"]
            assert session == server.turns[-1].session
        touch = json.dumps(["bash", "-c", f"touch '{shop.turn_end('k')}'"])
        given = [CODEX, "-c", f"notify={touch}"]
        first = screen_words(shop, shop.words("exec", "k", "--pool", "codex-crew", argv=[*given, "look at it"]))
        with terminal(first, shop.environment(), shop.root) as screen:
            assert screen.until(shop.turn_end("k").exists), screen.printed
            assert shop.leases()["k"]["pid"] == screen.pid
            session = shop.json("session", "status", "--task", "k")
            live = shop.launch("k", argv=given, verb="resume")
            assert (live.status, "live worker lease" in live.err) == (2, True), live
        assert shop.leases() == {}
        shop.json("lease", "recover", "--task", "k", "--workspace", str(shop.root))
        turns = len(server.turns)
        shop.turn_end("k").unlink()
        again = screen_words(shop, shop.words("resume", "k", argv=given))
        with terminal(again, shop.environment(), shop.root) as screen:
            assert screen.until(lambda: b"hello" in screen.printed), screen.printed
            screen.type(b"onwards")
            assert screen.until(lambda: b"onwards" in screen.printed), screen.printed
            screen.type(b"\r")
            assert screen.until(lambda: len(server.turns) > turns), screen.printed
            assert screen.until(shop.turn_end("k").exists), screen.printed
        assert server.turns[turns].session == session["session_id"]
        assert "look at it" in json.dumps(server.turns[turns].body["input"])
        assert shop.json("lease", "release", "--task", "k")["was"] == "gone"
        assert accounts_in(shop) == ["the accounts are in order: codex-1"]


def sessions(shop: Shop) -> list[str]:
    """The tasks whose conversations are on record."""
    return [json.loads(path.read_text())["task"] for path in (shop.kept / "sessions").glob("*.json")]


def is_written(shop: Shop, words: str) -> bool:
    """Whether these words stand in a conversation of Claude Code: it writes them a moment after it has sent them."""
    files = (shop.home_of("claude-1") / "projects").rglob("*.jsonl")
    return any(words in path.read_text(errors="replace") for path in files)


def accounts_in(shop: Shop) -> list[str]:
    """What the doctor says of accounts, on a machine on which it finds nothing wrong."""
    return [each["text"] for each in shop.json("doctor")["findings"] if each["check"] == "accounts"]


def screen_words(shop: Shop, words: list[str]) -> list[str]:
    return [sys.executable, "-c", ELSEWHERE.format(home=str(shop.home)) + BOOT, *words]


class Meter:
    """A model whose first account has used up its five hours until `reset`, so many seconds after it was first asked."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.reset = 0
        self.seen: list[tuple[str, float]] = []

    def __call__(self, turn: Turn) -> Any:
        token = turn.headers["authorization"].rpartition("LOGIN-")[2]
        self.reset = self.reset or int(time.time() + self.seconds)
        self.seen.append((token, time.time()))
        if token == "claude-1" and time.time() < self.reset:
            return bash("true") if not turn.results else exhausted("five_hour", self.reset)
        nonce = re.findall(r"FLEET-([0-9a-z]+) DONE", turn.prompt)[-1]
        return say(f"did it\n\nFLEET-{nonce} DONE")


def test_a_limit_closes_one_account_and_the_next_finishes_the_queue(tmp_path: Path) -> None:
    meter = Meter(5400)
    with ModelServer(meter) as server:
        shop = Shop(tmp_path, server.url, claude=2)
        shop.tell("claude-1", 90.0)
        shop.json("init")
        tasks = [shop.add(f"do {number}") for number in range(3)]
        with shop.work('rotation = "on"') as child:
            out, err = child.communicate(timeout=90)
    assert [shop.state(task) for task in tasks] == ["done"] * 3, (out, err)
    first, second = records.outcomes(shop.queue(), tasks[0])
    assert (first["outcome"], first["charged"], first["account"]) == ("limit", False, "claude-1")
    assert (second["outcome"], second["account"]) == ("done", "claude-2")
    assert first["session"]
    assert all(records.outcomes(shop.queue(), task)[-1]["account"] == "claude-2" for task in tasks)
    row = next(
        each
        for each in shop.json("pool", "status", "--pool", "claude-crew")["providers"][0]["profiles"]
        if each["profile"] == "claude-1"
    )
    assert row["routeability_reason"] == "cooldown"
    assert abs(row["cooldown"]["expires_unix"] - meter.reset) < 3
    assert "five_hour" in row["cooldown"]["reason"]
    assert not (shop.dir / "gates.json").exists() or json.loads((shop.dir / "gates.json").read_text()) == {}
    assert [token for token, _ in meter.seen].count("claude-1") == 2


def test_one_account_waits_for_its_reset_and_goes_on_by_itself(tmp_path: Path) -> None:
    meter = Meter(20)
    with ModelServer(meter) as server:
        shop = Shop(tmp_path, server.url, claude=1)
        shop.json("init")
        task = shop.add("do it")
        with shop.work() as child:
            wait_until(lambda: len(records.outcomes(shop.queue(), task)) == 1, "the limit is met")
            wait_until(lambda: shop.leases() == {}, "the account is back")
            until = time.strftime("%H:%M:%S", time.localtime(meter.reset))
            why = shop.json("why", task)["reasons"]
            assert any(each["name"] == "account" and until in each["why"] for each in why), why
            assert until in shop.fleet("plan").out
            out, err = child.communicate(timeout=90)
    assert shop.state(task) == "done", (out, err)
    assert f"until {until}" in err.decode()
    last = records.outcomes(shop.queue(), task)[-1]
    assert (last["outcome"], last["account"]) == ("done", "claude-1")
    assert last["session"] == records.outcomes(shop.queue(), task)[0]["session"]
    assert not any(meter.reset - 15 < at < meter.reset - 1 for _, at in meter.seen)
    assert os.path.isdir(shop.home_of("claude-1"))
