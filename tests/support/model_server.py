"""A scripted model behind the Messages API (https://docs.anthropic.com/en/api/messages), on loopback, for tests.

The "model" is a brain: a function from a `Turn` (what the client sent) to a `Reply` or a `Fault`. Every reply carries
token counts that differ in every class and request, and the server remembers what it sent, so that a test can compare
a client's accounts.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Token counts by class, as the Messages API bills them."""

    input: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            input=self.input + other.input,
            cache_write=self.cache_write + other.cache_write,
            cache_read=self.cache_read + other.cache_read,
            output=self.output + other.output,
        )

    def wire(self) -> Json:
        return {
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.cache_write,
            "cache_read_input_tokens": self.cache_read,
            "output_tokens": self.output,
        }


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
    """One message of the model. `delay` is in seconds; `cut` drops the connection after the first block."""

    blocks: Sequence[Say | Call]
    tokens: Tokens | None = None
    delay: float = 0.0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer that is no message: a status, an error of a type, and headers."""

    status: int
    type: str = "api_error"
    message: str = "scripted fault"
    headers: Mapping[str, str] = field(default_factory=dict)


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


def bash(command: str, **more: Any) -> Reply:
    return Reply([Call("Bash", {"command": command, "description": "one step"})], **more)


def script(*steps: Reply | Fault) -> Brain:
    """A brain that answers its requests with these steps in order, and with the last one from then on."""
    left = list(steps)
    lock = threading.Lock()

    def brain(turn: Turn) -> Reply | Fault:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return brain


def exhausted(window: str, resets_at: int) -> Fault:
    """The answer to a subscription that has used up a window (`five_hour`, `seven_day`)."""
    short = {"five_hour": "5h", "seven_day": "7d"}[window]
    prefix = "anthropic-ratelimit-unified"
    headers = {
        f"{prefix}-status": "rejected",
        f"{prefix}-reset": str(resets_at),
        f"{prefix}-representative-claim": window,
        f"{prefix}-{short}-status": "rejected",
        f"{prefix}-{short}-reset": str(resets_at),
        f"{prefix}-{short}-utilization": "1.0",
        f"{prefix}-overage-status": "rejected",
        f"{prefix}-overage-disabled-reason": "org_level_disabled",
    }
    return Fault(429, "rate_limit_error", "This request would exceed your account's rate limit.", headers)


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content or "")


def read_turn(number: int, body: Json, headers: Mapping[str, str]) -> Turn:
    """Find the prompt and the results in a conversation. What the harness adds by itself is no prompt."""
    prompt, results = "", []
    for message in body.get("messages", []):
        if message.get("role") != "user":
            continue
        blocks = _blocks(message)
        said = [b["text"] for b in blocks if b.get("type") == "text" and not b["text"].startswith("<system-reminder>")]
        found = [_text(b.get("content")) for b in blocks if b.get("type") == "tool_result"]
        if found:
            results.extend(found)
        elif said:
            prompt, results = "\n".join(said), []
    return Turn(number, headers.get("x-claude-code-session-id", ""), body, headers, prompt, results)


class ModelServer:
    """Serves a brain on a free loopback port while it is entered; `url` is its base address."""

    def __init__(self, brain: Brain) -> None:
        self.brain = brain
        self.turns: list[Turn] = []
        self._sent: list[tuple[str, Tokens]] = []
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
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
            turn = read_turn(len(self.turns), body, headers)
            self.turns.append(turn)
        reply = self.brain(turn)
        if isinstance(reply, Fault):
            return reply, Tokens()
        n = turn.number
        tokens = reply.tokens or Tokens(input=101 + n, cache_write=11 + n, cache_read=1009 + 3 * n, output=17 + 2 * n)
        if not reply.cut:
            with self._lock:
                self._sent.append((turn.session, tokens))
        return reply, tokens


def _message(body: Json, reply: Reply, tokens: Tokens, number: str) -> Json:
    content: list[Json] = []
    for index, block in enumerate(reply.blocks):
        if isinstance(block, Say):
            content.append({"type": "text", "text": block.text})
        else:
            call = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": block.tool, "input": block.input}
            content.append(call)
    stop = "tool_use" if any(isinstance(b, Call) for b in reply.blocks) else "end_turn"
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": tokens.wire(),
    }


def _stream(message: Json) -> Iterator[tuple[str, Json]]:
    """The server-sent events of one message, in the order that the API documents."""
    start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield "message_start", {"message": start}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            yield "content_block_start", {"index": index, "content_block": {"type": "text", "text": ""}}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            yield "content_block_start", {"index": index, "content_block": {**block, "input": {}}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": delta, "usage": message["usage"]}
    yield "message_stop", {}


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing: a test's output is its own."""

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            if path != "/v1/messages":
                self._json(404, {"type": "error", "error": {"type": "not_found_error", "message": path}})
                return
            body = json.loads(raw)
            reply, tokens = server.answer(body, {k.lower(): v for k, v in self.headers.items()})
            if isinstance(reply, Fault):
                error = {"type": reply.type, "message": reply.message}
                self._json(reply.status, {"type": "error", "error": error}, reply.headers)
                return
            time.sleep(reply.delay)
            message = _message(body, reply, tokens, uuid.uuid4().hex)
            if body.get("stream"):
                self._events(message, cut=reply.cut)
            else:
                self._json(200, message)

        def do_GET(self) -> None:
            self._json(404, {"type": "error", "error": {"type": "not_found_error", "message": self.path}})

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def _json(self, status: int, payload: Json, headers: Mapping[str, str] | None = None) -> None:
            data = json.dumps(payload).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self._write(data)

        def _events(self, message: Json, *, cut: bool) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for name, event in _stream(message):
                data = f"event: {name}\ndata: {json.dumps({'type': name, **event})}\n\n".encode()
                self._write(b"%x\r\n%s\r\n" % (len(data), data))
                if cut and name == "content_block_delta":
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
