"""Sessions that claim for themselves: started, watched, adopted and settled by the same run, with no task lost and none charged."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.queue import board as boards
from agent_fleet.run import roster, snapshot
from support.bees import Bees
from support.desktop import require
from support.procs import running, wait_until
from support.runs import QUICK, Site, attempts_of

LANE = ("--lane", "hive", "--provider", "bee")
TERMINAL = ("--lane", "terminal", "--tmux", "--provider", "bee")


class Meadow:
    """A site whose sessions are bees."""

    def __init__(self, root: Path) -> None:
        self.site = Site(root)
        self.bees = Bees(self.site, root)
        self.env = self.bees.env

    def mode(self, mode: str) -> None:
        self.env["BEE"] = mode

    def add(self, number: int) -> list[str]:
        return [self.site.add(f"flower {each}") for each in range(number)]

    def held(self) -> int:
        return len(self.site.queue().active())

    def told(self) -> Path:
        """Where the person's command puts what it is told."""
        found = self.bees.home / "told"
        self.site.configure(f"{QUICK}first_claim = 600\n[notify]\ncommand = ['sh', '-c', 'cat >> {found}']\n")
        return found

    def sessions(self) -> list[dict[str, Any]]:
        queue = self.site.queue()
        return snapshot.sessions(queue, boards.read(queue))

    def outcomes(self) -> list[dict[str, Any]]:
        return self.site.events("disbanded")


@pytest.fixture
def meadow(tmp_path: Path) -> Meadow:
    return Meadow(tmp_path)


def test_a_session_works_its_share_of_the_queue_and_leaves_the_rest(meadow: Meadow) -> None:
    site = meadow.site
    mine = meadow.add(3)
    shell = site.command("echo by a shell")
    other = site.add("for somebody else", "--provider", "claude")
    site.configure(QUICK + '[provider.claude]\nbinary = "/nowhere/claude"\n')
    answer = site.work(*LANE, "--max", "2", env=meadow.env)

    assert [site.state(task) for task in (*mine, shell, other)] == ["done"] * 4 + ["inbox"]
    assert {site.record(task)["worker"] for task in mine} == {"r1-w1"}
    assert site.record(shell)["by"] == "fleet"
    assert {event["task"] for event in site.events("claimed") if event["agent"] == "r1-w1-1"} == set(mine)
    assert "r1: 4 done" in answer.out
    env = json.loads((meadow.bees.home / "env-r1-w1").read_text())
    assert (env["FLEET_LANE"], env["FLEET_PROVIDER"], env["FLEET_AGENT"]) == ("hive", "bee", "r1-w1")
    assert "FLEET_TASK" not in env
    assert "FLEET_GENERATION" not in env
    assert site.is_clean()


def test_what_a_session_used_and_did_is_in_every_account(meadow: Meadow) -> None:
    tasks = meadow.add(2)
    meadow.site.work(*LANE, "--max", "2", env=meadow.env)

    report = meadow.site.json("report", "r1", env=meadow.env)
    assert report["coverage"] == {"asked": 2, "done": 2, "others": {}, "whole": True}
    assert {line["task"]: line["evidence"] for line in report["tasks"]} == dict.fromkeys(tasks, "done by r1-w1")
    (row,) = meadow.site.json("cost", "--by", "task")["rows"]
    assert (row["key"], row["tokens"]["input"], row["tokens"]["output"]) == ("session r1-w1", 7, 3)
    assert "OVER" in meadow.site.json("log", tasks[0], env=meadow.env)["lines"]
    (run,) = meadow.site.json("runs")["runs"]
    assert (run["attempts"], run["states"]) == (1, {"done": 2})


