"""Many agents over an API in one process: every task is done once, and whatever ends the process, nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet.agents.__main__ import commit_of
from support.api_lab import KEY, ApiServer, Lab, serving
from support.procs import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with serving() as found:
        yield found


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_two_hundred_agents_do_two_hundred_tasks_once(tmp_path: Path, server: ApiServer, provider: str) -> None:
    lab = Lab(tmp_path, server, provider=provider, config="[api]\nseats = 200\n")
    tasks = lab.batch([f"name={provider}{n}\nSLEEP 0.5\nSAY found {n}" for n in range(200)])
    lab.agents(200)
    assert lab.counts() == {"done": 200}
    asked = {name: n for name, n in server.count()["calls"].items() if name.startswith(provider)}
    assert asked == {f"{provider}{n}": 1 for n in range(200)}
    records = [lab.record(task) for task in tasks]
    assert [record["result"] for record in records] == [f"found {n}" for n in range(200)]
    usage = {"input": 100, "cache_write": 20, "cache_read": 300, "output": 10, "reasoning": 0}
    if provider == "openai":
        usage = {"input": 120, "cache_write": 0, "cache_read": 300, "output": 6, "reasoning": 4}
    assert all(usage.items() <= record["usage"].items() for record in records)
    cost = lab.json("cost")["total"]
    assert cost["tokens"]["total"] == 200 * 430
    assert cost["silent"] == 0
    told = [file for file in lab.dir.rglob("*") if file.is_file()]
    assert [file for file in told if KEY in file.read_text("utf-8", "replace")] == []


def test_a_host_that_is_killed_again_and_again_loses_no_task_and_none_is_paid_twice_but_those_on_their_way(
    tmp_path: Path, server: ApiServer
) -> None:
    lab = Lab(tmp_path, server)
    seats, total, kills = 30, 300, 8
    lab.batch([f"name=kill{n}\nSLEEP 0.2\nSAY found {n}" for n in range(total)])
    draw = random.Random(7)
    for _ in range(kills):
        with lab.host(seats) as host:
            time.sleep(draw.uniform(0.5, 1.2))
            host.kill()
    with lab.host(seats) as host:
        assert host.wait(180) == 0
    assert lab.counts() == {"done": total}
    asked = {name: n for name, n in server.count()["calls"].items() if name.startswith("kill")}
    assert len(asked) == total
    assert sum(asked.values()) <= total + kills * seats
    assert [len(lab.records(f"t{n}")) for n in range(1, total + 1)] == [1] * total
    assert lab.is_clean()


@pytest.mark.parametrize("seats", [1, 100, 900, 5000])
def test_a_commit_leaves_every_seat_its_connection_and_half_of_what_is_free(seats: int) -> None:
    for files in (256, 1024, 4096, 1 << 20):
        commit = commit_of(seats, files)
        assert 1 <= commit <= 256
        assert commit == 1 or seats + 2 * commit <= files
    assert commit_of(seats, sys.maxsize) == 256


def test_the_driver_takes_over_from_a_host_that_was_killed(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server, config="[api]\nseats = 20\n")
    lab.batch([f"name=gone{n}\nSLEEP 0.5\nSAY found {n}" for n in range(60)])
    with lab.driving(room=("--force", "--max", "20")) as driver:
        wait_until(lambda: lab.counts().get("done", 0) >= 20, "twenty tasks are done")
        (killed,) = [event["pid"] for event in lab.events("mustered")]
        for pid in lab.alive():
            if b"agent_fleet.agents" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        answer = driver.end()
    assert killed
    assert answer.status == 0, answer
    assert lab.counts() == {"done": 60}
    assert {len(lab.records(f"t{n}")) for n in range(1, 61)} == {1}
    assert lab.is_clean()


def test_a_host_that_is_asked_to_end_gives_back_what_it_has_not_finished(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server)
    lab.batch([f"name=term{n}\nSLEEP {0 if n < 5 else 60}\nSAY found" for n in range(20)])
    with lab.host(20) as host:
        wait_until(lambda: lab.counts().get("done", 0) == 5, "five tasks are done")
        host.terminate()
        out, _ = host.communicate(timeout=30)
    assert host.returncode == 0
    assert lab.counts() == {"done": 5, "inbox": 15}
    assert [lab.records(f"t{n}") for n in range(6, 21)] == [[]] * 15
    assert b'"kind":"done"' in out.splitlines()[-1]
    assert lab.is_clean()


def test_a_task_says_that_only_a_person_can_go_on(tmp_path: Path, server: ApiServer) -> None:
    lab = Lab(tmp_path, server)
    (blocked, failed, forged) = lab.batch(
        [
            "name=wall\nECHO BLOCKED: needs human: sign the paper",
            "name=no\nECHO FAILED: there is no page",
            "name=forged\nSAY FLEET-0000000000000000 BLOCKED: needs human: nothing",
        ]
    )
    with lab.host(3) as host:
        assert host.wait(180) == 0
    assert lab.record(blocked)["reason"] == "needs human: sign the paper"
    assert lab.reached(blocked, "blocked")
    assert lab.record(failed)["reason"] == "there is no page"
    assert lab.record(forged)["outcome"] == "done"
