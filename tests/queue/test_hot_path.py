"""What a claim costs: which modules it loads, and how many calls it makes, however long the queue is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.queue.store import Queue
from support.project import Project, enlist, fill, new_queue, take

HEAVY = {
    "pluggy",
    "psutil",
    "importlib_metadata",
    "importlib.metadata",
    "tomllib",
    "tomli_w",
    "asyncio",
    "subprocess",
    "rich",
    "toon_format",
    "dataclasses",
    "logging",
    "pathlib",
    "shutil",
    "tempfile",
    "agent_fleet.model",
    "agent_fleet.plugins",
    "agent_fleet.api",
    "agent_fleet.queue.intake",
    "agent_fleet.queue.task",
    "agent_fleet.run",
}
CLAIM = """
import collections, json, sys
calls = collections.Counter()
def count(event, args):
    if event in ("open", "os.listdir", "os.scandir", "os.rename", "os.mkdir", "os.rmdir", "os.utime", "os.remove"):
        if not args or ".agents" in str(args[0]):
            calls[event] += 1
from agent_fleet import cli
sys.addaudithook(count)
status = cli.run(sys.argv[1:])
calls = dict(calls)
sys.stderr.write(json.dumps({"status": status, "calls": calls, "modules": sorted(sys.modules)}))
"""


def watch_claim(root: Path, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Claim in a fresh interpreter; returns its answer, and what it called and loaded."""
    project = Project(root, home=root / "home")
    done = subprocess.run(
        [sys.executable, "-c", CLAIM, "claim", "worker", "--json", *options],
        cwd=root,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout), json.loads(done.stderr)


def test_a_claim_loads_nothing_heavy_and_no_plugin(project: Project) -> None:
    project.add("something")
    answer, seen = watch_claim(project.root)
    assert answer["id"] == "t1"
    loaded = set(seen["modules"])
    assert loaded & HEAVY == set()
    assert {name for name in loaded if name.startswith("agent_fleet_")} == set()


def test_a_claim_makes_as_many_calls_on_a_long_queue_as_on_a_short_one(tmp_path: Path) -> None:
    made = {}
    for number in (100, 20_000):
        root = tmp_path / str(number)
        queue = new_queue(root / ".agents")
        fill(queue, [f"task {each}" for each in range(number)])
        answer, seen = watch_claim(root)
        assert answer["id"] == "t1"
        made[number] = sum(seen["calls"].values())
    assert made[100] > 5
    assert made[20_000] <= made[100] + 3


def test_thousands_of_tasks_of_a_busy_host_cost_one_look_a_bucket(tmp_path: Path) -> None:
    root = tmp_path / "project"
    queue = new_queue(root / ".agents")
    busy = [{"target": f"https://busy.example/{number}", "need": "browser"} for number in range(5_000)]
    fill(queue, [*busy, {"target": "https://free.example/", "need": "browser"}, "no host at all"])
    first = take(queue, enlist(queue))
    assert first
    assert first.gate == "busy.example"
    queue.journal.close()
    answer, seen = watch_claim(root)
    assert answer["task"]["target"] == "https://free.example/"
    assert seen["calls"]["os.listdir"] <= 5_000 // 256 + 15
    assert seen["calls"]["open"] <= 15
    answer, _ = watch_claim(root)
    assert answer["task"]["target"] == "no host at all"
    answer, seen = watch_claim_in_vain(root)
    assert answer["code"] == "nothing_to_claim"
    assert any("busy.example allows 1" in detail for detail in answer["details"])


def watch_claim_in_vain(root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    answer, seen = watch_claim(root)
    assert seen["status"] == 3
    return answer, seen


@pytest.mark.parametrize(
    ("waiting", "hold"),
    [
        (
            [{"target": f"w{n}", "touches": [f"src/{n}.py"]} for n in range(2_000)],
            {"target": "all of it", "writes": True},
        ),
        ([{"target": f"n{n}", "needs": ["t1"]} for n in range(2_000)], {"target": "what they need"}),
    ],
    ids=["a writer of everything", "a need"],
)
def test_what_waits_for_one_task_is_passed_over_without_being_read(
    tmp_path: Path, waiting: list[dict[str, Any]], hold: dict[str, Any]
) -> None:
    root = tmp_path / "project"
    queue = new_queue(root / ".agents")
    fill(queue, [{**hold, "priority": 1}])
    fill(queue, [*waiting, "free"])
    assert take(queue, enlist(queue))
    queue.journal.close()
    answer, seen = watch_claim(root)
    assert answer["task"]["target"] == "free"
    assert seen["calls"]["open"] <= 20
    assert seen["calls"]["os.listdir"] <= 40


def test_the_number_of_workers_hardly_counts(queue: Queue) -> None:
    """A claim looks at every owner once, and reads no record of one that is plainly alive."""
    fill(queue, [f"task {number}" for number in range(40)])
    children = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(8)]
    try:
        from agent_fleet import identity

        for child in children:
            for _ in range(4):
                assert take(queue, enlist(queue, "worker", identity.identity_of(child.pid)))
        queue.journal.close()
        _, seen = watch_claim(Path(queue.dir).parent)
    finally:
        for child in children:
            child.communicate(b"\n")
    assert seen["calls"]["open"] <= 15


def test_the_counter_sees_the_calls_it_counts(tmp_path: Path) -> None:
    """The bounds above mean something only if the hook really counts."""
    calls: Counter[str] = Counter()
    code = CLAIM.replace("cli.run(sys.argv[1:])", "[__import__('os').listdir(sys.argv[1]), 0][1]")
    place = tmp_path / ".agents"
    os.mkdir(place)
    done = subprocess.run([sys.executable, "-c", code, str(place)], capture_output=True, text=True, check=True)
    calls.update(json.loads(done.stderr)["calls"])
    assert calls["os.listdir"] == 1
