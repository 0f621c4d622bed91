"""Tools of agents: MCP servers that a work order names, shared by all agents of a process.

A server is started once, by whoever first needs it, and ends with the host. Nothing is passed through a shell.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from agent_fleet.agents.dialect import Answer, Call, Tool
from agent_fleet.agents.loop import Kit, NoTools
from agent_fleet.errors import FleetError

_LONGEST = 100_000  # characters of a tool's answer that a model is shown
_START = 60.0  # seconds that a server has to answer for the first time
_CALL = 300.0  # seconds that one call may take
_VARIABLE = re.compile(r"\$\{(\w+)\}")

Server = Mapping[str, Any]


class Servers:
    """The MCP servers of one process, by what their configuration says. `environ` fills `${NAME}` in it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._running: dict[str, asyncio.Task[_Session]] = {}
        self._holders: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()

    async def kit(self, servers: Mapping[str, Server]) -> Kit:
        """The tools of these servers, named `mcp__SERVER__TOOL`. Raises FleetError for one that cannot be reached."""
        if not servers:
            return NoTools()
        sessions = {name: await self._session(name, server) for name, server in servers.items()}
        return _Remote(sessions)

    async def close(self) -> None:
        """End them all."""
        self._over.set()
        for holder in self._holders:
            with suppress(Exception):
                await holder

    async def _session(self, name: str, server: Server) -> _Session:
        key = json.dumps(server, sort_keys=True)
        if key not in self._running:
            self._running[key] = asyncio.create_task(self._start(name, server))
        try:
            return await asyncio.shield(self._running[key])
        except FleetError:
            self._running.pop(key, None)
            raise

    async def _start(self, name: str, server: Server) -> _Session:
        found: asyncio.Future[_Session] = asyncio.get_running_loop().create_future()
        holder = asyncio.create_task(self._hold(name, server, found))
        self._holders.append(holder)
        try:
            return await asyncio.wait_for(asyncio.shield(found), _START)
        except TimeoutError:
            holder.cancel()
            raise _unreachable(name, "it does not answer") from None

    async def _hold(self, name: str, server: Server, found: asyncio.Future[_Session]) -> None:
        """Keep one connection from its beginning to its end in one task, as its library wants it."""
        try:
            async with _client(server, self._environ) as client:
                listed = await client.list_tools()
                tools = [
                    Tool(name=each.name, description=each.description or "", schema=each.input_schema)
                    for each in listed.tools
                ]
                found.set_result(_Session(client, tuple(tools)))
                await self._over.wait()
        except FleetError as error:
            _fail(found, error)
        except Exception as error:  # noqa: BLE001 - whatever a server of somebody else makes the library raise
            _fail(found, _unreachable(name, str(error).split("\n", 1)[0][:200] or type(error).__name__))


class _Session(NamedTuple):
    client: Any
    tools: tuple[Tool, ...]


class _Remote:
    """The tools of some servers."""

    def __init__(self, sessions: Mapping[str, _Session]) -> None:
        self._where: dict[str, tuple[Any, str]] = {}
        tools = []
        for server, session in sessions.items():
            for each in session.tools:
                name = f"mcp__{server}__{each.name}"
                self._where[name] = session.client, each.name
                tools.append(Tool(name=name, description=each.description, schema=each.schema))
        self.tools = tuple(tools)

    async def call(self, call: Call) -> Answer:
        if call.name not in self._where or call.arguments is None:
            return _unknown(call)
        client, name = self._where[call.name]
        try:
            result = await client.call_tool(name, dict(call.arguments), read_timeout_seconds=_CALL)
        except Exception as error:  # noqa: BLE001 - a fault of a tool is an answer for the model
            return Answer(call=call.id, text=f"the tool failed: {error}"[:1000], is_error=True)
        texts = [getattr(part, "text", "") or f"[{getattr(part, 'type', 'data')}]" for part in result.content]
        return Answer(call=call.id, text=shown("\n".join(texts)), is_error=bool(result.is_error))


def shown(text: str) -> str:
    """A tool's answer as a model is shown it; of a long one the beginning."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}\n[cut here: {len(text) - _LONGEST:,} more characters]"


def _client(server: Server, environ: Mapping[str, str]) -> Any:
    try:
        from mcp import Client, StdioServerParameters
    except ImportError:
        raise FleetError(
            "unusable",
            "tools of MCP servers need the MCP library, which is not installed",
            hint="pip install 'agent-fleet[api,mcp]' where fleet is installed",
        ) from None
    url = server.get("url")
    if isinstance(url, str) and not server.get("headers"):
        return Client(filled(url, environ))
    if isinstance(url, str):
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        headers = {str(name): filled(str(value), environ) for name, value in server["headers"].items()}
        return Client(streamable_http_client(filled(url, environ), http_client=httpx2.AsyncClient(headers=headers)))
    command = server.get("command")
    if not isinstance(command, str) or not command:
        raise FleetError("bad_input", "a tool server has neither a command nor an address", hint="give it one of them")
    marks = {name: environ[name] for name in ("PATH", "FLEET_RUN", "FLEET_WORKER") if name in environ}
    own = {str(name): filled(str(value), environ) for name, value in (server.get("env") or {}).items()}
    arguments = [filled(str(each), environ) for each in server.get("args") or ()]
    return Client(StdioServerParameters(command=command, args=arguments, env={**marks, **own}, cwd=os.getcwd()))


def filled(text: str, environ: Mapping[str, str]) -> str:
    """The text with every `${NAME}` replaced by that variable. Raises FleetError for one that is not set."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in environ:
            raise FleetError("bad_input", f"a tool server needs the variable {found[1]}", hint="set it, then run again")
        return environ[found[1]]

    return _VARIABLE.sub(value, text)


def _unknown(call: Call) -> Answer:
    why = "its arguments are no JSON object" if call.arguments is None else "there is no such tool"
    return Answer(call=call.id, text=f"{call.name}: {why}", is_error=True)


def _unreachable(name: str, why: str) -> FleetError:
    return FleetError("unavailable", f"the tool server {name} cannot be used: {why}", hint="try its command by hand")


def _fail(found: asyncio.Future[_Session], error: FleetError) -> None:
    if not found.done():
        found.set_exception(error)
