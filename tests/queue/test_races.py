"""Many processes at one moment: every task has exactly one winner, every id is given once, nothing is lost."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

from agent_fleet.errors import FleetError
from agent_fleet.queue import finish, intake, lease
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import Habits, task_body
from agent_fleet.queue.verify import verify
from support.project import Project, enlist, fill, take
from support.racers import racers

RACERS, TASKS, ROUNDS = 8, 4, 200


def finish_done(queue: Queue, task: str, generation: int) -> None:
    finish.finish(queue, task, Proof(generation), "done", {"outcome": "done", "result": "ok", "charged": False})


def test_a_task_has_one_winner_however_many_race_for_it(queue: Queue) -> None:
    def claim_once(_index: int) -> str:
        mine = Queue(queue.dir)
        claimed = take(mine, enlist(mine, f"racer-{os.getpid()}"))
        mine.journal.close()
        return claimed.task if claimed else ""

    with racers(RACERS, claim_once) as all_of_them:
        for _ in range(ROUNDS):
            added = fill(queue, [f"task {number}" for number in range(TASKS)])
            won = [task for task in all_of_them.race() if task]
            assert sorted(won) == sorted(added)
            active = {task: generation for task, generation, *_ in queue.active()}
            assert sorted(active) == sorted(added)
            for task, generation in active.items():
                finish_done(queue, task, generation)
    report = verify(queue)
    assert report.faults == report.notes == []
    assert report.tasks == TASKS * ROUNDS


def test_thirty_adders_of_a_missing_queue_get_thirty_ids(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", home=tmp_path / "home")
    children = [project.start("add", f"task {number}", "--json", "--project", ".") for number in range(30)]
    ids = []
    for child in children:
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
        ids.append(out)
    assert len(set(ids)) == 30
    listed = project.json("list")["tasks"]
    assert sorted(task["target"] for task in listed) == sorted(f"task {number}" for number in range(30))
    report = project.json("verify")
    assert (report["tasks"], report["faults"], report["notes"]) == (30, [], [])


def test_batches_that_are_added_at_once_stay_whole(tmp_path: Path) -> None:
    directory = str(tmp_path / ".agents")

    def add_batch(index: int, count: int) -> list[str]:
        mine = Queue(directory)
        mine.create()
        bodies = [
            task_body({"target": f"{index}/{number}", "priority": 1 + number % 3}, Habits()) for number in range(count)
        ]
        ids = intake.add(mine, bodies)
        mine.journal.close()
        return ids

    with racers(RACERS, add_batch) as all_of_them:
        ids = [task for count in (1, 3, 100, 300, 7) for found in all_of_them.race(count) for task in found]
    assert len(ids) == len(set(ids)) == RACERS * 411
    queue = Queue(directory)
    targets = Counter(str((queue.body(path, task) or {})["target"]) for task, _, _, path in queue.waiting())
    assert sum(targets.values()) == RACERS * 411
    assert verify(queue).faults == []
    assert queue.listing("staging") == []


def test_a_storm_of_claims_resets_and_reports_loses_nothing(queue: Queue) -> None:
    fill(queue, [f"task {number}" for number in range(40)])

    def storm(index: int, seed: int) -> list[str]:
        rng = random.Random(seed * 100 + index)
        mine = Queue(queue.dir)
        holder = enlist(mine, f"racer-{index}")
        done = []
        for _ in range(30):
            claimed = take(mine, holder)
            held = mine.active()
            if held and rng.random() < 0.4:
                task, generation, key, gate, name = rng.choice(held)
                path = mine.path("active", name)
                lease.give_back(mine, task, generation, gate, path, event="returned", why="storm", owner=key)
            if claimed is None:
                continue
            try:
                if rng.random() < 0.3:
                    record = {"outcome": "blocked", "reason": "?", "charged": False}
                    finish.finish(mine, claimed.task, Proof(claimed.generation), "blocked", record)
                    finish.reopen(mine, claimed.task, event="unblocked", why="storm", states=("blocked",))
                elif rng.random() < 0.3:
                    finish_done(mine, claimed.task, claimed.generation)
                    done.append(claimed.task)
            except FleetError as error:
                assert error.code in ("lease_lost", "busy", "wrong_state"), error
        mine.journal.close()
        return done

    with racers(RACERS, storm) as all_of_them:
        done = [task for seed in range(4) for found in all_of_them.race(seed) for task in found]
    assert len(done) == len(set(done))
    report = verify(queue)
    assert report.faults == []
    assert report.tasks == 40
    assert sorted(task for task, _, _ in queue.settled("done")) == sorted(done)


def test_two_reports_of_one_lease_leave_one_outcome_that_agrees_with_the_state(queue: Queue) -> None:
    ends = ("done", "blocked", "failed")

    def report(index: int, task: str, generation: int) -> str:
        mine = Queue(queue.dir)
        state = ends[index % 3]
        try:
            finish.finish(mine, task, Proof(generation), state, {"outcome": state, "reason": str(index), "result": "x"})
        except FleetError as error:
            assert error.code in ("lease_lost", "not_active")
            return ""
        finally:
            mine.journal.close()
        return state

    with racers(6, report) as all_of_them:
        for _ in range(60):
            (task,) = fill(queue, ["something"])
            claimed = take(queue, enlist(queue))
            assert claimed
            (state,) = [each for each in all_of_them.race(task, claimed.generation) if each]
            assert queue.require(task).state == state
    assert verify(queue).faults == []
