"""The only place that opens a connection to a model: one pool of connections for all agents of a process.

The library is aiohttp; why it and no vendor's kit is in docs/decisions/0006-api-agents.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agent_fleet.agents.dialect import Dialect, Fault, Hearing, Request
from agent_fleet.agents.shortage import Shortage
from agent_fleet.agents.sse import Events
from agent_fleet.errors import SHORTAGES, FleetError

_CONNECT = 30.0  # seconds
_IDLE = 4.0  # seconds for which a connection is kept that nobody uses, and at most twice that
_MOST_OF_A_FAULT = 1 << 16  # bytes of an error's body that are read


class Wire:
    """Use it as an asynchronous context. `silence` is how many seconds a stream may say nothing.

    `shortage` waits where no connection can be opened for want of something here.
    """

    def __init__(self, dialect: Dialect, *, silence: float, shortage: Shortage | None = None) -> None:
        self.dialect = dialect
        self._silence = silence
        self._shortage = shortage or Shortage()
        self._session: Any = None
        self._proxies: dict[str, str | None] = {}

    async def __aenter__(self) -> Self:
        try:
            import aiohttp
        except ImportError:
            raise FleetError(
                "unusable",
                "agents over an API need the library aiohttp, which is not installed",
                hint="pip install 'agent-fleet[api]' where fleet is installed",
            ) from None
        self._session = aiohttp.ClientSession(
            # how many calls there may be is the throttle's business; an idle connection is a file that something else may need
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=self._silence),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def ask(self, request: Request, hearing: Hearing, watch: Callable[[int], None]) -> None:
        """Send a request and let the hearing hear the answer. Raises Fault.

        `watch` is told how many characters came; what it raises ends the call at once. No redirect is followed: the key
        goes to the address that was configured.
        """
        import aiohttp

        if request.url not in self._proxies:
            self._proxies[request.url] = proxy_for(request.url)
        try:
            async with await self._shortage.outlast("calls", partial(self._opened, request)) as answer:
                if answer.status != 200:
                    raise await self._fault(answer)
                events = Events()
                async for chunk in answer.content.iter_any():
                    written = 0
                    for event, data in events.feed(chunk):
                        written += hearing.feed(event, data)
                    watch(written)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, OSError) and error.errno in SHORTAGES:
                raise Fault("unable", f"no connection could be opened: {_why(error)}") from None
            late = isinstance(error, TimeoutError)
            why = "no answer in time" if late else f"the connection failed: {_why(error)}"
            raise Fault("overload", why, again=True, ending="timeout" if late else "broken") from None

    async def _opened(self, request: Request) -> Any:
        """The beginning of an answer. Only a connection can be wanting, so nothing was sent by what is tried again."""
        return await self._session.post(
            request.url,
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            proxy=self._proxies[request.url],
        )

    async def _fault(self, answer: Any) -> Fault:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        body = await answer.content.read(_MOST_OF_A_FAULT)
        return self.dialect.fault(answer.status, headers, body)


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address."""
    parts = urlsplit(url)
    if not parts.hostname or parts.hostname in ("127.0.0.1", "::1", "localhost") or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def _why(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200] or type(error).__name__
