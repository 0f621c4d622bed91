"""The chat completions API, as many servers speak it. (https://platform.openai.com/docs/api-reference/chat/streaming)"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agent_fleet.api import Call, Fault, Message, Prompt, Request, Said, Usage
from agent_fleet_providers._faults import fault, parsed

_STOPS: Final = {"length": "length", "content_filter": "refused"}
_OWN: Final = "https://api.openai.com/"


class Completions:
    """One address and key of that API."""

    def __init__(self, url: str, key: str, model: str) -> None:
        self.model = model
        self.address = url
        self._url = f"{url}/chat/completions"
        # the API's own servers refuse the old name for newer models, and others know the old one alone
        self._most = "max_completion_tokens" if self._url.startswith(_OWN) else "max_tokens"
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "authorization": f"Bearer {key}",
        }

    def request(self, prompt: Prompt) -> Request:
        messages = [{"role": "system", "content": prompt.system}] if prompt.system else []
        body: dict[str, Any] = {
            "model": prompt.model,
            self._most: prompt.max_output,
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [*messages, *(each for message in prompt.messages for each in _messages(message))],
        }
        if prompt.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": each.name, "description": each.description, "parameters": each.schema},
                }
                for each in prompt.tools
            ]
        return Request(url=self._url, headers=self._headers, body=json.dumps(body).encode())

    def hearing(self) -> _Hearing:
        return _Hearing()

    def fault(self, status: int, headers: Mapping[str, str], body: bytes) -> Fault:
        return fault(status, headers, body)


def _messages(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, str):
        return [{"role": "user", "content": message}]
    if isinstance(message, Said):
        return [message.raw]
    return [{"role": "tool", "tool_call_id": each.call, "content": each.text} for each in message]


class _Hearing:
    """Text and calls grow by deltas; the usage comes once, after the last of them."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._id = ""
        self._texts: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._stop = ""

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def feed(self, event: str, data: str) -> int:
        del event
        if data == "[DONE]":
            return 0
        told = parsed(data)
        if told.get("error"):
            raise fault(_status(told["error"]), {}, data.encode())
        self._id = str(told.get("id") or self._id)
        self._count(told.get("usage"))
        choices = told.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        self._stop = str(choice.get("finish_reason") or self._stop)
        delta = choice.get("delta")
        return self._delta(delta) if isinstance(delta, dict) else 0

    def said(self) -> Said:
        if not self._stop:
            raise Fault("overload", "the answer ended before it was whole", again=True, ending="broken")
        whole = [call for _, call in sorted(self._calls.items())] if self._stop not in _STOPS else []
        raw: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if whole:
            raw["tool_calls"] = [
                {
                    "id": each["id"],
                    "type": "function",
                    "function": {"name": each["name"], "arguments": each["arguments"]},
                }
                for each in whole
            ]
        elif not self.text:
            raw["content"] = "(no answer)"
        calls = tuple(
            Call(id=each["id"], name=each["name"], arguments=parsed(each["arguments"] or "{}", default=None))
            for each in whole
        )
        stop: Any = _STOPS.get(self._stop, "tools" if calls else "end")
        return Said(text=self.text, calls=calls, stop=stop, usage=self.usage, id=self._id, raw=raw)

    def _delta(self, delta: Mapping[str, Any]) -> int:
        written = 0
        text = delta.get("content")
        if isinstance(text, str):
            self._texts.append(text)
            written += len(text)
        for name in ("reasoning_content", "reasoning"):
            if isinstance(thought := delta.get(name), str):
                written += len(thought)
        for number, each in enumerate(delta.get("tool_calls") or ()):
            if isinstance(each, dict):
                written += self._part(each.get("index", number), each)
        return written

    def _part(self, index: object, told: Mapping[str, Any]) -> int:
        call = self._calls.setdefault(index if isinstance(index, int) else 0, {"id": "", "name": "", "arguments": ""})
        call["id"] = str(told.get("id") or call["id"])
        function = told.get("function")
        if not isinstance(function, dict):
            return 0
        call["name"] = str(function.get("name") or call["name"])
        part = str(function.get("arguments") or "")
        call["arguments"] += part
        return len(part)

    def _count(self, usage: object) -> None:
        """What was read from a cache is a part of the prompt there, and reasoning a part of the answer."""
        if not isinstance(usage, dict):
            return
        sent, back = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        cached = min(sent, _count(usage.get("prompt_tokens_details"), "cached_tokens"))
        thought = min(back, _count(usage.get("completion_tokens_details"), "reasoning_tokens"))
        self.usage = Usage(input=sent - cached, cache_read=cached, output=back - thought, reasoning=thought)


def _count(told: object, name: str) -> int:
    value = told.get(name) if isinstance(told, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _status(error: object) -> int:
    """The status that an error in a stream would have had."""
    told = error if isinstance(error, dict) else {}
    code, kind = told.get("code"), str(told.get("type") or "")
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return {"rate_limit_exceeded": 429, "invalid_api_key": 401}.get(str(code), 400 if "invalid" in kind else 500)
