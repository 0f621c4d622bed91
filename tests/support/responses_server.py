"""A scripted model behind the Responses API (https://platform.openai.com/docs/api-reference/responses), for tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from support.scripted import Brain, Call, Fault, Json, Reply, Say, ScriptedServer, Tokens, Turn, say, script

__all__ = (
    "Brain",
    "Call",
    "Fault",
    "Reply",
    "ResponsesServer",
    "Say",
    "Tokens",
    "Turn",
    "agents",
    "exhausted",
    "say",
    "script",
    "shell",
)

RESULTS = ("function_call_output", "custom_tool_call_output")


def shell(command: str, **more: Any) -> Reply:
    return Reply([Call("exec_command", {"cmd": command, "yield_time_ms": 20_000})], **more)


def agents(tool: str, **given: Any) -> Reply:
    """A call of one of the tools that manage subagents; their namespace goes before the name."""
    return Reply([Call(f"multi_agent_v1.{tool}", given)])


def exhausted(resets_at: int) -> Fault:
    """The answer to a subscription that has used up its window."""
    more = {"plan_type": "plus", "resets_at": resets_at}
    return Fault(429, "usage_limit_reached", "The usage limit has been reached", more=more)


class ResponsesServer(ScriptedServer):
    """A server of that API."""

    def __init__(self, brain: Brain) -> None:
        super().__init__(brain, Responses())


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


class Responses:
    """Requests and streams of the Responses API."""

    path = "/v1/responses"

    def turn(self, number: int, body: Json, headers: Mapping[str, str]) -> Turn:
        """Find the prompt and the results in a conversation. What the harness adds by itself is no prompt."""
        prompt, results = "", []
        for item in body.get("input", []):
            if item.get("type") in RESULTS:
                results.append(_text(item.get("output")))
            elif item.get("type") == "message" and item.get("role") == "user":
                said = _text(item.get("content"))
                if not said.startswith(("<environment_context>", "<user_instructions>", "# AGENTS.md")):
                    prompt, results = said, []
        return Turn(number, headers.get("session-id", ""), body, headers, prompt, results)

    def tokens(self, number: int) -> Tokens:
        return Tokens(
            input=101 + number,
            cache_write=11 + number,
            cache_read=1009 + 3 * number,
            output=17 + 2 * number,
            reasoning=5 + number,
        )

    def message(self, body: Json, reply: Reply, tokens: Tokens, number: str) -> Json:
        output = [self._item(block, f"{number}_{index}") for index, block in enumerate(reply.blocks)]
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 0,
            "model": body.get("model", "scripted"),
            "status": "completed",
            "output": output,
            "usage": self._usage(tokens),
        }

    def stream(self, message: Json) -> Iterator[tuple[str, Json]]:
        """The server-sent events of one response, in the order that the API documents."""
        begun = {**message, "status": "in_progress", "output": [], "usage": None}
        yield "response.created", {"response": begun}
        for index, item in enumerate(message["output"]):
            yield "response.output_item.added", {"output_index": index, "item": {**item, "status": "in_progress"}}
            yield "response.output_item.done", {"output_index": index, "item": item}
        yield "response.completed", {"response": message}

    def cut_after(self) -> str:
        return "response.created"

    def broken(self, body: Json, fault: Fault, number: str) -> Iterator[tuple[str, Json]]:
        message = {**self.message(body, Reply([]), Tokens(), number), "usage": None}
        yield "response.created", {"response": {**message, "status": "in_progress"}}
        error = {"code": fault.type, "message": fault.message, **fault.more}
        yield "response.failed", {"response": {**message, "status": "failed", "error": error}}

    def refusal(self, fault: Fault) -> Json:
        return {"error": {"type": fault.type, "code": fault.type, "message": fault.message, **fault.more}}

    def _item(self, block: Say | Call, number: str) -> Json:
        if isinstance(block, Say):
            content = [{"type": "output_text", "text": block.text, "annotations": []}]
            return {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        namespace, _, name = block.tool.rpartition(".")
        return {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "arguments": json.dumps(block.input),
            "status": "completed",
        }

    def _usage(self, tokens: Tokens) -> Json:
        """The wire counts what is read from and written to the cache as input, and reasoning as output."""
        read = tokens.input + tokens.cache_read + tokens.cache_write
        written = tokens.output + tokens.reasoning
        return {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": read + written,
        }
