"""The part of a scripted model that is the same behind every API: what is said, what it costs, and the server around it.

The "model" is a brain: a function from a `Turn` (what the client sent) to a `Reply` or a `Fault`. Every reply carries
token counts that differ in every class and request, and the server remembers what it sent, so that a test can compare
a client's accounts. How requests are read and replies written is the `Dialect` of an API.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol, Self

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Token counts, no token in two classes."""

    input: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Tokens)})


@dataclass(frozen=True, slots=True)
class Say:
    """A block of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool that the client offered."""

    tool: str
    input: Json


@dataclass(frozen=True, slots=True)
class Reply:
    """One message of the model. `delay` is in seconds; `cut` drops the connection before the message is complete."""

    blocks: Sequence[Say | Call]
    tokens: Tokens | None = None
    delay: float = 0.0
    cut: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer that is no message: a status, an error of a type, headers, and more fields of the error.

    Status 200 is a stream that begins well and then reports the error.
    """

    status: int
    type: str = "api_error"
    message: str = "scripted fault"
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one request asks: the last thing the person said, and the tool results that came since."""

    number: int
    session: str
    body: Json
    headers: Mapping[str, str]
    prompt: str
    results: Sequence[str]


Brain = Callable[[Turn], "Reply | Fault"]


def say(text: str, **more: Any) -> Reply:
    return Reply([Say(text)], **more)


def script(*steps: Reply | Fault) -> Brain:
    """A brain that answers its requests with these steps in order, and with the last one from then on."""
    left = list(steps)
    lock = threading.Lock()

    def brain(turn: Turn) -> Reply | Fault:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return brain


class Dialect(Protocol):
    """How one API is spoken."""

    @property
    def path(self) -> str:
        """Where messages are asked for."""
        ...

    def turn(self, number: int, body: Json, headers: Mapping[str, str]) -> Turn:
        """What a request asks."""
        ...

    def tokens(self, number: int) -> Tokens:
        """The counts of a reply that names none."""
        ...

    def message(self, body: Json, reply: Reply, tokens: Tokens, number: str) -> Json:
        """The whole message."""
        ...

    def stream(self, message: Json) -> Iterator[tuple[str, Json]]:
        """The server-sent events of one message."""
        ...

    def cut_after(self) -> str:
        """The event after which a cut reply ends."""
        ...

    def broken(self, body: Json, fault: Fault, number: str) -> Iterator[tuple[str, Json]]:
        """The server-sent events of a message that fails on the way."""
        ...

    def refusal(self, fault: Fault) -> Json:
        """The body of an answer that is no message."""
        ...


class ScriptedServer:
    """Serves a brain on a free loopback port while it is entered; `url` is its base address, `pages` what a GET finds."""

    def __init__(self, brain: Brain, dialect: Dialect) -> None:
        self.brain = brain
        self.turns: list[Turn] = []
        self.pages: dict[str, Json] = {}
        self._dialect = dialect
        self._sent: list[tuple[str, Tokens]] = []
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, dialect))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def sent(self, session: str = "") -> Tokens:
        """All tokens sent to one session, or to all of them."""
        with self._lock:
            return sum((t for s, t in self._sent if session in ("", s)), Tokens())

    def answer(self, body: Json, headers: Mapping[str, str]) -> tuple[Reply | Fault, Tokens]:
        with self._lock:
            turn = self._dialect.turn(len(self.turns), body, headers)
            self.turns.append(turn)
        reply = self.brain(turn)
        if isinstance(reply, Fault):
            return reply, Tokens()
        tokens = reply.tokens or self._dialect.tokens(turn.number)
        if not reply.cut:
            with self._lock:
                self._sent.append((turn.session, tokens))
        return reply, tokens


def _handler(server: ScriptedServer, dialect: Dialect) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing: a test's output is its own."""

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.path.partition("?")[0] != dialect.path:
                self._nothing_here()
                return
            body = json.loads(raw)
            reply, tokens = server.answer(body, {k.lower(): v for k, v in self.headers.items()})
            number = uuid.uuid4().hex
            if isinstance(reply, Fault):
                if reply.status == 200:
                    self._events(dialect.broken(body, reply, number))
                else:
                    self._json(reply.status, dialect.refusal(reply), reply.headers)
                return
            time.sleep(reply.delay)
            message = dialect.message(body, reply, tokens, number)
            if body.get("stream"):
                cut_after = dialect.cut_after() if reply.cut else ""
                self._events(dialect.stream(message), cut_after=cut_after, headers=reply.headers)
            else:
                self._json(200, message)

        def do_GET(self) -> None:
            page = server.pages.get(self.path.partition("?")[0])
            if page is None:
                self._nothing_here()
            else:
                self._json(200, page)

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def _nothing_here(self) -> None:
            self._json(404, dialect.refusal(Fault(404, "not_found_error", self.path)))

        def _json(self, status: int, payload: Json, headers: Mapping[str, str] | None = None) -> None:
            data = json.dumps(payload).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self._write(data)

        def _events(
            self,
            events: Iterator[tuple[str, Json]],
            *,
            cut_after: str = "",
            headers: Mapping[str, str] | None = None,
        ) -> None:
            self.send_response(200)
            for name, value in {"content-type": "text/event-stream", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for name, event in events:
                data = f"event: {name}\ndata: {json.dumps({'type': name, **event})}\n\n".encode()
                self._write(b"%x\r\n%s\r\n" % (len(data), data))
                if name == cut_after:
                    self.close_connection = True
                    return
            self._write(b"0\r\n\r\n")

        def _write(self, data: bytes) -> None:
            try:
                self.wfile.write(data)
                self.wfile.flush()
            except OSError:  # the client went away: what a killed worker does
                self.close_connection = True

    return Handler