def test_a_session_that_is_killed_returns_its_task_uncharged_and_a_new_one_works_on(meadow: Meadow) -> None:
    site = meadow.site
    tasks = meadow.add(3)
    meadow.bees.have("wait")
    with site.driving(*LANE, "--max", "2", env=meadow.env) as driver:
        wait_until(lambda: meadow.held() == 1, "it holds a task")
        os.kill(meadow.bees.pids[0], signal.SIGKILL)
        wait_until(lambda: site.events("reclaimed"), "the task is back")
        meadow.bees.lose("wait")
        driver.end()

    assert site.counts() == {"done": 3}
    assert [over["returned"] for over in meadow.outcomes()] == [["t1"], []]
    assert {site.record(task)["worker"] for task in tasks} == {"r1-w2"}
    assert not any(record["charged"] for task in tasks for record in site.records(task))
    assert site.is_clean()


def test_a_keeper_that_is_killed_takes_its_session_with_it_and_the_task_is_back(meadow: Meadow) -> None:
    site = meadow.site
    meadow.add(1)
    meadow.bees.have("wait")
    with site.driving(*LANE, env=meadow.env) as driver:
        wait_until(lambda: meadow.held() == 1, "it holds a task")
        (crew,) = attempts_of(site)
        os.kill(crew.worker.pid, signal.SIGKILL)
        wait_until(meadow.outcomes, "the session is over")
        assert not running(meadow.bees.pids[0])
        meadow.bees.lose("wait")
        driver.end()

    assert site.counts() == {"done": 1}
    assert meadow.outcomes()[0]["returned"] == ["t1"]


def test_a_session_whose_driver_dies_goes_on_and_the_next_run_takes_it_over(meadow: Meadow) -> None:
    site = meadow.site
    tasks = meadow.add(3)
    meadow.bees.have("wait")
    with site.driving(*LANE, "--max", "2", env=meadow.env) as driver:
        wait_until(lambda: meadow.held() == 1, "it holds a task")
        driver.kill()
        with site.driving(*LANE, "--max", "2", env=meadow.env) as second:
            wait_until((site.dir / "runs" / "r2").exists, "the next run has begun")
            meadow.bees.lose("wait")
            answer = second.end()

    assert "taking over 1 workers of r1" in answer.err
    assert "r2: 3 done" in answer.out
    assert meadow.bees.pids == meadow.bees.pids[:1]
    assert {site.record(task)["worker"] for task in tasks} == {"r1-w1"}
    assert attempts_of(site) == []
    assert site.is_clean()


def test_a_session_whose_driver_dies_in_the_moment_of_its_start_is_found(meadow: Meadow) -> None:
    site = meadow.site
    meadow.add(2)
    meadow.mode("linger")
    with site.driving("--lane", "deadly-hive", "--provider", "bee", "--max", "2", env=meadow.env) as driver:
        assert driver.end().status == -9
        wait_until(lambda: len(site.events("finished")) == 2, "the session goes on")
        assert site.fleet("stop", env=meadow.env).status == 0
        assert not running(meadow.bees.pids[0])

    assert len(meadow.bees.pids) == 1
    assert len(meadow.outcomes()) == 1
    assert site.is_clean()


def test_a_call_that_nobody_has_answered_is_taken_back_and_then_starts_nothing(meadow: Meadow) -> None:
    from agent_fleet.run import tenure

    directory = meadow.site.root.parent / "worker"
    directory.mkdir()
    (directory / tenure.CALL).touch()

    assert tenure.answered(str(directory)) == ""
    assert tenure.take({}, str(directory), "mark") is None
    (directory / tenure.CALL).touch()
    assert tenure.take({}, str(directory), "mark") == tenure.Lease("", "")
    assert tenure.answered(str(directory)).startswith(f"{os.getpid()}:")


def test_sessions_that_claim_nothing_are_stopped_and_after_two_of_them_no_more_are_started(meadow: Meadow) -> None:
    site = meadow.site
    site.configure(QUICK + "first_claim = 1.5\n")
    meadow.add(2)
    meadow.mode("idle")
    answer = site.work(*LANE, "--max", "2", status=2, env=meadow.env)

    assert [over["outcome"] for over in meadow.outcomes()] == ["failed", "failed"]
    assert "2 sessions in a row ended without having moved a task" in answer.err
    assert site.counts() == {"inbox": 2}
    assert len(meadow.bees.pids) == 2
    assert not any(running(pid) for pid in meadow.bees.pids)


