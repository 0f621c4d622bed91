"""A run that nobody watches: limits wait and go on by themselves, budgets stop, failures that nobody can explain do not loop."""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.run.gates import STRIKES
from agent_fleet.testing import FleetProject, script

pytestmark = pytest.mark.slow

QUICK = "[run]\nbackoff = 0.2\nstagger = 0.0\ngrace = 2.0\n"


def journal(project: FleetProject) -> list[dict[str, Any]]:
    lines = (project.root / ".agents" / "journal.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def starts(project: FleetProject) -> list[tuple[float, str]]:
    return [(event["at"], event["task"]) for event in journal(project) if event["event"] == "started"]


def attempts(project: FleetProject, task: str) -> list[dict[str, Any]]:
    return list(project.show(task)["attempts"])


def scripts(*told: str) -> str:
    """One script for each lease of a task, the last for all that follow."""
    return "SCRIPT: " + json.dumps([json.loads(each.partition("SCRIPT:")[2]) for each in told])


def swapped() -> int:
    """The bytes that this machine has written to swap since it started (proc(5), vmstat); 0 where nothing tells."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * os.sysconf("SC_PAGE_SIZE") for line in lines if line.startswith("pswpout "))


def is_clean(project: FleetProject) -> bool:
    return project.cli("verify").status == 0


def test_a_limit_stops_the_other_starts_and_the_run_goes_on_at_the_reset(fleet_project: FleetProject) -> None:
    project = fleet_project
    limited = project.add(
        scripts(script("exit1-limit", kind="five_hour", resets_in=8), script("ok")), "--priority", "1"
    )
    others = [project.add(script("ok")) for _ in range(3)]
    project.configure(QUICK)

    answer = project.run("--max", "1")
    assert answer.status == 0, answer.err
    first = attempts(project, limited)[0]
    assert (first["outcome"], first["limit"], first["charged"]) == ("limit", "five_hour", False)
    assert [project.show(task)["state"] for task in (limited, *others)] == ["done"] * 4
    begun = [at for at, _ in starts(project)]
    # one start met the limit; nothing else started before the reset that it named
    assert begun[1] >= first["resets_at"] - 0.01, (begun, first["resets_at"])
    assert "five_hour" in answer.err
    assert "until" in answer.err, "the run says until when it waits"
    assert is_clean(project)


def test_a_server_that_always_refuses_sees_a_bounded_number_of_attempts(fleet_project: FleetProject) -> None:
    project = fleet_project
    tasks = [project.add(script("429-forever", retries=1)) for _ in range(4)]
    project.configure(QUICK + "attempts = 6\n")

    answer = project.run("--max", "4")
    assert len(starts(project)) <= 6
    assert all(project.show(task)["state"] == "inbox" for task in tasks), "a limit never fails a task"
    assert not any(attempt["charged"] for task in tasks for attempt in attempts(project, task))
    assert answer.json["states"].get("failed", 0) == 0
    assert is_clean(project)


def test_without_a_cap_of_its_own_the_run_ends_when_a_limit_never_lifts(fleet_project: FleetProject) -> None:
    project = fleet_project
    project.add(script("429-forever", retries=1))
    project.configure(QUICK)
    project.run("--max", "1")
    assert len(starts(project)) <= 3, "three times the tasks"
    assert is_clean(project)


def test_an_overload_that_passes_costs_nothing(fleet_project: FleetProject) -> None:
    project = fleet_project
    task = project.add(scripts(script("overload", retries=1), script("overload", retries=1), script("ok")))
    project.configure(QUICK + "attempts = 9\n")
    assert project.run("--max", "1").status == 0
    assert [attempt["outcome"] for attempt in attempts(project, task)] == ["overload", "overload", "done"]
    assert not any(attempt["charged"] for attempt in attempts(project, task))


def test_a_login_wall_stops_its_provider_alone_and_a_new_run_tries_again(fleet_project: FleetProject) -> None:
    project = fleet_project
    walled = [project.add(scripts(script("auth-401"), script("ok")), "--priority", "1") for _ in range(3)]
    command = project.add("echo still at work", "--need", "command")
    project.configure(QUICK)

    project.run("--max", "1")
    assert len([task for _, task in starts(project) if task != command]) == 1, "the wall holds for the others too"
    assert project.show(command)["state"] == "done"
    assert [project.show(task)["state"] for task in walled] == ["inbox"] * 3

    project.cli("reset")
    assert project.run("--max", "1").status == 0
    # the first probes with its second script, which works; the others meet their own walls or get through
    assert project.show(walled[0])["state"] == "done"


def test_two_failures_in_a_row_that_nobody_can_explain_end_the_starts_of_their_kind(
    fleet_project: FleetProject,
) -> None:
    project = fleet_project
    tasks = [project.add(script("unknown-exit")) for _ in range(6)]
    command = project.add("echo still at work", "--need", "command", "--priority", "9")
    project.configure(QUICK)

    answer = project.run("--max", "1")
    assert len([task for _, task in starts(project) if task != command]) == 2, answer.err
    assert "in a row" in answer.err
    assert project.show(command)["state"] == "done"
    assert all(project.show(task)["state"] == "inbox" for task in tasks)


def test_a_task_that_would_spend_twenty_times_its_money_is_stopped_during_the_stream(
    fleet_project: FleetProject,
) -> None:
    project = fleet_project
    # 100,000 tokens are one dollar here, in ten steps; most of them are read from the cache
    task = project.add(script("usage-over-budget", tokens=100_000, seconds=20), "--budget", "money=0.05")
    project.configure(QUICK)

    answer = project.run("--max", "1")
    (attempt,) = attempts(project, task)
    assert (attempt["outcome"], attempt["charged"]) == ("budget", True)
    assert project.show(task)["state"] == "failed"
    assert "$0.05" in attempt["reason"]
    used = attempt["usage"]
    assert used["money"] < 0.5, "it was stopped long before it had spent a dollar"
    assert used["cache_read"] > used["input"], "cache reads count"
    assert attempt["exit"]["seconds"] < 15
    assert answer.status == 1


def test_a_token_budget_counts_every_class(fleet_project: FleetProject) -> None:
    project = fleet_project
    task = project.add(script("usage-over-budget", tokens=100_000, seconds=20), "--budget", "tokens=15000")
    project.configure(QUICK)
    project.run("--max", "1")
    (attempt,) = attempts(project, task)
    assert attempt["outcome"] == "budget"
    assert "tokens" in attempt["reason"]
    assert attempt["usage"]["input"] < 15_000, "input alone is far below the budget"


def test_the_money_of_a_run_stops_the_next_start(fleet_project: FleetProject) -> None:
    project = fleet_project
    tasks = [project.add(script("ok")) for _ in range(5)]  # each costs 0.02125 dollars
    project.configure(QUICK + "[budget]\nrun_money = 0.04\n")
    answer = project.run("--max", "1")
    done = [task for task in tasks if project.show(task)["state"] == "done"]
    assert len(done) == 2, answer.err
    assert "money of the run" in answer.err
    assert not any(attempts(project, task) for task in tasks if task not in done)


def test_a_worker_that_outgrows_its_ceiling_is_ended_and_its_neighbours_finish(fleet_project: FleetProject) -> None:
    project = fleet_project
    leak = project.add(script("leaks-memory"), "--priority", "1")
    forks = "i=0; while [ $i -lt 300 ]; do sleep 60 & i=$((i+1)); done; wait"
    burst = project.add(forks, "--need", "command", "--priority", "1")
    good = [project.add(script("ok", seconds=1)) for _ in range(8)]
    project.configure(
        QUICK
        + "[queue]\nmax_attempts = 1\n"
        + '[capacity]\nmax_mem_per_worker = "150 MiB"\nmax_processes_per_worker = 60\n'
    )
    before = swapped()
    answer = project.run("--max", "4")
    assert swapped() - before < 16 << 20, "the machine does not swap, whatever else little is written out on it"
    assert [project.show(task)["state"] for task in good] == ["done"] * 8, answer.err
    found = {task: attempts(project, task)[0] for task in (leak, burst)}
    assert found[leak]["exit"]["cause"] == "memory", found[leak]
    assert found[burst]["exit"]["cause"] == "processes", found[burst]
    assert str(150 << 20) in found[leak]["exit"]["note"]
    told = {event["task"]: event for event in journal(project) if event["event"] == "finished"}
    assert "memory" in told[leak]["reason"]
    assert "processes" in told[burst]["reason"]
    admitted = [event for event in journal(project) if event["event"] == "admitted"]
    assert [event["task"] for event in admitted] == [task for _, task in starts(project)]
    assert all(1 <= event["at_work"] <= 4 and event["planned"] >= 1 and event["bound_by"] for event in admitted)
    assert all(event["readings"]["memory_available"] > 0 for event in admitted)
    assert is_clean(project)


def test_logs_above_the_limit_are_removed_oldest_first(fleet_project: FleetProject) -> None:
    project = fleet_project
    first = project.add("head -c 300000 /dev/zero | tr '\\0' x", "--need", "command")
    project.configure(QUICK + 'keep_logs = "100 KiB"\n')
    project.run()
    second = project.add("echo short", "--need", "command")
    project.run()
    logs = {path.name for path in (project.root / ".agents" / "logs").iterdir()}
    assert f"{first}.g1.log" not in logs
    assert f"{second}.g1.log" in logs


def test_a_killed_attempt_is_gone_on_with_in_its_own_conversation(fleet_project: FleetProject, tmp_path: Path) -> None:
    project = fleet_project
    task = project.add(scripts(script("exit1-limit", resets_in=1), script("ok")))
    project.configure(QUICK)
    assert project.run("--max", "1").status == 0
    first, second = attempts(project, task)
    worker = json.loads(next((project.root / ".agents/runs/r1/workers/w2").glob("worker.json")).read_text())
    assert worker["session"] == first["session"] != ""
    assert second["outcome"] == "done"


def test_waiting_uses_no_attempt_and_little_time(fleet_project: FleetProject) -> None:
    project = fleet_project
    project.add(scripts(script("exit1-limit", resets_in=4), script("ok")))
    project.configure(QUICK)
    begun = time.monotonic()
    assert project.run("--max", "1").json["attempts"] == 2
    assert time.monotonic() - begun < 60


def test_a_limit_met_four_times_costs_nothing_and_done_needs_more_than_its_banner(fleet_project: FleetProject) -> None:
    project = fleet_project
    told = [script("exit1-limit", resets_in=0.2), script("exit0-limit", resets_in=0.2)] * 2
    task = project.add(scripts(*told, script("ok")))
    project.configure(QUICK + "attempts = 9\n[queue]\nmax_attempts = 1\n")

    assert project.run("--max", "1").status == 0
    found = attempts(project, task)
    assert [attempt["outcome"] for attempt in found] == ["limit"] * 4 + ["done"]
    assert not any(attempt["charged"] for attempt in found)
    assert "limit" not in found[-1]["result"]


def test_a_reset_that_moves_on_at_each_try_is_tried_by_one_worker_a_time_and_not_for_ever(
    fleet_project: FleetProject,
) -> None:
    project = fleet_project
    tasks = [project.add(script("exit1-limit", resets_in=0.2)) for _ in range(5)]
    project.configure(QUICK + "attempts = 100\n")

    answer = project.run("--max", "4")
    begun = starts(project)
    # at most four were on their way at the first limit; from then on one probe each time, until the gate stays shut
    assert STRIKES <= len(begun) <= STRIKES + 4
    assert all(project.show(task)["state"] == "inbox" for task in tasks), answer.err
    assert "until a new run tries again" in answer.err
    settled = [event["at"] for event in journal(project) if event["event"] == "finished"]
    later = [at for at, _ in begun[4:]]
    assert all(sum(begin < at <= until for at in later) <= 1 for begin, until in itertools.pairwise(sorted(settled)))


def test_another_kind_of_agent_does_not_wait_for_a_limit_that_is_not_its_own(fleet_project: FleetProject) -> None:
    project = fleet_project
    limited = project.add(
        scripts(script("exit1-limit", kind="seven_day", resets_in=12), script("ok")), "--priority", "1"
    )
    others = [project.add("part", "--provider", "other") for _ in range(2)]
    project.configure(QUICK + '[agents.other]\nargv = ["echo", "all is well"]\n')

    assert project.run("--max", "1").status == 0
    (limit, _) = attempts(project, limited)
    assert [project.show(task)["state"] for task in others] == ["done", "done"]
    for task in others:
        (attempt,) = attempts(project, task)
        assert attempt["exit"]["ended"] < limit["resets_at"]


def test_a_budget_of_tokens_holds_over_all_attempts_at_a_task(fleet_project: FleetProject) -> None:
    project = fleet_project
    task = project.add(script("failed"), "--budget", "tokens=5000")  # each attempt uses 2,125
    project.configure(QUICK + "attempts = 9\n[queue]\nmax_attempts = 9\n")
    project.run("--max", "1")

    found = attempts(project, task)
    assert project.show(task)["state"] == "failed"
    assert len(found) <= 4, "no attempt begins once the budget is used up, though nine are allowed"
    assert "tokens used, 5,000 allowed" in found[-1]["reason"]


def test_a_report_of_which_most_is_missing_says_so(fleet_project: FleetProject) -> None:
    project = fleet_project
    good = [project.add(script("ok"), "--priority", "1") for _ in range(4)]
    for _ in range(10):
        project.add(script("exit1-limit", resets_in=None))
    project.configure(QUICK + "attempts = 6\n")
    project.run("--max", "1")

    covered = project.cli("report", "r1").json["coverage"]
    assert (covered["asked"], covered["done"], covered["whole"]) == (14, 4, False)
    assert sum(covered["others"].values()) == 10, "what was never started is missing too"
    assert [project.show(task)["state"] for task in good] == ["done"] * 4
    assert "4 of 14 tasks done" in project.cli("report", "r1", "--format", "human").out


def test_a_worker_whose_program_is_replaced_ends_as_it_began_and_the_next_is_the_new_one(
    fleet_project: FleetProject, tmp_path: Path
) -> None:
    project = fleet_project
    old = project.program("agent-1", f"#!/bin/sh\ntouch {tmp_path}/began; sleep 1.5; echo seen by the old one\n")
    new = project.program("agent-2", "#!/bin/sh\necho seen by the new one\n")
    link = project.bin / "worker"
    link.symlink_to(old)
    first, second = (project.add("part", "--priority", priority) for priority in ("1", "2"))
    project.configure(QUICK + '[agents.mine]\nargv = ["worker"]\n[providers]\ndefault = "mine"\n')
    swap = project.add(
        f"while ! [ -e {tmp_path}/began ]; do sleep 0.05; done; ln -s {new} {link}.new && mv -T {link}.new {link} && echo ok",
        *("--need", "command", "--priority", "1"),
    )

    # two at a time: one worker and the command that replaces its program under it, then the other worker
    answer = project.run("--max", "2")
    assert answer.status == 0, answer.err
    found = {task: attempts(project, task) for task in (first, second, swap)}
    assert all(len(each) == 1 for each in found.values())
    assert "the old one" in found[first][0]["result"]
    assert "the new one" in found[second][0]["result"]


def test_a_task_that_its_worker_has_ended_is_over_whatever_the_process_does_then(fleet_project: FleetProject) -> None:
    project = fleet_project
    end = "fleet done $FLEET_TASK --result 'seen with my own eyes' && exit 1"
    task = project.add(end, "--need", "command")
    project.configure(QUICK)
    assert project.run().status == 0
    project.run()

    assert project.show(task)["state"] == "done"
    assert len(starts(project)) == 1, "it is never started again"
