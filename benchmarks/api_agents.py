"""Many agents over an API beside a bare asyncio loop over the same client library, against one local server, in turn.

    .venv/bin/python benchmarks/api_agents.py [AGENTS ...] [--rounds N]

Each agent works ROUNDS tasks of one call each: a task is claimed, asked, judged and put on record durably. The bare loop makes
the same calls and reads the same streams, and does nothing else. Each is a process of its own; its start is counted for both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from agent_fleet.queue import intake  # noqa: E402
from agent_fleet.queue.store import Queue  # noqa: E402
from agent_fleet.queue.task import Habits, task_body  # noqa: E402
from support.api_lab import KEY, MODEL, ApiServer, serving  # noqa: E402

DELAY = 2.0
TEXT = f"Look at the page and say what it is about.\nSLEEP {DELAY}\nWRITE 20"


class Cost(NamedTuple):
    """Of one process: seconds of wall time and of CPU, resident bytes at most."""

    wall: float
    cpu: float
    memory: int


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("agents", nargs="*", type=int, default=[100, 1000, 5000])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--bare", metavar="URL", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.bare:
        asyncio.run(bare(asked.bare, asked.agents[0], asked.rounds))
        return
    with serving() as server:
        for agents in asked.agents:
            compare(server, agents, asked.rounds)


def compare(server: ApiServer, agents: int, rounds: int) -> None:
    calls = agents * rounds
    words = [sys.executable, __file__, str(agents), "--rounds", str(rounds), "--bare", server.url]
    plain = measure(words, dict(os.environ), server, calls)
    with tempfile.TemporaryDirectory() as place:
        environ = prepare(Path(place), server, agents, calls)
        ours = measure([sys.executable, "-m", "agent_fleet.agents", "host"], environ, server, calls)
        done = sum(len(files) for _, _, files in os.walk(Path(place) / ".agents" / "done"))
    assert done == calls, f"{done} of {calls} done"
    print(
        f"{agents:5} agents, {calls:6} calls: wall {ours.wall:6.2f} s, bare {plain.wall:6.2f} s, ratio"
        f" {ours.wall / plain.wall:.3f}; CPU a call {1000 * ours.cpu / calls:.2f} ms, bare {1000 * plain.cpu / calls:.2f} ms,"
        f" ours alone {1000 * (ours.cpu - plain.cpu) / calls:.2f} ms; memory {ours.memory >> 20} MiB,"
        f" bare {plain.memory >> 20} MiB",
        flush=True,
    )


def prepare(place: Path, server: ApiServer, agents: int, calls: int) -> dict[str, str]:
    queue = Queue(str(place / ".agents"))
    queue.create()
    habits = Habits()
    intake.add(queue, [task_body({"target": TEXT}, habits) for _ in range(calls)])
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
        "FLEET_PROVIDER_ANTHROPIC_MODEL": MODEL,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": server.url,
    }


def measure(words: list[str], environ: dict[str, str], server: ApiServer, calls: int) -> Cost:
    before = server.calls
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(words, env=environ, stdout=output)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
        wall = time.monotonic() - began
        output.seek(0)
        assert status == 0, output.read()[-2000:]
    assert server.calls - before == calls, "a call was made twice, or not at all"
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


async def bare(url: str, agents: int, rounds: int) -> None:
    """The same calls with nothing around them."""
    import aiohttp

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    body = json.dumps(
        {"model": MODEL, "max_tokens": 8192, "stream": True, "messages": [{"role": "user", "content": TEXT}]}
    ).encode()
    headers = {"content-type": "application/json", "x-api-key": KEY}

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def agent() -> None:
            for _ in range(rounds):
                async with session.post(f"{url}/v1/messages", data=body, headers=headers) as answer:
                    async for line in answer.content:
                        if line.startswith(b"data: "):
                            json.loads(line[6:])

        await asyncio.gather(*(agent() for _ in range(agents)))


if __name__ == "__main__":
    main()