def test_sessions_that_end_at_once_are_counted_too(meadow: Meadow) -> None:
    meadow.add(2)
    meadow.mode("quit")
    answer = meadow.site.work(*LANE, "--max", "2", status=2, env=meadow.env)

    assert len(meadow.bees.pids) == 2
    assert "2 sessions in a row" in answer.err
    assert meadow.site.counts() == {"inbox": 2}


def test_a_drained_run_gives_its_sessions_no_more_tasks(meadow: Meadow) -> None:
    site = meadow.site
    meadow.add(4)
    meadow.bees.have("wait")
    with site.driving(*LANE, "--max", "2", env=meadow.env) as driver:
        wait_until(lambda: meadow.held() == 1, "it holds a task")
        os.kill(driver.pid, signal.SIGINT)
        wait_until(lambda: list(site.dir.glob("runs/r1/workers/w1/enough")), "it is to get no more")
        meadow.bees.lose("wait")
        answer = driver.end()

    assert "finishing 1 workers" in answer.err
    assert site.counts() == {"done": 1, "inbox": 3}
    assert meadow.outcomes()[0]["outcome"] == "done"


def test_stop_ends_sessions_and_returns_what_they_hold(meadow: Meadow) -> None:
    site = meadow.site
    (task,) = meadow.add(1)
    meadow.bees.have("wait")
    with site.driving(*LANE, env=meadow.env) as driver:
        wait_until(lambda: meadow.held() == 1, "it holds a task")
        assert site.fleet("stop", env=meadow.env).status == 0
        assert not running(meadow.bees.pids[0])
        driver.end()

    assert site.state(task) == "inbox"
    assert site.records(task) == []
    assert site.alive() == []


def test_a_session_that_would_stay_is_ended_when_nothing_is_left_for_it(meadow: Meadow) -> None:
    require("tmux")
    meadow.add(2)
    meadow.mode("linger")
    answer = meadow.site.work(*TERMINAL, "--max", "1", env=meadow.env)

    assert meadow.site.counts() == {"done": 2}
    assert "nothing more for it" in answer.err
    assert [over["outcome"] for over in meadow.outcomes()] == ["done"]


def test_a_session_on_a_terminal_that_ends_its_turn_with_a_task_in_hand_waits_for_a_person(meadow: Meadow) -> None:
    require("tmux")
    meadow.add(1)
    meadow.bees.have("wait")
    log = meadow.site.root / "log"
    told = meadow.told()
    with (
        log.open("wb") as output,
        meadow.site.driving(*TERMINAL, env=meadow.env, stderr=output) as driver,
    ):
        wait_until(lambda: [each["waits"] for each in meadow.sessions()] == [True], "it is seen")
        wait_until(lambda: "waits for you: it ended its turn and still holds t1" in log.read_text(), "it is said")
        wait_until(told.exists, "it is told")
        # it goes on printing, as it would if the person had answered
        wait_until(lambda: [each["waits"] for each in meadow.sessions()] == [False], "it goes on")
        assert meadow.sessions()[0]["tasks"] == ["t1"]
        meadow.bees.lose("wait")
        driver.end()

    assert log.read_text().count("waits for you") == 1
    (message,) = map(json.loads, told.read_text().splitlines())
    assert (message["event"], message["tasks"]) == ("blocked", ["r1-w1"])
    assert "still holds t1" in message["wall"]
    assert meadow.site.counts() == {"done": 1}


