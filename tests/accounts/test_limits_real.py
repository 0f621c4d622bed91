"""Limits of one model, and limits and logins that a crew of the real Claude Code meets: what is closed, and who goes on."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.queue import records
from support.claimers import by_shell, claimer
from support.claude_lab import host
from support.desktop import require
from support.model_server import Fault, ModelServer, Turn, bash, exhausted, say
from support.procs import wait_until
from support.shop import Shop

pytestmark = pytest.mark.real_cli


def account(turn: Turn) -> str:
    return turn.headers["authorization"].rpartition("LOGIN-")[2]


def events(shop: Shop, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (shop.dir / "journal.jsonl").read_text().splitlines()]
    return [event for event in found if event["event"] == name]


def test_the_limit_of_one_model_lets_another_model_go_on_under_the_same_account(tmp_path: Path) -> None:
    reset = [0]

    def brain(turn: Turn) -> Any:
        if "opus" in turn.body["model"] and time.time() < reset[0]:
            return exhausted("seven_day_opus", reset[0])
        return say(f"did it\n\nFLEET-{re.findall(r'FLEET-([0-9a-z]+) DONE', turn.prompt)[-1]} DONE")

    with ModelServer(brain) as server:
        shop = Shop(tmp_path, server.url, claude=1)
        shop.json("init")
        strong = [shop.add("think", "--model", "opus") for _ in range(2)]
        other = shop.add("do it", "--model", "sonnet")
        reset[0] = int(time.time()) + 30
        with shop.work() as child:
            wait_until(lambda: len(records.outcomes(shop.queue(), other)) == 1, "the other model goes on", 60)
            assert time.time() < reset[0] - 5, "this machine is too slow to say anything"
            until = time.strftime("%H:%M:%S", time.localtime(reset[0]))
            assert f"closed to opus until {until}: limit seven_day_opus" in shop.fleet("plan").out
            for task in strong:
                why = [each["why"] for each in shop.json("why", task)["reasons"]]
                assert any(f"claude-1: cooldown: closed to opus until {until}" in each for each in why), why
            (row,) = shop.json("pool", "status", "--pool", "claude-crew")["providers"][0]["profiles"]
            assert (row["cooldown"]["scope"], "closed to opus" in row["words"]) == ("opus", True)
            words = ("lease", "choose", "--task", "x", "--pool", "claude-crew", "--workspace", str(shop.root))
            refused = shop.fleet(*words, "--model", "claude-opus-4-8")
            assert (refused.status != 0, "closed to opus" in refused.err) == (True, True), refused
            assert shop.json("choose", *words[2:], "--model", "haiku", "--dry-run")["profile"] == "claude-1"
            out, err = child.communicate(timeout=90)
    assert [shop.state(task) for task in strong] == ["done"] * 2, (out, err)
    outcomes = [[record["outcome"] for record in records.outcomes(shop.queue(), task)] for task in (*strong, other)]
    assert sorted(map(len, outcomes)) == [1, 1, 2]  # one of them met it, the other was held
    assert not any(record["charged"] for task in strong for record in records.outcomes(shop.queue(), task))


@pytest.mark.parametrize("wall", ["opus", "auth"])
def test_a_wall_that_subagents_meet_closes_their_account_and_the_next_one_does_their_tasks(
    tmp_path: Path, wall: str
) -> None:
    reset = int(time.time()) + 5400

    def hit(turn: Turn) -> Any:
        is_member = turn.prompt.startswith("Your name is r")
        if account(turn) != "claude-1" or not turn.results:
            return None
        if wall == "auth":
            return Fault(401, "authentication_error", "OAuth token has been revoked")
        # the session itself ends well, and says that all have ended
        return exhausted("seven_day_opus", reset) if is_member else None

    with ModelServer(lambda turn: host(turn, hit)) as server:
        shop = Shop(tmp_path, server.url, claude=2)
        shop.tell("claude-1", 90.0)
        shop.json("init")
        tasks = [shop.add(f"do {number}") for number in range(2)]
        lane = ("--max", "2", "--lane", "subagent")
        with shop.work('rotation = "on"', "[subagent]", "seats = 2", options=lane) as child:
            out, err = child.communicate(timeout=120)
    assert [shop.state(task) for task in tasks] == ["done"] * 2, (out, err)
    first, second = events(shop, "disbanded")
    assert (first["outcome"], second["outcome"]) == ("auth" if wall == "auth" else "limit", "done")
    assert set(first["returned"]) == set(tasks)
    assert [[record["outcome"] for record in records.outcomes(shop.queue(), task)] for task in tasks] == [["done"]] * 2
    assert [event["account"] for event in events(shop, "mustered")] == ["claude-1", "claude-2"]
    (closed,) = [json.loads(path.read_text()) for path in (shop.kept / "cooldowns").iterdir()]
    assert closed["profile"] == "claude-1"
    assert closed.get("scope", "") == ("opus" if wall == "opus" else "")
    assert wall == "auth" or abs(closed["expires_unix"] - reset) < 3
    assert shop.leases() == {}


@pytest.mark.parametrize("wall", ["opus", "auth"])
def test_a_wall_that_a_session_on_a_terminal_meets_closes_its_account_and_the_next_one_does_its_task(
    tmp_path: Path, wall: str
) -> None:
    """Nobody reads what it prints; the program's own hook tells what ended the turn."""
    require("tmux")
    reset = (int(time.time()) + 5400) // 60 * 60  # it names the minute

    def brain(turn: Turn) -> Any:
        if account(turn) == "claude-1" and turn.results:
            if wall == "auth":
                return Fault(401, "authentication_error", "OAuth token has been revoked")
            return exhausted("seven_day_opus", reset)
        return claimer(by_shell(bash), "r1-w1" if account(turn) == "claude-1" else "r1-w2")(turn)

    with ModelServer(brain) as server:
        shop = Shop(tmp_path, server.url, claude=2)
        shop.tell("claude-1", 90.0)
        shop.json("init")
        task = shop.add("do it")
        lane = ("--max", "1", "--lane", "terminal", "--tmux")
        with shop.work('rotation = "on"', options=lane) as child:
            out, err = child.communicate(timeout=150)
    assert shop.state(task) == "done", (out, err)
    first, second = events(shop, "disbanded")
    assert (first["outcome"], second["outcome"]) == ("auth" if wall == "auth" else "limit", "done")
    assert [event["worker"] for event in events(shop, "claimed")] == [
        "r1-w1",
        "r1-w2",
    ]  # it held the task when it met it
    assert [event["account"] for event in events(shop, "mustered")] == ["claude-1", "claude-2"]
    assert [record["outcome"] for record in records.outcomes(shop.queue(), task)] == ["done"]
    (closed,) = [json.loads(path.read_text()) for path in (shop.kept / "cooldowns").iterdir()]
    assert (closed["profile"], closed.get("scope", "")) == ("claude-1", "opus" if wall == "opus" else "")
    assert wall == "auth" or abs(closed["expires_unix"] - reset) < 3
    assert shop.leases() == {}
