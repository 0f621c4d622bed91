"""A bare asyncio loop over aiohttp, for `api_agents.py`: `bare_loop.py URL KEY AGENTS ROUNDS`, the body of a call on its input.

It reads the streams as the library's own examples do, and loads nothing that it does not need.
"""

import asyncio
import json
import resource
import sys

import aiohttp


async def main(url: str, key: str, agents: int, rounds: int) -> None:
    """So many agents, each of which makes so many calls one after another."""
    body = sys.stdin.buffer.read()
    headers = {"content-type": "application/json", "x-api-key": key}

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def agent() -> None:
            for _ in range(rounds):
                async with session.post(f"{url}/v1/messages", data=body, headers=headers) as answer:
                    async for line in answer.content:
                        if line.startswith(b"data: "):
                            json.loads(line[6:])

        await asyncio.gather(*(agent() for _ in range(agents)))


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