@pytest.mark.parametrize("ask", [(), ("--ask",)])
def test_a_session_on_a_terminal_that_meets_a_limit_ends_and_its_task_goes_on_after_it(
    meadow: Meadow, ask: tuple[str, ...]
) -> None:
    """Its hook tells it; what it prints is not read. Nobody has to come, whether somebody is there or not."""
    require("tmux")
    site = meadow.site
    (task,) = meadow.add(1)
    meadow.mode("wall")
    with site.driving(*TERMINAL, "--max", "1", *ask, env=meadow.env) as driver:
        wait_until(lambda: site.events("disbanded"), "the session has ended")
        assert json.loads((site.dir / "gates.json").read_text())["bee"]["kind"] == "limit"
        meadow.bees.have("day")
        wait_until(lambda: site.reached(task, "done"), "the next one does it", 60)
        if ask:
            os.kill(attempts_of(site)[0].worker.pid, signal.SIGTERM)  # a person closes the window, or it would stay
        answer = driver.end()

    first = meadow.outcomes()[0]
    assert (first["outcome"], first["reason"], first["returned"]) == ("limit", "out of honey", [task])
    assert "r1-w1  is asked to end: limit: out of honey" in answer.err
    assert [(record["outcome"], record["worker"]) for record in site.records(task)] == [("done", "r1-w2")]


def test_tasks_that_a_session_parks_are_told_to_the_person_by_wall(meadow: Meadow) -> None:
    tasks = meadow.add(2)
    meadow.mode("park")
    told = meadow.told()
    meadow.site.work(*LANE, "--max", "2", env=meadow.env)
    first, last = map(json.loads, told.read_text().splitlines())
    assert (first["wall"], sorted(first["tasks"])) == ("login required: bank.example", tasks)
    assert (last["event"], last["text"]) == ("ended", "2 blocked")
    assert [meadow.site.record(task)["reason"] for task in tasks] == ["login required: bank.example"] * 2
    (group,) = meadow.site.json("blocked", env=meadow.env)["groups"]
    assert [each["said"] for each in group["tasks"]] == [["OVER"], ["OVER"]]
    log = meadow.site.dir / "logs" / "r1-w1.log"
    os.utime(log, (time.time() + 60, time.time() + 60))  # it has gone on to other things, and said other things
    (group,) = meadow.site.json("blocked", env=meadow.env)["groups"]
    assert [each["said"] for each in group["tasks"]] == [[], []]


def test_with_a_person_at_its_terminal_a_session_is_not_ended_for_being_idle(meadow: Meadow) -> None:
    """The lane is the one that auto means here; the person ends the session by closing its window."""
    require("tmux")
    site = meadow.site
    task = site.add("https://flower.example/", "--provider", "bee")
    meadow.mode("linger")
    env = {**meadow.env, "FLEET_LANES_BROWSER": "auto", "FLEET_TERMINAL_FORM": "tmux"}
    with site.driving("--ask", env=env) as driver:
        wait_until(lambda: site.reached(task, "done"), "it is done", 60)
        (session,) = meadow.sessions()
        wait_until(lambda: meadow.sessions()[0]["age"] > 9, "it has been idle for long enough")
        assert driver.child.poll() is None
        (window,) = attempts_of(site)
        os.kill(window.worker.pid, signal.SIGTERM)
        answer = driver.end()
    assert (session["lane"], answer.status) == ("terminal", 0)
    assert "is asked to end" not in answer.err
    order = json.loads((Path(window.dir) / "keeper.json").read_text())
    assert (order["total"], order["idle"], order["first_byte"]) == (0, 0, 0)


def test_a_session_that_nobody_can_type_to_is_held_to_its_limits_even_if_a_person_is_there(meadow: Meadow) -> None:
    site = meadow.site
    site.configure(QUICK + "first_claim = 2\n")
    meadow.add(1)
    meadow.mode("idle")
    lanes = {"FLEET_LANES_AGENT": "hive", "FLEET_LANES_BROWSER": "terminal", "FLEET_TERMINAL_FORM": "tmux"}
    answer = site.work("--ask", "--provider", "bee", "--max", "1", status=2, env=meadow.env | lanes)
    assert "held nothing for 2.0 s" in answer.err


