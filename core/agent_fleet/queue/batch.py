"""Batch input: one task a line (`URL | title | note`, `\\|` for a bar), or JSON Lines. Pure."""

from __future__ import annotations

import json
from typing import Any

from agent_fleet.errors import FleetError
from agent_fleet.queue.task import Habits, like, origin_of, task_body


def parse(data: bytes, habits: Habits, defaults: dict[str, Any]) -> list[dict[str, Any]]:
    """Every task of a batch. Raises FleetError (`bad_input`) that names the first line that is wrong.

    A byte-order mark and CRLF are accepted, blank lines passed over; the first line decides which of the two forms it is.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad = data[: error.start].count(b"\n") + 1
        raise FleetError("bad_input", f"line {bad} is not UTF-8", hint="convert the file to UTF-8 first") from None
    numbered = [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), 1)]
    lines = [(number, line) for number, line in numbered if line.strip()]
    as_json = bool(lines) and lines[0][1].lstrip().startswith("{")
    bodies: list[dict[str, Any]] = []
    models: dict[str, dict[str, Any]] = {}  # one checked body for each origin, and one for plain sentences
    for number, line in lines:
        try:
            fields = _from_json(line) if as_json else from_line(line)
            bodies.append(_body(fields, habits, defaults, {} if as_json else models))
        except FleetError as error:
            raise FleetError(error.code, f"line {number}: {error.message}", hint=error.hint) from None
    return bodies


def _body(
    fields: dict[str, Any], habits: Habits, defaults: dict[str, Any], models: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """The body of one line: like a checked one of the same origin if there is one, else checked field by field."""
    target = fields.get("target")
    origin = origin_of(target) if isinstance(target, str) else ""
    body = like(models[origin], fields) if origin in models else None
    if body is None:
        body = task_body({**defaults, **fields}, habits)
        if bool(origin) == bool(body["host"]):
            models.setdefault(origin, task_body({**defaults, "target": target}, habits))
    return body


def from_line(line: str) -> dict[str, Any]:
    """The fields of `target | title | note`; more bars than two belong to the note."""
    if "\\" not in line:
        return _named(line.split("|", 2))
    parts = [""]
    escaped = False
    for character in line:
        if escaped and character == "|":
            parts[-1] = parts[-1][:-1] + "|"
        elif character == "|" and len(parts) < 3:
            parts.append("")
        else:
            parts[-1] += character
        escaped = character == "\\" and not escaped
    return _named(parts)


def _named(parts: list[str]) -> dict[str, Any]:
    fields = {"target": parts[0].strip()}
    if len(parts) > 1:
        fields["title"] = parts[1].strip()
    if len(parts) > 2:
        fields["notes"] = parts[2].strip()
    return fields


def _from_json(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise FleetError(
            "bad_input", "it is not JSON", hint="every line must be one JSON object with a target"
        ) from None
    if not isinstance(found, dict):
        raise FleetError("bad_input", "it is not a JSON object", hint='write {"target": "…"} on every line')
    if "id" in found:
        raise FleetError("bad_input", "ids are given by fleet", hint='use "ref" to name a task inside the batch')
    return found
