"""A process that makes calls under a shared throttle, and a server that counts them. Run as a program by tests.

    throttled.py STATE PORT AGENTS CALLS TERMS-AS-JSON [ATTEMPTS-DIRECTORY MOST]

Each agent makes its calls one after another; a refused one is tried again until the run has no attempts left.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from typing import Any

from agent_fleet.errors import FleetError
from agent_fleet.throttle.attempts import Attempts
from agent_fleet.throttle.front import Throttle
from agent_fleet.throttle.shared import Shared
from agent_fleet.throttle.terms import Terms


@dataclass
class Server:
    """A server of one-line requests on the loopback, which keeps when each call `began` by its permit.

    `answer` is sent after `delay` seconds; `hint` is a Retry-After.
    """

    answer: int = 200
    delay: float = 0.0
    hint: float = 0.0
    began: list[float] = field(default_factory=list)
    flying: int = 0
    most: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _serving: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()
        serving = [task for task in self._serving if task]
        for task in serving:
            task.cancel()
        await asyncio.wait(serving) if serving else None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._serving.add(task)
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # a client that was killed, or the end of the test
        finally:
            writer.close()
            self._serving.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.began.append(float(await reader.readline()))
        self.flying += 1
        self.most = max(self.most, self.flying)
        await asyncio.sleep(self.delay)
        self.flying -= 1
        writer.write(f"{self.answer} {self.hint}\n".encode())
        await writer.drain()


async def ask(port: int, began: float) -> tuple[int, float]:
    """One request, which says when its permit was given: its status and how long to wait."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{began!r}\n".encode())
    status, hint = (await reader.readline()).split()
    writer.close()
    return int(status), float(hint)


async def call(throttle: Throttle, port: int) -> bool:
    """One call under the throttle; whether it was answered well."""
    async with throttle.call() as made:
        status, hint = await ask(port, made.permit.began)
        made.answered()
        if status == 429:
            made.ending, made.retry_after = "rate_limited", hint
        elif status != 200:
            made.ending = "server_error"
    return status == 200


async def agent(throttle: Throttle, port: int, calls: int) -> int:
    done = 0
    while done < calls:
        try:
            done += await call(throttle, port)
        except FleetError as error:
            assert error.code == "refused"
            break
    return done


async def work(state: str, port: int, agents: int, calls: int, terms: dict[str, Any], *cap: str) -> None:
    attempts = Attempts(cap[0], int(cap[1])) if cap else None
    throttle = Throttle(Shared(state, "a", "e", "m"), Terms(**terms), attempts)
    done = await asyncio.gather(*(agent(throttle, port, calls) for _ in range(agents)))
    throttle.close()
    print(sum(done))


if __name__ == "__main__":
    asyncio.run(
        work(
            sys.argv[1],
            int(sys.argv[2]),
            int(sys.argv[3]),
            int(sys.argv[4]),
            *map(json.loads, sys.argv[5:6]),
            *sys.argv[6:],
        )
    )