def test_a_limit_that_a_session_meets_closes_the_gate_and_its_reset_opens_it(meadow: Meadow) -> None:
    site = meadow.site
    meadow.add(2)
    meadow.mode("limit")
    with site.driving(*LANE, "--max", "2", env=meadow.env) as driver:
        wait_until((site.dir / "gates.json").exists, "the gate is closed")
        meadow.bees.have("day")
        driver.end()

    assert [over["outcome"] for over in meadow.outcomes()] == ["limit", "done"]
    assert site.counts() == {"done": 2}
    assert json.loads((site.dir / "gates.json").read_text()) == {}


def test_what_a_policy_holds_back_no_session_claims(meadow: Meadow) -> None:
    """Neither a task that was there before, nor one that comes while the session is busy and then looks for its next."""
    site = meadow.site
    late = [site.add("late flower")]
    early = meadow.add(1)
    meadow.bees.have("wait")
    with site.driving(*LANE, "--max", "1", env=meadow.env) as driver:
        wait_until(lambda: site.reached(early[0], "active"), "it holds the other")
        late.append(site.add("late as well"))
        early += meadow.add(1)
        wait_until(lambda: late[1] in (site.dir / "holds.json").read_text(), "the policy was asked")
        meadow.bees.lose("wait")
        wait_until(lambda: site.reached(early[1], "done"), "the next one is done")
        assert [site.state(task) for task in late] == ["inbox", "inbox"]
        meadow.bees.have("day")
        driver.end()

    assert site.counts() == {"done": 4}


def test_a_session_that_has_passed_the_budget_of_the_run_is_the_last(meadow: Meadow) -> None:
    site = meadow.site
    site.configure(QUICK + "[budget]\nrun_money = 0.4\n")
    meadow.add(4)
    meadow.mode("once")
    with site.driving(*LANE, "--max", "1", env=meadow.env) as driver:
        wait_until(lambda: site.events("finished"), "one is done")
        os.kill(meadow.bees.pids[0], signal.SIGKILL)
        answer = driver.end()

    assert "nothing more is started: money of the run" in answer.err
    assert site.counts() == {"done": 1, "inbox": 3}


def test_workers_in_one_process_cannot_report_for_each_other(meadow: Meadow) -> None:
    """All of these commands are run on behalf of one process, as those of subagents are."""
    site = meadow.site
    one, other = meadow.add(2)
    mark = "r1-0123456789abcdef-w1"
    env = {"FLEET_WORKER": mark, "FLEET_RUN": mark[:-3], "FLEET_AGENT": "r1-w1"}
    claimed = [site.json("claim", f"r1-w1-{number}", env=env)["id"] for number in (1, 2)]
    assert claimed == [one, other]
    for command in (("done", "--result", "x"), ("heartbeat",), ("fail", "--reason", "x"), ("block", "--reason", "x")):
        own = ["--agent", "r1-w1-2", "--generation", "1"]  # the number is that of its own lease, on another task
        for wrong in (own, ["--agent", "r1-w1-2"], [], ["--agent", "r1-w1"], ["--generation", "2"]):
            assert site.json(command[0], one, *command[1:], *wrong, status=2, env=env)["code"] == "lease_lost"
    assert site.state(one) == "active"
    site.json("done", one, "--agent", "r1-w1-1", "--result", "seen", env=env)
    assert (site.state(one), site.state(other)) == ("done", "active")
    record = site.record(one)
    assert (record["agent"], record["worker"], record["run"]) == ("r1-w1-1", "r1-w1", "r1")


def test_a_plan_counts_seats_and_says_how_many_sessions_they_are(meadow: Meadow) -> None:
    site = meadow.site
    meadow.add(5)
    site.command("true")
    answer = site.fleet("plan", *LANE, "--force", env=meadow.env)
    assert "6 workers (2 sessions of 2 seats, 1 session of 1 seat and 1 alone)" in answer.out
    assert attempts_of(site) == []
    assert list(roster.runs(site.queue())) == []
