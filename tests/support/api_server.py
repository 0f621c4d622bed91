"""A model server for many agents, in a process of its own: one asyncio loop, any number of streams, a count of all of them.

`python api_server.py` prints its port. What it answers is decided by the text that it is sent:
`SLEEP s` waits before the answer, `SAY text` answers with it, `WRITE n` goes on for n words, `PACE s` waits between events,
`ITEMS` answers every line `item: NAME` with a JSON line, `ECHO verdict` with that verdict and the marker of the prompt,
`STATUS code[:seconds]` is an error (with a Retry-After), `CUT` ends the stream in the middle, `ONCE` makes that the first answer
only, `TOOL name json` calls a tool and then repeats what it gave back.
A partition of a deployment is answered item by item, each value turned round, or as it is where it says `wrong`; answers
to be checked get a verdict, parts whose difficulty is asked for are all `large`, and pairs are `same` if both texts have
the same words.
`GET /count` tells what was asked: how many calls, of which models, and how often each prompt was.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import resource
import sys
import time
from collections import Counter
from typing import Any

CALLS: Counter[str] = Counter()
ANSWERED: Counter[str] = Counter()
MODELS: Counter[str] = Counter()
PEAK = [0, 0]
WORDS = "word "


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            size = re.search(r"(?i)content-length: *(\d+)", head)
            body = await reader.readexactly(int(size[1])) if size else b""
            if head.startswith("GET"):
                said = {"calls": CALLS, "answered": ANSWERED, "models": MODELS, "peak": PEAK[1]}
                told = json.dumps(said | {"cpu": time.process_time()}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(told), told))
                await writer.drain()
                continue
            PEAK[0] += 1
            PEAK[1] = max(PEAK)
            try:
                whole = await answer(writer, json.loads(body), messages="/messages" in head.split(" ", 2)[1])
            finally:
                PEAK[0] -= 1
            if not whole:
                return
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        return
    finally:
        writer.close()


def worked(value: Any) -> Any:
    """What is answered for an item: its value turned round, or wrongly as it is; an answer to be checked is looked at."""
    if isinstance(value, dict) and "answer" in value:
        right = value["answer"] == str(value["input"])[::-1]
        return {"verdict": "right"} if right else {"verdict": "wrong", "why": "it is not turned round"}
    return str(value) if "wrong" in str(value) else str(value)[::-1]


def ruled(prompt: str) -> str:
    """The answer to a question about pairs of texts."""
    nonce = re.findall(r"^-----BEGIN TASK (\w+)-----$", prompt, re.M)[0]
    pairs = [json.loads(line) for line in re.findall(r'^\{"pair": .*$', prompt, re.M)]
    words = [[sorted(re.findall(r"\w+", pair[side].lower())) for side in "ab"] for pair in pairs]
    said = {
        str(pair["pair"]): "same" if one == two else "different" for pair, (one, two) in zip(pairs, words, strict=True)
    }
    return json.dumps({"question": nonce, "pairs": said})


def texts(body: dict[str, Any]) -> tuple[str, str]:
    """(the first thing that the person said, what the tools gave back last)."""
    first, results = "", ""
    for message in body["messages"]:
        content = message.get("content")
        if message["role"] == "user" and not first:
            first = content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
        if message["role"] == "tool":
            results = str(content)
        if isinstance(content, list):
            for block in content:
                results = block["content"] if block["type"] == "tool_result" else results
    return first, results


async def answer(writer: asyncio.StreamWriter, body: dict[str, Any], *, messages: bool) -> bool:
    prompt, results = texts(body)
    named = re.search(r"name=(\S+)", prompt)
    name = named[1] if named else hashlib.sha256(prompt.encode()).hexdigest()[:12]
    CALLS[name] += 1
    MODELS[str(body.get("model"))] += 1

    def order(word: str) -> str | None:
        found = re.search(rf"\b{word}(?: (.*))?$", prompt, re.M)
        return (found[1] or "") if found else None

    wait = order("SLEEP")
    await asyncio.sleep(float(wait or 0))
    status = order("STATUS")
    if status and not (order("ONCE") is not None and CALLS[name] > 1):
        code, _, after = status.partition(":")
        told = json.dumps({"type": "error", "error": {"type": "scripted", "message": "scripted"}}).encode()
        more = f"retry-after: {after}\r\n" if after else ""
        writer.write(f"HTTP/1.1 {code} Scripted\r\n{more}content-length: {len(told)}\r\n\r\n".encode() + told)
        await writer.drain()
        return True
    tool = order("TOOL")
    said = [order("SAY") or "Seen."]
    if order("ITEMS") is not None:
        said = [
            json.dumps({"item": each, "result": each.upper()}) + "\n"
            for each in re.findall(r"^item: (\S+)$", prompt, re.M)
        ]
    if "-----BEGIN ITEMS " in prompt:
        parts = [json.loads(line) for line in re.findall(r'^\{"item": "i.*$', prompt, re.M)]
        said = [json.dumps({"item": each["item"], "value": worked(each["value"])}) + "\n" for each in parts]
    if "How difficult is each of the parts" in prompt:
        said = [json.dumps({"tiers": dict.fromkeys(re.findall(r'^\{"part": (\d+)', prompt, re.M), "large")})]
    if "Which of these pairs of findings say the same" in prompt:
        said = [ruled(prompt)]
    if (count := order("WRITE")) is not None:
        said = [WORDS] * int(count)
    if (end := order("ECHO")) is not None:  # the marker stands in the prompt for those who were told it
        marker = re.findall(r"^FLEET-\w+", prompt, re.M)[-1]
        said = [f"I looked.\n{marker} {end}"]
    calls = None
    if tool is not None and not results:
        called, _, given = tool.partition(" ")
        calls, said = (called, given), []
    elif results:
        said = [f"the tool said {results}"]
    ready = [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"]
    slow = float(order("PACE") or 0)
    events = list((as_messages if messages else as_completions)(body, said, calls))
    cut = order("CUT") is not None and not (order("ONCE") is not None and CALLS[name] > 1)
    for index, event in enumerate(events):
        if cut and index > len(events) // 2:
            writer.write(b"".join(ready))
            return False
        data = json.dumps(event)
        text = f"event: {event.get('type')}\ndata: {data}\n\n" if messages else f"data: {data}\n\n"
        ready.append(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
        if slow:
            writer.write(b"".join(ready))
            ready.clear()
            await writer.drain()
            await asyncio.sleep(slow)
    writer.write(b"".join((*ready, b"0\r\n\r\n")))  # one call to the kernel: what is measured is who asks
    await writer.drain()
    ANSWERED[name] += 1
    return True


def as_messages(body: dict[str, Any], said: list[str], calls: tuple[str, str] | None) -> Any:
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300}
    message = {
        "id": "msg_1",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "usage": {**usage, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": message}
    if calls:
        block = {"type": "tool_use", "id": "call_1", "name": calls[0], "input": {}}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": calls[1]},
        }
    else:
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        for each in said:
            yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": each}}
    yield {"type": "content_block_stop", "index": 0}
    stop = "tool_use" if calls else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": max(10, len(said))}}
    yield {"type": "message_stop"}


def as_completions(body: dict[str, Any], said: list[str], calls: tuple[str, str] | None) -> Any:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"id": "chat_1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    if calls:
        function = {"name": calls[0], "arguments": ""}
        yield chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": calls[1]}}]})
    for each in said:
        yield chunk({"content": each})
    yield chunk({}, "tool_calls" if calls else "stop")
    details = {"prompt_tokens_details": {"cached_tokens": 300}, "completion_tokens_details": {"reasoning_tokens": 4}}
    yield {"id": "chat_1", "choices": [], "usage": {"prompt_tokens": 420, "completion_tokens": 10, **details}}


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=8192)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sys.exit(asyncio.run(main()))
