"""What the agent is told to do, and where it finds that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent_fleet.testing.agent import MOST


class Script(NamedTuple):
    """What to do, and the prompt that it was told in."""

    mode: str
    told: Mapping[str, Any]
    prompt: str

    def number(self, name: str, default: float, most: str = "seconds") -> float:
        """A parameter, never below zero and never above what this agent may take."""
        value = self.told.get(name, default)
        usable = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        return min(float(value) if usable else default, MOST[most])

    def text(self, name: str, default: str) -> str:
        value = self.told.get(name, default)
        return value if isinstance(value, str) else default


def script_of(prompt: str, environ: Mapping[str, str]) -> Script:
    """Which script holds for this prompt and environment; the module says how it is found."""
    forced = environ.get("FLEET_SCRIPTED_MODE", "")
    told: Any = None
    if forced:
        told = _json(forced) if forced.lstrip()[:1] in ("{", "[") else {"mode": forced}
    elif (found := prompt.find("SCRIPT:")) >= 0:
        told = _json(prompt[found + len("SCRIPT:") :])
    elif seed := environ.get("FLEET_SCRIPTED_SEED", ""):
        told = {"mode": _drawn(seed, environ)}
    else:
        told = {"mode": "ok"}
    if isinstance(told, list) and told:
        told = told[min(_generation(environ), len(told)) - 1]
    if not isinstance(told, dict):
        told = {"mode": "a script that is no JSON object"}
    return Script(str(told.get("mode", "ok")), told, prompt)


def _json(text: str) -> Any:
    """The JSON value that a text begins with, None if it begins with none."""
    try:
        return json.JSONDecoder().raw_decode(text.lstrip())[0]
    except (ValueError, RecursionError):
        return None


def _drawn(seed: str, environ: Mapping[str, str]) -> str:
    from random import Random

    mix = _json(environ.get("FLEET_SCRIPTED_MIX", ""))
    weights = mix if isinstance(mix, dict) and mix else {"ok": 8, "failed": 1, "exit1-limit": 1}
    draw = Random(f"{seed}/{environ.get('FLEET_TASK', '')}/{_generation(environ)}")  # noqa: S311  repeatable, not secret
    return str(draw.choices(list(weights), [float(weight) for weight in weights.values()])[0])


def _generation(environ: Mapping[str, str]) -> int:
    text = environ.get("FLEET_GENERATION", "")
    return max(1, int(text)) if text.isdecimal() else 1
