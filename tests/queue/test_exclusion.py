"""What may not run at once never does, and what waits never hides what could run."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from agent_fleet.queue import finish, names
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue
from agent_fleet.queue.touches import overlap
from agent_fleet.queue.verify import verify
from support.project import Project, enlist, fill, take
from support.racers import racers

WORKERS = 8


def work_all(queue: Queue, log: Path, *, host_max: int = 1) -> None:
    """Let several processes work the queue empty; each writes down when it began and ended, while it holds the lease."""

    def work(index: int) -> int:
        rng = random.Random(index)
        mine = Queue(queue.dir)
        holder = enlist(mine, f"worker-{index}")
        done = 0
        idle = 0
        with log.open("ab", buffering=0) as file:
            while idle < 300:
                claimed = take(mine, holder, host_max=host_max)
                if claimed is None:
                    idle += 1
                    if sum(1 for _ in mine.waiting()) == 0:
                        break
                    continue
                idle = 0
                file.write(json.dumps(["begin", claimed.task]).encode() + b"\n")
                for _ in range(rng.randrange(3)):
                    mine.active()
                file.write(json.dumps(["end", claimed.task]).encode() + b"\n")
                record = {"outcome": "done", "result": "ok", "charged": False}
                finish.finish(mine, claimed.task, Proof(claimed.generation), "done", record)
                done += 1
        return done

    with racers(WORKERS, work) as all_of_them:
        all_of_them.race()


def most_at_once(log: Path, kind: dict[str, str]) -> dict[str, int]:
    """The most tasks of each kind that were held at one moment, by the order of lines that their holders wrote."""
    now: dict[str, int] = {}
    most: dict[str, int] = {}
    for line in log.read_text().splitlines():
        what, task = json.loads(line)
        of = kind[task]
        now[of] = now.get(of, 0) + (1 if what == "begin" else -1)
        most[of] = max(most.get(of, 0), now[of])
    return most


def test_two_tasks_of_one_host_are_never_held_at_once(queue: Queue, tmp_path: Path) -> None:
    hosts = [f"host{number % 3}.example" for number in range(120)]
    tasks = fill(queue, [{"target": f"https://{host}/{number}"} for number, host in enumerate(hosts)])
    work_all(queue, tmp_path / "log")
    assert len(list(queue.settled("done"))) == 120
    most = most_at_once(tmp_path / "log", dict(zip(tasks, hosts, strict=True)))
    assert most == dict.fromkeys(set(hosts), 1)
    assert verify(queue).faults == []


def test_a_host_that_allows_two_gets_two_and_never_three(queue: Queue, tmp_path: Path) -> None:
    tasks = fill(queue, [f"https://wide.example/{number}" for number in range(100)])
    holder = enlist(queue)
    first, second, third = (take(queue, holder, host_max=2) for _ in range(3))
    assert first
    assert second
    assert third is None
    for each in (first, second):
        finish.hand_back(queue, each.task, Proof(each.generation), "only looked")
    work_all(queue, tmp_path / "log", host_max=2)
    assert most_at_once(tmp_path / "log", dict.fromkeys(tasks, "wide"))["wide"] <= 2
    assert len(list(queue.settled("done"))) == 100


def test_overlapping_touches_are_never_held_at_once_and_a_writer_of_anything_is_alone(
    queue: Queue, tmp_path: Path
) -> None:
    rng = random.Random(7)
    choices = ["src", "src/a.py", "src/*.py", "docs", "docs/**", "**/x.md", "tests/[ab].py", "lib/{a,b}"]
    fields: list[dict[str, Any]] = [
        {"target": f"task {n}", "touches": rng.sample(choices, rng.randint(1, 2))} for n in range(80)
    ]
    fields += [{"target": f"writer {n}", "writes": True} for n in range(10)]
    tasks = fill(queue, fields)
    touched = {task: (queue.body(path, task) or {})["touches"] for task, _, _, path in queue.waiting()}
    assert all(touched[task] == ["**"] for task in tasks[80:])
    work_all(queue, tmp_path / "log")
    held: list[str] = []
    for line in (tmp_path / "log").read_text().splitlines():
        what, task = json.loads(line)
        if what == "end":
            held.remove(task)
            continue
        clash = [other for other in held if overlap(touched[task], touched[other])]
        assert not clash, (task, touched[task], [touched[other] for other in clash])
        held.append(task)
    assert len(list(queue.settled("done"))) == 90


def test_the_first_priority_goes_first_and_within_one_the_oldest(queue: Queue) -> None:
    rng = random.Random(3)
    priorities = [rng.randint(1, 9) for _ in range(600)]
    tasks = fill(
        queue, [{"target": "x", "priority": each, "need": rng.choice(("agent", "command"))} for each in priorities]
    )
    expected = [
        task for _, task in sorted(zip(priorities, tasks, strict=True), key=lambda pair: (pair[0], int(pair[1][1:])))
    ]
    holder = enlist(queue)
    got = []
    while (claimed := take(queue, holder)) is not None:
        got.append(claimed.task)
    assert got == expected


def test_a_busy_host_does_not_hide_a_free_one(queue: Queue) -> None:
    fill(queue, [f"https://busy.example/{number}" for number in range(600)])
    (free,) = fill(queue, ["https://free.example/"])
    holder = enlist(queue)
    assert take(queue, holder)
    second = take(queue, holder)
    assert second
    assert second.task == free
    assert take(queue, holder) is None


def test_a_task_waits_for_what_it_needs_to_be_done_and_for_nothing_less(queue: Queue) -> None:
    first, second, third = fill(
        queue,
        [
            {"target": "1", "ref": "a"},
            {"target": "2", "needs": ["a"], "ref": "b"},
            {"target": "3", "needs": ["a", "b"]},
        ],
    )
    holder = enlist(queue)
    claimed = take(queue, holder)
    assert claimed
    assert claimed.task == first
    assert take(queue, holder) is None
    finish.finish(queue, first, Proof(1), "failed", {"outcome": "failed", "reason": "x", "charged": True})
    assert take(queue, holder) is None
    finish.reopen(queue, first, event="reset", why="again", states=("failed",))
    again = take(queue, holder)
    assert again
    finish.finish(queue, first, Proof(again.generation), "done", {"outcome": "done", "result": "x"})
    for expected in (second, third):
        claimed = take(queue, holder)
        assert claimed
        assert claimed.task == expected
        assert take(queue, holder) is None
        finish.finish(queue, expected, Proof(1), "done", {"outcome": "done", "result": "x"})
    assert verify(queue).faults == []


def test_a_chain_of_needs_runs_in_its_order_however_it_was_written(queue: Queue) -> None:
    chain = [{"target": str(n), "ref": f"r{n}", "needs": [f"r{n + 1}"] if n < 299 else []} for n in range(300)]
    tasks = fill(queue, chain)
    holder = enlist(queue)
    for task in reversed(tasks):
        claimed = take(queue, holder)
        assert claimed
        assert claimed.task == task
        finish.finish(queue, task, Proof(1), "done", {"outcome": "done", "result": "x"})
    assert verify(queue).faults == []


def test_a_hold_keeps_its_task_and_no_other(project: Project) -> None:
    first, second = project.add("one"), project.add("two")
    (project.dir / "holds.json").write_text(
        json.dumps({first: {"why": "limit reached", "until": 4e9, "source": "test"}})
    )
    assert project.json("claim", "w")["id"] == second
    refused = project.json("claim", "w", status=3)
    assert any("limit reached" in detail for detail in refused["details"])
    (project.dir / "holds.json").write_text(json.dumps({first: {"why": "limit reached", "until": 1.0}}))
    assert project.json("claim", "w")["id"] == first


def test_a_lane_and_a_provider_get_only_what_is_theirs(project: Project) -> None:
    wish = {
        name: project.add(name, *options)
        for name, *options in (("a", "--lane", "serial"), ("b", "--provider", "codex"))
    }
    for name, *options in (("c", "--need", "command"), ("d", "--lane", "tmux")):
        wish[name] = project.add(name, *options)
    assert project.json("claim", "w", "--provider", "claude", "--lane", "tmux")["id"] == wish["d"]
    assert project.json("claim", "w", "--lane", "command")["id"] == wish["c"]
    assert project.json("claim", "w", "--lane", "command", status=3)["code"] == "nothing_to_claim"
    assert project.json("claim", "w", "--provider", "codex", "--lane", "agent")["id"] == wish["b"]
    assert project.json("claim", "w", "--lane", "serial")["id"] == wish["a"]


def test_a_gate_in_a_directory_is_only_a_hint_and_the_body_decides(queue: Queue) -> None:
    """Two tasks of one host that stand at other gates are still not given out together."""
    tasks = fill(queue, ["https://one.example/a", "https://one.example/b"])
    for task, generation, _, path in list(queue.waiting()):
        body = queue.body(path, task)
        assert body
        queue.move(path, queue.inbox_path(body, generation, names.FREE))
    holder = enlist(queue)
    first = take(queue, holder)
    assert first
    assert first.task == tasks[0]
    assert take(queue, holder) is None


def test_a_finished_host_is_free_for_the_next(queue: Queue) -> None:
    fill(queue, ["https://one.example/a", "https://one.example/b"])
    holder = enlist(queue)
    for _ in range(2):
        claimed = take(queue, holder)
        assert claimed
        finish.finish(queue, claimed.task, Proof(1), "done", {"outcome": "done", "result": "x"})
