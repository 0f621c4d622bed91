"""Answers held to their contract, a JSON Schema. The schema is data: nothing in it is fetched or run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agent_fleet.aggregate.outputs import Json
from agent_fleet.errors import FleetError
from agent_fleet.text import line

_SHOWN = 140


class Contract:
    """What an answer must be. None accepts any text or value that is not empty; a schema may allow that it is."""

    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        """Raises `bad_input` if this is no JSON Schema (draft 2020-12)."""
        self._validator = None if schema is None else _validator(schema)

    def accept(self, value: Json) -> tuple[Json, str]:
        """The value as it is to be used, and in words what is wrong with it: empty if nothing.

        A text counts as the JSON in it where the contract wants something else than a text.
        """
        why = self._fault(value)
        if is_empty(value):
            return value, "it is empty" if why or self._validator is None else ""
        if why and isinstance(value, str):
            try:
                parsed: Json = json.loads(_unfenced(value))
            except (ValueError, RecursionError):
                return value, why
            return (parsed, other) if (other := self._fault(parsed)) else (parsed, "")
        return value, why

    def _fault(self, value: Json) -> str:
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        if self._validator is None:
            return ""
        try:
            error = best_match(self._validator.iter_errors(value))
        except RecursionError:
            return "it is nested too deeply"
        except OverflowError:
            return "a number in it is too large"
        except (Unresolvable, re.error) as error:  # what a check of the schema does not see
            return line(f"the contract cannot be applied: {error}", 200)
        if error is None:
            return ""
        if len(error.message) <= _SHOWN:
            return line(f"{error.json_path}: {error.message}", 200)
        wanted = line(json.dumps(error.validator_value), _SHOWN)
        return line(f"{error.json_path}: it does not keep {error.validator} {wanted}", 200)


def is_empty(value: Json) -> bool:
    """Whether it says nothing: null, or a text without a sign in it."""
    return value is None or (isinstance(value, str) and not value.strip())


def _validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from referencing import Registry

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        what = f"the contract is no JSON Schema: {line(error.message)}"
        raise FleetError("bad_input", what, hint="write it in JSON Schema, draft 2020-12") from None
    return Draft202012Validator(schema, registry=Registry())


def _unfenced(text: str) -> str:
    """A text without the code fence that models like to put around JSON."""
    lines = text.strip().splitlines()
    fenced = len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```"
    return "\n".join(lines[1:-1]) if fenced else text
