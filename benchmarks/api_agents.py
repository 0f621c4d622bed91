"""Many agents over an API beside a bare asyncio loop over the same client library, against one local server, in turn.

    .venv/bin/python benchmarks/api_agents.py [AGENTS ...] [--rounds N]

Each agent works ROUNDS tasks of one call each: a task is claimed, asked, judged and put on record durably. The bare loop makes
the same calls, with the same texts, and reads the same streams, and does nothing else. Each is a process of its own, with a server
of its own; its start is counted for both. They are run in turn, REPEAT times; of each the quickest counts.

What a run has written is removed after the last one: an ext4 without a journal makes a file many times slower for a minute after
thousands were removed, which a run would pay for the one before it.

A call takes two seconds, and longer where so many agents cannot all be started in that time: "at once" is how many calls the
server saw in flight. What the server itself needs for a call is told too: where that is more than the agents need, it is the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BARE = Path(__file__).with_name("bare_loop.py")
sys.path.insert(0, str(ROOT / "tests"))

from agent_fleet.agents.work import SYSTEM, plain_prompt  # noqa: E402
from agent_fleet.queue import intake  # noqa: E402
from agent_fleet.queue.store import Queue  # noqa: E402
from agent_fleet.queue.task import Habits, task_body  # noqa: E402
from support.api_lab import KEY, MODEL, ApiServer, serving  # noqa: E402

START = 0.002  # seconds that are left for the start of one agent


class Cost(NamedTuple):
    """Of one process: seconds of wall time and of CPU, resident bytes at most; calls at once and seconds of CPU of its server."""

    wall: float
    cpu: float
    memory: int
    peak: int
    server: float


def text(agents: int) -> str:
    return f"Look at the page and say what it is about.\nSLEEP {max(2.0, agents * START)}\nWRITE 20"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("agents", nargs="*", type=int, default=[100, 1000, 5000])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--repeat", type=int, default=3)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for agents in asked.agents:
            compare(agents, asked.rounds, asked.repeat, Path(place))


def compare(agents: int, rounds: int, repeat: int, place: Path) -> None:
    calls = agents * rounds
    runs = [(run_ours(agents, rounds, place), run_bare(agents, rounds)) for _ in range(repeat)]
    ours, plain = (Cost(*map(min, zip(*costs, strict=True))) for costs in zip(*runs, strict=True))
    print(
        f"{agents:5} agents, {calls:6} calls, at once {ours.peak} (bare {plain.peak}): wall {ours.wall:6.2f} s, bare"
        f" {plain.wall:6.2f} s, ratio {ours.wall / plain.wall:.3f}; CPU a call {1000 * ours.cpu / calls:.2f} ms, bare"
        f" {1000 * plain.cpu / calls:.2f} ms, ours alone {1000 * (ours.cpu - plain.cpu) / calls:.2f} ms, the server"
        f" {1000 * ours.server / calls:.2f} ms; memory {ours.memory >> 20} MiB, bare {plain.memory >> 20} MiB; load"
        f" {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def run_bare(agents: int, rounds: int) -> Cost:
    with serving() as server:
        words = [sys.executable, str(BARE), server.url, KEY, str(agents), str(rounds)]
        return measure(words, dict(os.environ), server, agents * rounds, body(agents))


def body(agents: int) -> bytes:
    """What our agents send."""
    prompt, _ = plain_prompt({"target": text(agents)}, (), ())
    message = {"role": "user", "content": prompt}
    asked = {"model": MODEL, "max_tokens": 4096, "stream": True, "system": SYSTEM, "messages": [message]}
    return json.dumps(asked).encode()


def run_ours(agents: int, rounds: int, places: Path) -> Cost:
    """One run in a project of its own below `places`, which stays there until all is measured."""
    calls = agents * rounds
    place = Path(tempfile.mkdtemp(dir=places))
    with serving() as server:
        environ = prepare(place, server, agents, calls)
        cost = measure([sys.executable, "-m", "agent_fleet.agents", "host"], environ, server, calls)
    done = sum(len(files) for _, _, files in os.walk(place / ".agents" / "done"))
    assert done == calls, f"{done} of {calls} done"
    return cost


def prepare(place: Path, server: ApiServer, agents: int, calls: int) -> dict[str, str]:
    queue = Queue(str(place / ".agents"))
    queue.create()
    habits = Habits()
    intake.add(queue, [task_body({"target": text(agents)}, habits) for _ in range(calls)])
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "AGENT_ROOT": str(place),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "FLEET_PROVIDER": "anthropic",
        "FLEET_LANE": "api",
        "FLEET_SHARE": "agent/-/-",
        "FLEET_API_CALLS": str(agents),
        "FLEET_API_SEATS": str(agents),
        "FLEET_THROTTLE_CALLS": str(agents),
        "FLEET_THROTTLE_LATENCY": "60",  # the answers take long on purpose, and a limit that is cut for it measures nothing
        "FLEET_PROVIDER_ANTHROPIC_MODEL": MODEL,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": server.url,
    }


def measure(words: list[str], environ: dict[str, str], server: ApiServer, calls: int, given: bytes = b"") -> Cost:
    began = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as source:
        source.write(given)
        source.seek(0)
        child = subprocess.Popen(words, env=environ, stdin=source, stdout=output)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
        wall = time.monotonic() - began
        output.seek(0)
        assert status == 0, output.read()[-2000:]
    told = server.count()
    assert sum(told["calls"].values()) == calls, "a call was made twice, or not at all"
    memory = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Cost(wall, used.ru_utime + used.ru_stime, memory, told["peak"], told["cpu"])


if __name__ == "__main__":
    main()
