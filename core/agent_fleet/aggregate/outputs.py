"""What agents gave back, as values, and lines of JSON read without trust."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_fleet.errors import FleetError

Json = None | bool | int | float | str | list[Any] | dict[str, Any]

DONE = "done"
SKIPPED = "skipped"
OPEN = "open"
SHORT = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One answer of one task, or why there is none.

    `part` tells several answers of one task apart, `items` are the parts of the input that it covers. `outcome` is `done`,
    `skipped`, `open` (there may be an answer yet) or the class of a failure; then the value says why, in words.
    `confidence` is from 0 to 1, None if none was named.
    """

    task: str
    part: int = 0
    items: tuple[str, ...] = ()
    kind: str = ""
    value: Json = None
    confidence: float | None = None
    provider: str = ""
    model: str = ""
    account: str = ""
    outcome: str = DONE

    @property
    def why(self) -> str:
        """What was said of there being no answer; empty for an answer."""
        return self.value if self.outcome != DONE and isinstance(self.value, str) else ""

    @property
    def text(self) -> str:
        """The answer as text; JSON as lines of names and values, in the order of the names."""
        return (
            self.value
            if isinstance(self.value, str)
            else "\n".join(f"{name}: {value}" for name, value in _leaves(self.value))
        )

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Values that must be equal for two answers to be the same: numbers, truth values, and words without spaces."""
        if isinstance(self.value, str):
            return ()
        return tuple(
            (name, value) for name, value in _leaves(self.value) if name and " " not in value and len(value) <= SHORT
        )

    @property
    def maker(self) -> tuple[str, str, str]:
        """Who made it: provider, model, account."""
        return self.provider, self.model, self.account

    @property
    def key(self) -> str:
        """Its name: the task, the part, and a digest of all of it, so that the same output twice has one name."""
        whole = json.dumps(as_json(self), sort_keys=True, ensure_ascii=True, allow_nan=True)
        return f"{self.task}.{self.part}.{hashlib.blake2b(whole.encode(), digest_size=8).hexdigest()}"


def as_json(output: Output) -> dict[str, Any]:
    """The output as a JSON object, which `from_json` reads."""
    return {name: getattr(output, name) for name in output.__slots__} | {"items": list(output.items)}


def from_json(document: object) -> Output:
    """An output from a JSON object. Raises `bad_input` that names the field which is not acceptable."""
    if not isinstance(document, Mapping):
        raise FleetError("bad_input", "an output must be a JSON object", hint="write one object a line")
    texts = {name: _text(document, name) for name in ("task", "kind", "provider", "model", "account")}
    if not texts["task"]:
        raise FleetError("bad_input", "an output names no task", hint='give it a "task"')
    items, part, confidence = document.get("items", []), document.get("part", 0), document.get("confidence")
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise FleetError("bad_input", "the items of an output must be a list of texts", hint="name each item by a text")
    if isinstance(part, bool) or not isinstance(part, int):
        raise FleetError("bad_input", "the part of an output must be a whole number", hint="number the parts from 0")
    if confidence is not None and not (_is_number(confidence) and 0 <= confidence <= 1):
        raise FleetError("bad_input", "a confidence must be a number from 0 to 1", hint="leave it out if it is unknown")
    return Output(
        **texts,
        part=part,
        items=tuple(items),
        value=document.get("value"),
        confidence=None if confidence is None else float(confidence),
        outcome=_text(document, "outcome") or DONE,
    )


def _text(document: Mapping[Any, Any], name: str) -> str:
    value = document.get(name, "")
    if not isinstance(value, str):
        raise FleetError(
            "bad_input", f"the {name} of an output must be a text", hint=f"write {name} in quotes, or leave it out"
        )
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _leaves(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    """Every scalar of a JSON value with the path that leads to it."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(value[key], f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _leaves(each, f"{name}.{place}" if name else str(place))
    else:
        yield name, value if isinstance(value, str) else json.dumps(value)
