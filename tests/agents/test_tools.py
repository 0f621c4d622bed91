"""Agents with the tools of a real MCP server: started once for all of them, and ended with them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.agents.allowance import Allowance
from agent_fleet.agents.dialect import Call
from agent_fleet.agents.loop import Agent, End, Kit, Means
from agent_fleet.agents.till import Till
from agent_fleet.agents.tools import Servers, filled
from agent_fleet.agents.wire import Wire
from agent_fleet.budget import Limits
from agent_fleet.config import load
from agent_fleet.errors import FleetError
from agent_fleet.plugins import PROVIDERS, Plugins
from agent_fleet.prices import packaged
from agent_fleet.queue.store import Queue
from agent_fleet.run.stakes import Stakes
from support.api_lab import MODEL, ApiServer, serving
from support.permits import Plain

SERVER = """
import os, sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("pages")
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
@server.tool()
def title(page: str) -> str:
    "The title of a page."
    return f"{page} is about {os.environ['SUBJECT']}"
server.run()
"""


@pytest.fixture(scope="module")
def model() -> Iterator[ApiServer]:
    with serving() as found:
        yield found


@pytest.fixture
def servers(tmp_path: Path) -> dict[str, Any]:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    pids = str(tmp_path / "pids")
    return {"pages": {"command": sys.executable, "args": [str(script), pids], "env": {"SUBJECT": "${WHAT}"}}}


def means(wire: Wire) -> Means:
    till = Till(Stakes(Queue("/nowhere"), packaged(), Limits(), "r1"), packaged(), {"owner": "", "run": "r1"})
    return Means(wire, Plain(50), till.of(""), backoff=0.05)


def speak(url: str, name: str) -> Any:
    provider = Plugins(load("/", queue_dir="", environ={}), third_party=False).get(PROVIDERS, name)
    assert hasattr(provider, "dialect")
    return provider.dialect(
        {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": url}
    )


async def work(
    url: str, name: str, given: Mapping[str, Any], prompt: str, agents: int = 1, turns: int | None = None
) -> list[End]:
    servers = Servers({**os.environ, "WHAT": "bees"})
    try:
        async with Wire(speak(url, name), silence=30) as wire:
            shared = means(wire)

            async def one() -> End:
                kit = await servers.kit(given)
                return await Agent(shared, Allowance(None, turns), model=MODEL, system="", kit=kit).work(prompt)

            return await asyncio.gather(*(one() for _ in range(agents)))
    finally:
        await servers.close()


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_five_agents_use_one_server(tmp_path: Path, model: ApiServer, servers: dict[str, Any], provider: str) -> None:
    prompt = 'TOOL mcp__pages__title {"page": "honey.html"}'
    ends = asyncio.run(work(model.url, provider, servers, prompt, agents=5))
    assert [(end.kind, end.text) for end in ends] == [("done", "the tool said honey.html is about bees")] * 5
    assert [end.usage.turns for end in ends] == [2] * 5
    (pid,) = (tmp_path / "pids").read_text().split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_tool_that_is_not_there_is_told_to_the_model(model: ApiServer, servers: dict[str, Any]) -> None:
    (end,) = asyncio.run(work(model.url, "anthropic", servers, "TOOL mcp__pages__delete {}"))
    assert end.text == "the tool said mcp__pages__delete: there is no such tool"


def test_turns_are_bounded(model: ApiServer, servers: dict[str, Any]) -> None:
    (end,) = asyncio.run(work(model.url, "anthropic", servers, "TOOL mcp__pages__title {}", turns=1))
    assert (end.kind, end.reason) == ("suspended", "1 turns used, 1 allowed")


@pytest.mark.parametrize(
    "server", [{"command": "/no/such/program"}, {"command": "/bin/false"}, {}, {"command": "x", "args": ["${NO_SUCH}"]}]
)
def test_a_server_that_cannot_be_used_is_a_fault_of_the_task(server: dict[str, Any]) -> None:
    async def kit() -> Kit:
        servers = Servers({"PATH": os.environ["PATH"]})
        try:
            return await servers.kit({"broken": server})
        finally:
            await servers.close()

    with pytest.raises(FleetError):
        asyncio.run(kit())


def test_variables_are_filled_in_and_no_others() -> None:
    assert filled("a ${X} $X ${X", {"X": "${Y}"}) == "a ${Y} $X ${X"
    assert json.dumps(Call(id="", name="", arguments=None).arguments) == "null"
