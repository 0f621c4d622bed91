"""The scripted agent: a real process that behaves, or misbehaves, as it is told. It knows no model and needs no network.

It reads its prompt from standard input to the end and is told what to do by the first of these that is there:

- the variable `FLEET_SCRIPTED_MODE`: the name of a mode, or a script;
- the text `SCRIPT:` in the prompt, followed by a script;
- the variable `FLEET_SCRIPTED_SEED`, a text: a mode is drawn by the weights in `FLEET_SCRIPTED_MIX` (JSON, a mode to a
  number), the same for the same seed, task and lease generation;
- nothing: `ok`.

A script is a JSON object such as {"mode": "stall", "seconds": 3}, or a list of them, one for each lease generation; the last
stands for all that follow. `MODES` maps each mode to what it does, and each function names its parameters.

It prints JSON Lines. Every line has a `type`: `started` (session, model, identity, cwd), `text` (text), `tool` (name, input),
`usage` (totals so far: input, cache_write, cache_read, output, reasoning, turns, money in US dollars), `retry` (status,
attempt, wait in seconds), `limit` (kind, resets_at in seconds since the epoch or null, text), `error` (kind, status, text),
`result` (status done, blocked or failed; reason; text).

Whatever it is told, it ends within `MOST["seconds"]` and a minute, and so does all that it leaves behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MOST: Final[Mapping[str, float]] = {
    "seconds": 600,
    "mb": 400,
    "line_mb": 50,
    "count": 500,
    "retries": 20,
    "tokens": 1e9,
}

IDENTITY: Final = "scripted@example.com"
