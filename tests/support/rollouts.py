"""Files in which Codex writes down a thread, as far as the accounts of a task need them."""

from __future__ import annotations

import json
from pathlib import Path

THREAD = "01a22e7d-a664-72d1-9a91-b4ba4b7358e0"  # born on 2026-11-30 (UTC)
AGENT = "01a22e7d-b000-7200-a97b-8b3480591728"


def record(turn: str, total: int, cached: int, output: int, *, written: int = 0, reasoning: int = 0) -> str:
    """The line about one answer of the model; `total` holds `cached` and `written`, `output` holds `reasoning`."""
    usage = {
        "input_tokens": total,
        "cached_input_tokens": cached,
        "cache_write_input_tokens": written,
        "output_tokens": output,
        "reasoning_output_tokens": reasoning,
        "total_tokens": total + output,
    }
    return _line("token_usage_record", {"turn_id": f"own-{turn}", "root_turn_id": turn, "usage": usage})


def rollout(home: Path, *lines: str, thread: str = THREAD, day: str = "2026/11/30") -> Path:
    """Write the file of a thread below a home."""
    folder = home / "sessions" / day
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"rollout-2026-11-30T22-05-16-{thread}.jsonl"
    file.write_text(_line("session_meta", {"id": thread}) + _line("turn_context", {"model": "m"}) + "".join(lines))
    return file


def _line(kind: str, payload: dict[str, object]) -> str:
    whole = {"timestamp": "2026-11-30T22:05:16.489Z", "ordinal": 1, "type": kind, "payload": payload}
    return json.dumps(whole, separators=(",", ":")) + "\n"
