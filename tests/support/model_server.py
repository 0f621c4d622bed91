"""A scripted model behind the Messages API (https://docs.anthropic.com/en/api/messages), on loopback, for tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from support.scripted import Brain, Call, Fault, Json, Reply, Say, ScriptedServer, Tokens, Turn, say, script

__all__ = (
    "Brain",
    "Call",
    "Fault",
    "ModelServer",
    "Reply",
    "Say",
    "Tokens",
    "Turn",
    "bash",
    "exhausted",
    "say",
    "script",
)


def bash(command: str, **more: Any) -> Reply:
    return Reply([Call("Bash", {"command": command, "description": "one step"})], **more)


def exhausted(window: str, resets_at: int) -> Fault:
    """The answer to a subscription that has used up a window (`five_hour`, `seven_day`, or that of a model: `seven_day_opus`)."""
    prefix = "anthropic-ratelimit-unified"
    headers = {
        f"{prefix}-status": "rejected",
        f"{prefix}-reset": str(resets_at),
        f"{prefix}-representative-claim": window,
        f"{prefix}-overage-status": "rejected",
        f"{prefix}-overage-disabled-reason": "org_level_disabled",
    }
    for name, short in (("five_hour", "5h"), ("seven_day", "7d")):
        headers |= {
            f"{prefix}-{short}-status": "rejected" if name == window else "allowed",
            f"{prefix}-{short}-reset": str(resets_at),
            f"{prefix}-{short}-utilization": "1.0" if name == window else "0.3",
        }
    return Fault(429, "rate_limit_error", "This request would exceed your account's rate limit.", headers)


class ModelServer(ScriptedServer):
    """A server of that API."""

    def __init__(self, brain: Brain) -> None:
        super().__init__(brain, Messages())


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content or "")


class Messages:
    """Requests and streams of the Messages API."""

    path = "/v1/messages"

    def turn(self, number: int, body: Json, headers: Mapping[str, str]) -> Turn:
        """Find the prompt and the results in a conversation. What the harness adds by itself is no prompt."""
        prompt, results = "", []
        for message in body.get("messages", []):
            if message.get("role") != "user":
                continue
            blocks = _blocks(message)
            said = [
                b["text"] for b in blocks if b.get("type") == "text" and not b["text"].startswith("<system-reminder>")
            ]
            found = [_text(b.get("content")) for b in blocks if b.get("type") == "tool_result"]
            if found:
                results.extend(found)
            elif said:
                prompt, results = "\n".join(said), []
        return Turn(number, headers.get("x-claude-code-session-id", ""), body, headers, prompt, results)

    def tokens(self, number: int) -> Tokens:
        return Tokens(input=101 + number, cache_write=11 + number, cache_read=1009 + 3 * number, output=17 + 2 * number)

    def message(self, body: Json, reply: Reply, tokens: Tokens, number: str) -> Json:
        content: list[Json] = []
        for index, block in enumerate(reply.blocks):
            if isinstance(block, Say):
                content.append({"type": "text", "text": block.text})
            else:
                call = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": block.tool, "input": block.input}
                content.append(call)
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "scripted"),
            "content": content,
            "stop_reason": "tool_use" if any(isinstance(b, Call) for b in reply.blocks) else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": tokens.input,
                "cache_creation_input_tokens": tokens.cache_write,
                "cache_read_input_tokens": tokens.cache_read,
                "output_tokens": tokens.output,
            },
        }

    def stream(self, message: Json) -> Iterator[tuple[str, Json]]:
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

    def cut_after(self) -> str:
        return "content_block_delta"

    def broken(self, body: Json, fault: Fault, number: str) -> Iterator[tuple[str, Json]]:
        yield "message_start", {"message": self.message(body, Reply([]), Tokens(), number)}
        yield "error", {"error": self.refusal(fault)["error"]}

    def refusal(self, fault: Fault) -> Json:
        return {"type": "error", "error": {"type": fault.type, "message": fault.message, **fault.more}}
