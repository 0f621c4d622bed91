"""Processes killed at any moment: nothing is lost, nothing is done twice, and what was promised is there."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from multiprocessing.context import ForkProcess as Process
from pathlib import Path

import pytest

from agent_fleet.errors import FleetError
from agent_fleet.queue import finish, lease, records
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue
from agent_fleet.queue.verify import verify
from support.project import Project, enlist, fill, new_queue, take
from support.racers import FORK

CLAIMERS, TASKS, KILLS = 64, 10_000, 1_000
ENOUGH = 45_000  # bytes of the log: some eight thousand finished tasks
DEADLINE = 220.0


def work(directory: str, log: str, niceness: int = 0) -> None:
    """Claim and finish until nothing is left; say so outside only after the queue has taken the report."""
    if niceness:
        os.nice(niceness)
    queue = Queue(directory)
    holder = enlist(queue, f"claimer-{os.getpid()}")
    done = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    empty = 0
    rounds = 0
    while empty < 3:
        rounds += 1
        if os.path.exists(log + ".hold") and os.fstat(done).st_size > ENOUGH:
            time.sleep(0.05)  # the kills are slower than the claims: leave them something to be killed at
            continue
        if rounds % 20 == 1:
            lease.reclaim(queue, lapse=3600)
        claimed = take(queue, holder)
        if claimed is None:
            empty += 1
            time.sleep(0.05)
            continue
        empty = 0
        try:
            record = {"outcome": "done", "result": str(os.getpid()), "charged": False}
            finish.finish(queue, claimed.task, Proof(claimed.generation), "done", record)
        except FleetError as error:
            if error.code == "lease_lost":
                continue
            raise
        os.write(done, f"{claimed.task}\n".encode())


@pytest.mark.slow
def test_a_thousand_kills_among_64_claimers_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    queue = new_queue(tmp_path / ".agents")
    tasks = fill(queue, [f"task {number}" for number in range(TASKS)])
    queue.journal.close()
    log = tmp_path / "done.log"
    rng = random.Random(11)

    def start() -> Process:
        child = FORK.Process(target=work, args=(queue.dir, str(log), 10))  # so that whoever kills gets its turn
        child.start()
        return child

    hold = tmp_path / "done.log.hold"
    hold.touch()
    running = [start() for _ in range(CLAIMERS)]
    killed = 0
    end = time.monotonic() + DEADLINE
    while killed < KILLS:
        assert time.monotonic() < end, f"only {killed} kills in time"
        time.sleep(rng.random() * 0.02)
        victims = rng.sample(range(CLAIMERS), 20)
        for index in victims:
            running[index].kill()
            killed += 1
        for index in victims:
            running[index].join()
            running[index].close()
            running[index] = start()
    hold.unlink()
    assert any(queue.waiting()), "the queue was empty before all the kills: they showed nothing"
    for child in running:
        child.join(max(1.0, end - time.monotonic()))
        assert child.exitcode == 0
        child.close()
    lease.reclaim(queue, lapse=3600)
    work(queue.dir, str(log))

    done = {task: generation for task, generation, _ in queue.settled("done")}
    assert sorted(done) == sorted(tasks)
    assert queue.active() == []
    assert list(queue.waiting()) == []
    said = Counter(log.read_text().split())
    assert [task for task, times in said.items() if times > 1] == []
    assert set(said) <= set(tasks)
    for task, generation in done.items():
        record = records.outcome(queue, task, generation)
        assert record, task
        assert record["state"] == "done"
    report = verify(queue)
    assert report.faults == []
    assert report.tasks == TASKS


@pytest.mark.slow
def test_what_add_acknowledged_is_there_and_what_it_did_not_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", home=tmp_path / "home")
    project.json("init", ".")
    rng = random.Random(5)
    promised: set[str] = set()
    began = time.monotonic()
    project.add("how long one takes")
    usual = time.monotonic() - began
    for number in range(100):
        size = rng.choice((1, 5, 70, 600))
        text = "\n".join(f"{number}/{each}" for each in range(size))
        child = project.start("add-batch", "-", "--json", stdin=subprocess.PIPE)
        assert child.stdin
        try:
            child.stdin.write(text.encode())
            child.stdin.close()
        except BrokenPipeError:
            pass
        child.stdin = None
        time.sleep(usual * rng.uniform(0.3, 1.4))
        child.send_signal(signal.SIGKILL)
        out, _ = child.communicate()
        if child.returncode == 0 or out.endswith(b"}\n"):
            promised |= set(text.split("\n"))
    project.json("status")
    listed = Counter(task["target"] for task in project.json("list", "--all")["tasks"])
    assert [target for target, times in listed.items() if times > 1] == []
    assert promised <= set(listed)
    sizes = Counter(target.partition("/")[0] for target in listed if "/" in target)
    assert set(sizes.values()) <= {1, 5, 70, 600}
    assert os.listdir(project.dir / "staging") == []
    assert project.json("verify")["faults"] == []
    assert len(promised) > 0, "no batch was ever acknowledged: the kills came too early to show anything"
    assert len(sizes) < 100, "every batch got in: the kills came too late to show anything"


@pytest.mark.parametrize("committed", [True, False])
def test_a_batch_whose_adder_died_is_finished_if_it_was_committed_and_dropped_if_not(
    project: Project, committed: bool
) -> None:
    """The two moments that a kill rarely hits, made by hand: just before and just after the commitment."""
    die = "rename" if committed else "sync_directory"
    code = (
        "import os, signal, sys\n"
        "from agent_fleet.queue import intake, files\n"
        "from agent_fleet.queue.store import Queue\n"
        "from agent_fleet.queue.task import Habits, task_body\n"
        "def die(*a): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"intake._move_in = die if {committed} else intake._move_in\n"
        f"intake._stage = intake._stage if {committed} else (lambda *a, stage=intake._stage: (stage(*a), die()))\n"
        f"intake.add(Queue({str(project.dir)!r}), [task_body({{'target': str(n)}}, Habits()) for n in range(300)])\n"
    )
    died = subprocess.run([sys.executable, "-c", code], env=project.environment(), check=False)
    assert died.returncode == -signal.SIGKILL, die
    assert len(os.listdir(project.dir / "staging")) == 1
    claimed = project.fleet("claim", "w", "--json")
    assert claimed.status == (0 if committed else 3)
    assert len(project.json("list", "--all")["tasks"]) == (300 if committed else 0)
    assert os.listdir(project.dir / "staging") == []
    assert project.json("verify")["faults"] == []


@pytest.mark.parametrize("moment", ["record", "rename"])
def test_a_worker_killed_while_it_reports_leaves_a_task_that_is_done_once(project: Project, moment: str) -> None:
    task = project.add("something")
    code = (
        "import os, signal, json\n"
        "from agent_fleet import identity\n"
        "from agent_fleet.queue import finish, lease, records\n"
        "from agent_fleet.queue.claim import Claim, Rules\n"
        "from agent_fleet.queue.store import Queue\n"
        f"queue = Queue({str(project.dir)!r})\n"
        "holder = lease.enlist(queue, identity.identity_of(), agent='A', lane='')\n"
        "claimed = Claim(queue, holder, Rules(lambda host: 1, {})).take()\n"
        "def die(*a, **k): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"if {moment == 'record'}:\n    Queue.move = die\n"
        "else:\n    Queue.tell_all = die\n"
        "finish.finish(queue, claimed.task, finish.Proof(1), 'done', {'outcome': 'done', 'result': 'seen'})\n"
    )
    died = subprocess.run([sys.executable, "-c", code], env=project.environment(), check=False)
    assert died.returncode == -signal.SIGKILL
    project.json("status")
    assert project.state(task) == "done"
    assert project.json("claim", "B", status=3)["code"] == "nothing_to_claim"
    assert json.loads((project.dir / "records" / "0000000" / f"{task}.g1.json").read_text())["result"] == "seen"
    assert project.json("verify")["faults"] == []
