"""The Messages API. (https://docs.anthropic.com/en/api/messages and …/messages-streaming, version 2023-06-01)"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agent_fleet.api import Answer, Call, Fault, Message, Prompt, Request, Said, Usage
from agent_fleet_providers._faults import fault, parsed

_CACHE: Final = {"type": "ephemeral"}
_STOPS: Final = {
    "tool_use": "tools",
    "max_tokens": "length",
    "refusal": "refused",
    "model_context_window_exceeded": "length",
}


class Messages:
    """One address and key of that API."""

    def __init__(self, url: str, key: str, model: str) -> None:
        self.model = model
        self.address = url
        self._url = f"{url}/v1/messages"
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": "2023-06-01",
            "x-api-key": key,
        }

    def request(self, prompt: Prompt) -> Request:
        """With tools the conversation comes again with every call: then all of it is to be cached."""
        body: dict[str, Any] = {
            "model": prompt.model,
            "max_tokens": prompt.max_output,
            "stream": True,
            "messages": [_message(each) for each in prompt.messages],
        }
        if prompt.system:
            body["system"] = [{"type": "text", "text": prompt.system}]
        if prompt.tools:
            body["tools"] = [
                {"name": each.name, "description": each.description, "input_schema": each.schema}
                for each in prompt.tools
            ]
            body["messages"][-1]["content"][-1]["cache_control"] = _CACHE
        return Request(url=self._url, headers=self._headers, body=json.dumps(body).encode())

    def hearing(self) -> _Hearing:
        return _Hearing()

    def fault(self, status: int, headers: Mapping[str, str], body: bytes) -> Fault:
        return fault(status, headers, body)


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, str):
        return {"role": "user", "content": [{"type": "text", "text": message}]}
    if isinstance(message, Said):
        return {"role": "assistant", "content": message.raw}
    return {"role": "user", "content": [_result(each) for each in message]}


def _result(answer: Answer) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "tool_result", "tool_use_id": answer.call, "content": answer.text}
    return told | {"is_error": True} if answer.is_error else told


class _Hearing:
    """Blocks grow by deltas; usage comes with the first event and, for the output, with the last but one."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._id = ""
        self._blocks: dict[int, dict[str, Any]] = {}
        self._parts: dict[int, list[str]] = {}
        self._stop = ""
        self._whole = False

    @property
    def text(self) -> str:
        return "".join("".join(self._parts[n]) for n, block in self._blocks.items() if block.get("type") == "text")

    def feed(self, event: str, data: str) -> int:
        told = parsed(data)
        kind = told.get("type") or event
        if kind == "content_block_delta":
            return self._delta(told)
        if kind == "content_block_start":
            index, block = told.get("index"), told.get("content_block")
            if isinstance(index, int) and isinstance(block, dict):
                self._blocks[index] = block
                self._parts[index] = [str(block.get("text") or "")] if block.get("type") == "text" else []
        elif kind == "message_start":
            message = told.get("message") if isinstance(told.get("message"), dict) else {}
            self._id = str(message.get("id") or "")
            self._count(message.get("usage"))
        elif kind == "message_delta":
            delta = told.get("delta")
            self._stop = str(delta.get("stop_reason") or "") if isinstance(delta, dict) else ""
            self._count(told.get("usage"))
        elif kind == "message_stop":
            self._whole = True
        elif kind == "error":
            raise fault(_status(told), {}, data.encode())
        return 0

    def said(self) -> Said:
        if not self._whole or not self._stop:
            raise Fault("overload", "the answer ended before it was whole", again=True, ending="broken")
        raw, calls = [], []
        for index, block in sorted(self._blocks.items()):
            text = "".join(self._parts[index])
            if block.get("type") == "tool_use":
                given = parsed(text or "{}", default=None)
                calls.append(Call(id=str(block.get("id")), name=str(block.get("name")), arguments=given))
                raw.append({**block, "input": given or {}})
            elif block.get("type") == "text":
                if text.strip():
                    raw.append({"type": "text", "text": text})
            else:
                raw.append(block)
        if not raw:
            raw = [{"type": "text", "text": "(no answer)"}]
        stop: Any = _STOPS.get(self._stop, "end")
        if stop == "tools" and not calls:
            stop = "end"
        return Said(
            text=self.text,
            calls=tuple(calls) if stop == "tools" else (),
            stop=stop,
            usage=self.usage,
            id=self._id,
            raw=raw,
        )

    def _delta(self, told: Mapping[str, Any]) -> int:
        index, delta = told.get("index"), told.get("delta")
        if index not in self._blocks or not isinstance(delta, dict):
            return 0
        block = self._blocks[index]
        for name in ("text", "partial_json"):
            if isinstance(part := delta.get(name), str):
                self._parts[index].append(part)
                return len(part)
        for name in ("thinking", "signature"):
            if isinstance(part := delta.get(name), str):
                block[name] = str(block.get(name) or "") + part
                return len(part) if name == "thinking" else 0
        return 0

    def _count(self, usage: object) -> None:
        """The counts are totals of the message; a later event may leave out those that do not change."""
        if not isinstance(usage, dict):
            return
        before = self.usage

        def count(name: str, known: int) -> int:
            value = usage.get(name)
            return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else known

        self.usage = Usage(
            input=count("input_tokens", before.input),
            cache_write=count("cache_creation_input_tokens", before.cache_write),
            cache_read=count("cache_read_input_tokens", before.cache_read),
            output=count("output_tokens", before.output),
        )


def _status(told: Mapping[str, Any]) -> int:
    """The status that an error in a stream would have had."""
    error = told.get("error")
    kind = error.get("type") if isinstance(error, dict) else ""
    return {
        "overloaded_error": 529,
        "rate_limit_error": 429,
        "authentication_error": 401,
        "permission_error": 403,
        "not_found_error": 404,
        "invalid_request_error": 400,
        "request_too_large": 413,
    }.get(str(kind), 500)
