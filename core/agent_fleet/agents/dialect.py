"""How a model is spoken to, without a socket: what is asked, what is heard, and what went wrong, as values of every API.

A dialect turns a `Prompt` into a `Request`, and the events of an answer into what was `Said`. It is pure, so that one client
can serve all of them, and a provider of somebody else needs no client of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from agent_fleet.model import Usage

Stop = Literal["end", "tools", "length", "refused"]
FaultKind = Literal["limit", "overload", "auth", "unable", "refused", "failed"]
"""`unable` is a lack of our own, of which the server has heard nothing."""
Ending = Literal[
    "ok", "rate_limited", "overloaded", "server_error", "timeout", "broken", "refused", "auth", "cancelled"
]
"""How a call ended, for whoever paces calls; `cancelled` is one that we gave up ourselves, and says nothing of the server."""

_ENDINGS: dict[FaultKind, Ending] = {
    "limit": "rate_limited",
    "overload": "server_error",
    "auth": "auth",
    "unable": "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the model may call; `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that the model made. `arguments` is None if what it wrote is no JSON object."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One whole message of the model. `raw` is what its dialect needs to repeat it; `usage` is that of this request alone."""

    text: str
    calls: tuple[Call, ...] = ()
    stop: Stop = "end"
    usage: Usage = field(default_factory=Usage)
    id: str = ""
    raw: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a called tool gave back."""

    call: str
    text: str
    is_error: bool = False


Message = str | Said | tuple[Answer, ...]
"""What we told the model, what it said, or what its tools gave back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request: the conversation so far, the tools, and the most tokens that may come back."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    max_output: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What goes over the wire. `repr` shows no header: one of them is the key."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Fault(Exception):  # noqa: N818 - it is what the server answered, as much as an exception
    """An answer that is no message. `again` says whether the same request may succeed later; `after` is the wait in seconds
    that the server asked for. `ending` is the same for whoever paces calls, where the kind does not say it.
    """

    def __init__(
        self,
        kind: FaultKind,
        reason: str,
        *,
        again: bool = False,
        after: float | None = None,
        ending: Ending | None = None,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.again = again
        self.after = after
        self.ending: Ending = ending or _ENDINGS.get(kind, "refused")


class Hearing(Protocol):
    """Follows one streamed answer."""

    @property
    def usage(self) -> Usage:
        """What the server has reported of this request so far."""
        ...

    @property
    def text(self) -> str:
        """The text of the message so far."""
        ...

    def feed(self, event: str, data: str) -> int:
        """Take one event; returns how many characters the model has written in it. Raises Fault."""
        ...

    def said(self) -> Said:
        """The message. Raises Fault if it is not whole."""
        ...


class Dialect(Protocol):
    """One API, at one address, with one key."""

    @property
    def model(self) -> str:
        """The model of a task that wishes for none; empty: there is none."""
        ...

    @property
    def address(self) -> str:
        """Where it is spoken, without the path of single requests. What all processes share is kept by it."""
        ...

    def request(self, prompt: Prompt) -> Request: ...

    def hearing(self) -> Hearing: ...

    def fault(self, status: int, headers: Mapping[str, str], body: bytes) -> Fault:
        """What an answer that is no success means; header names are in lower case."""
        ...


@runtime_checkable
class Speaks(Protocol):
    """A provider whose model is spoken to over an API, by an agent of fleet's own. Optional."""

    def dialect(self, env: Mapping[str, str]) -> Dialect:
        """How to speak to it. Raises FleetError (`unusable`, `bad_config`) where there is no key, or a bad address."""
        ...
