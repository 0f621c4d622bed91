"""The contract of a deployment: what an agent returns for each item, as a JSON Schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from agent_fleet import document
from agent_fleet.aggregate.validation import is_empty
from agent_fleet.errors import FleetError

_LONGEST = 100_000
_MOST_BYTES = 1 << 26
_DEEPEST = 100  # levels of lists and objects in a value

# what one who checks an answer of another returns for it
VERDICT: Mapping[str, Any] = {
    "type": "object",
    "required": ["verdict"],
    "properties": {"verdict": {"enum": ["right", "wrong", "cannot tell"]}, "why": {"type": "string", "minLength": 1}},
    "if": {"properties": {"verdict": {"const": "wrong"}}},
    "then": {"required": ["why"]},
}


class Contract:
    """A schema that was found to be sound; an empty one takes every value that says something. References do not leave it."""

    def __init__(self, schema: Mapping[str, Any] | None = None) -> None:
        """Raises `bad_input` for what is no JSON Schema, or refers to another document."""
        self.schema = dict(schema or {})
        self._validator: Any = None
        if not self.schema:
            return
        from jsonschema import exceptions, validators
        from referencing import Registry

        if len(json.dumps(self.schema)) > _LONGEST:
            raise _bad(f"is longer than {_LONGEST} characters")
        strange = next((each for each in _references(self.schema) if not each.startswith("#")), None)
        if strange is not None:
            raise _bad(f"refers to {strange[:200]!r}, which nothing here fetches")
        kind = validators.validator_for(self.schema, default=validators.Draft202012Validator)
        try:
            kind.check_schema(self.schema)
        except exceptions.SchemaError as error:
            raise _bad(f"is no JSON Schema: {error.message[:200]}") from None
        fault = _dangling(self.schema)
        if fault:
            raise _bad(fault)
        self._validator = kind(self.schema, registry=Registry())
        try:
            self._validator.is_valid(None)
        except RecursionError:
            raise _bad("refers to itself without end") from None

    def fault(self, value: Any) -> str:
        """What is wrong with a value, in one line; an empty text if nothing is. Only a schema can allow an empty one."""
        unfit = _unfit(value)
        if unfit:
            return unfit
        if self._validator is None:
            return "the value is empty" if is_empty(value) else ""
        from jsonschema import exceptions
        from referencing.exceptions import Unresolvable

        try:
            error = exceptions.best_match(self._validator.iter_errors(value))
        except (Unresolvable, RecursionError, OverflowError):
            return "the contract cannot be applied to it"
        if error is None:
            return ""
        where = "/".join(str(part) for part in error.absolute_path)
        return " ".join(f"{where or 'the value'}: {error.message}".split())[:300]


def read(path: str) -> Contract:
    """The contract in a file. Raises FleetError."""
    data = document.read(path, _MOST_BYTES, what="a file with a JSON Schema")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise _bad(f"in {path} is not JSON, or cut short") from None
    if not isinstance(found, dict):
        raise _bad(f"in {path} is not a JSON object")
    return Contract(found)


def _unfit(value: Any) -> str:
    """Why a value can be passed on to nobody, whatever the contract says: what reads it later has limits of its own."""
    stack = [(value, 1)]
    while stack:
        each, depth = stack.pop()
        if depth > _DEEPEST:
            return f"the value is nested more than {_DEEPEST} levels deep"
        if isinstance(each, float) and not math.isfinite(each):
            return "a number in the value is too large"
        if isinstance(each, dict | list):
            stack += [(inner, depth + 1) for inner in (each.values() if isinstance(each, dict) else each)]
    return ""


def _references(schema: Any) -> list[str]:
    found: list[str] = []
    stack = [schema]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            found += [each[name] for name in ("$ref", "$dynamicRef") if isinstance(each.get(name), str)]
            stack += each.values()
        elif isinstance(each, list):
            stack += each
    return found


def _dangling(schema: Mapping[str, Any]) -> str:
    """What is wrong with a reference that leads nowhere: no answer could be held to it. The empty text if there is none."""
    from referencing import Registry, Resource
    from referencing.exceptions import CannotDetermineSpecification, Unresolvable
    from referencing.jsonschema import DRAFT202012

    try:
        whole: Resource[Any] = Resource.from_contents(schema, default_specification=DRAFT202012)
    except CannotDetermineSpecification:
        return ""  # a dialect of its own is held to 2020-12, which is not known to say what its references mean
    registry: Registry[Any] = Registry().with_resource(whole.id() or "", whole)
    stack = [(whole, registry.resolver(whole.id() or ""))]
    while stack:
        each, resolver = stack.pop()
        told = each.contents if isinstance(each.contents, Mapping) else {}
        for reference in (told[name] for name in ("$ref", "$dynamicRef") if isinstance(told.get(name), str)):
            try:
                resolver.lookup(reference)
            except Unresolvable:
                return f"refers to {reference[:200]!r}, which is not in it"
        stack += [(inner, resolver.in_subresource(inner)) for inner in each.subresources()]
    return ""


def _bad(what: str) -> FleetError:
    return FleetError("bad_input", f"the contract {what}", hint="mend the schema; json-schema.org describes the form")
