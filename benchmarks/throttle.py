"""What the throttle costs a call, beside a bare `asyncio.Semaphore` of the same size, in one run.

    .venv/bin/python benchmarks/throttle.py [AGENTS [CALLS]]

Every agent makes its calls one after another; a call is a sleep of 20 ms, so all that is counted is the waiting in line and the
accounting. The same work is then done by four processes that share one limit. CPU is that of the process, user and system.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

from agent_fleet.throttle.front import Throttle
from agent_fleet.throttle.shared import Shared
from agent_fleet.throttle.terms import Terms

CALL = 0.02
LIMIT = 200
PROCESSES = 4


async def bare(agents: int, calls: int) -> None:
    places = asyncio.Semaphore(LIMIT)

    async def call() -> None:
        async with places:
            await asyncio.sleep(CALL)

    await crowd(agents, calls, call)


async def throttled(agents: int, calls: int, state: str) -> None:
    throttle = Throttle(Shared(state, "account", "endpoint", "model"), Terms(calls=LIMIT))

    async def call() -> None:
        async with throttle.call() as made:
            await asyncio.sleep(CALL)
            made.answered()

    await crowd(agents, calls, call)
    throttle.close()


async def crowd(agents: int, calls: int, call: Callable[[], Awaitable[None]]) -> None:
    async def agent() -> None:
        for _ in range(calls):
            await call()

    await asyncio.gather(*(agent() for _ in range(agents)))


def measured(name: str, agents: int, calls: int, work: Callable[[], object], who: int) -> float:
    """Milliseconds of CPU a call."""
    wall, spent = time.perf_counter(), cpu(who)
    work()
    wall, spent = time.perf_counter() - wall, cpu(who) - spent
    each = spent / (agents * calls) * 1000
    print(f"{name:34} {agents * calls:7} calls  wall {wall:6.2f} s  CPU {each:7.4f} ms a call", flush=True)
    return each


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def together(agents: int, calls: int, state: str, kind: str) -> None:
    command = [sys.executable, __file__, str(agents // PROCESSES), str(calls), state, kind]
    workers = [subprocess.Popen(command) for _ in range(PROCESSES)]
    assert [worker.wait() for worker in workers] == [0] * PROCESSES


def main(agents: int, calls: int) -> None:
    with tempfile.TemporaryDirectory() as state:
        own, children = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
        base = measured("semaphore, 1 process", agents, calls, lambda: asyncio.run(bare(agents, calls)), own)
        one = measured("throttle, 1 process", agents, calls, lambda: asyncio.run(throttled(agents, calls, state)), own)
        print(f"{'':34} the throttle adds {one - base:.4f} ms a call")
        four = f", {PROCESSES} processes (starts included)"
        base = measured("semaphore" + four, agents, calls, lambda: together(agents, calls, state, "bare"), children)
        many = measured("throttle" + four, agents, calls, lambda: together(agents, calls, state, "throttled"), children)
        print(f"{'':34} the throttle adds {many - base:.4f} ms a call")


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:3]]
    if sys.argv[3:]:
        asyncio.run(bare(*numbers) if sys.argv[4] == "bare" else throttled(numbers[0], numbers[1], sys.argv[3]))
    else:
        main(*(numbers + [1000, 100][len(numbers) :]))
