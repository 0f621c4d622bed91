"""What a task may be: bodies checked field by field, and the tasks that they need. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from agent_fleet.errors import FleetError
from agent_fleet.queue import names, touches

_TEXTS = ("target", "title", "notes", "kind", "check", "model", "source")
_LABELS = ("lane", "provider", "pool", "run")
_FIELDS = {*_TEXTS, *_LABELS, "need", "priority", "touches", "writes", "needs", "budget", "trust", "ref", "host"}
_BUDGET = {"tokens": int, "money": float, "turns": int, "seconds": float}
_WEB = ("http", "https")


class Habits:
    """What the project says about new tasks: its configuration, and the absolute paths that its root goes by."""

    __slots__ = ("browser_kinds", "roots", "undeclared_serial", "write_kinds")

    def __init__(
        self,
        browser_kinds: Iterable[str] = (),
        write_kinds: Iterable[str] = (),
        *,
        undeclared_serial: bool = True,
        roots: Iterable[str] = (),
    ) -> None:
        self.roots = tuple(roots)
        self.browser_kinds = frozenset(browser_kinds)
        self.write_kinds = frozenset(write_kinds)
        self.undeclared_serial = undeclared_serial


def task_body(fields: dict[str, Any], habits: Habits) -> dict[str, Any]:
    """A task's body from what a person or a batch line gives; everything checked, nothing guessed.

    `ref` (a name inside one batch) is kept for `add` to resolve. Raises FleetError (`bad_input`).
    """
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        raise bad(f"unknown field {unknown[0]!r}", f"a task has {', '.join(sorted(_FIELDS))}")
    body: dict[str, Any] = {"v": 1}
    for name in _TEXTS:
        body[name] = _text(name, fields.get(name, ""))
    if not body["target"].strip():
        raise bad("a task needs a text or an address", "say what is to be done")
    for name in _LABELS:
        body[name] = _label(name, fields.get(name, ""))
    body["priority"] = _priority(fields.get("priority", 5))
    body["trust"] = _choice("trust", fields.get("trust", "person"), ("person", "outside"))
    body["source"] = body["source"] or "person"
    body["need"] = _need(fields.get("need", ""), body, habits)
    body["needs"] = _strings("needs", fields.get("needs", ()))
    body["budget"] = _budget(fields.get("budget", {}))
    body["host"] = _host(_text("host", fields.get("host", "")), body)
    if "ref" in fields:
        body["ref"] = _text("ref", fields["ref"])
    if body["need"] == "command" and body["trust"] == "outside":
        raise bad("a shell command from outside is not run", "read it, then add it yourself without --untrusted")
    body["writes"] = _flag("writes", fields.get("writes", body["kind"] in habits.write_kinds and bool(body["kind"])))
    body["touches"] = _touches(
        fields.get("touches", ()), habits.roots, writes=body["writes"] and habits.undeclared_serial
    )
    body["gate"] = gate_of(body["host"], body["touches"])
    return body


def like(body: dict[str, Any], texts: dict[str, str]) -> dict[str, Any] | None:
    """A body that differs from a checked one in its texts alone; None where they may decide something else as well.

    For long batches: checking every field of every line again is most of the cost of adding it.
    """
    target = texts["target"]
    if body["host"]:
        origin = origin_of(body["target"])
        if not origin or not target.startswith(origin) or len(target.split()) != 1:
            return None
    elif "://" in target or not target.strip():
        return None
    for name, text in texts.items():
        _text(name, text)
    return {**body, **texts}


def origin_of(target: str) -> str:
    """The beginning of a plain address that alone decides its host, `https://example.com/`; empty where more may decide it."""
    parts = target.split("/", 3)
    plain = len(parts) == 4 and parts[0].lower() in ("http:", "https:") and not parts[1]
    return "/".join([*parts[:3], ""]) if plain and not set(parts[2]) & set("?#\\") else ""


def gate_of(host: str, paths: Sequence[str]) -> str:
    """The class of tasks that can be claimed under the same condition: same host, same touched paths."""
    shown = host
    if len(host) > 80 or host == names.FREE or any(not (c.isascii() and (c.isalnum() or c in ".-_")) for c in host):
        plain = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in host)[:60]
        shown = f"{plain}-{hashlib.sha256(host.encode()).hexdigest()[:12]}"
    if not paths:
        return shown or names.FREE
    digest = hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:12]
    return f"{shown}~{digest}"


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise bad(f"{name} must be a text, not {value!r}", "put it in quotes")
    if "\0" in value:
        raise bad(f"{name} holds a NUL character", "remove it; every other character is allowed")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise bad(f"{name} is not valid UTF-8", "convert the text to UTF-8 first") from None
    return value


def _label(name: str, value: object) -> str:
    text = _text(name, value)
    if text and not names.is_label(text):
        raise bad(f"{name} {text!r} is not a name", "use lower-case letters, digits, '-' and '_', at most 40 of them")
    return text


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise bad(f"{name} cannot be {value!r}", f"use one of {', '.join(allowed)}")
    return str(value)


def _priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 9:
        raise bad(f"priority cannot be {value!r}", "use 1 (first) to 9; 5 is the default")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise bad(f"{name} cannot be {value!r}", "use true or false")
    return value


def _strings(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple) or len(value) > 1000:
        raise bad(f"{name} must be a list of texts", 'write ["a", "b"]')
    return list(dict.fromkeys(_text(name, part).strip() for part in value if _text(name, part).strip()))


def _need(value: object, body: dict[str, Any], habits: Habits) -> str:
    if value:
        return _choice("need", value, names.NEEDS)
    if _is_url(body["target"]) or (body["kind"] and body["kind"] in habits.browser_kinds):
        return "browser"
    return "agent"


def _is_url(target: str) -> bool:
    scheme, separator, rest = target.strip().partition("://")
    return bool(separator) and scheme.lower() in _WEB and bool(rest) and not any(c.isspace() for c in rest)


def _host(named: str, body: dict[str, Any]) -> str:
    """The host whose limit a browser task is under: the one that was named, else that of its address."""
    if named and body["need"] != "browser":
        raise bad(
            f"host {named[:200]!r} counts only for a task that needs a browser", "add need browser, or leave it out"
        )
    target = f"https://{named}" if named else body["target"]
    if body["need"] != "browser" or not _is_url(target):
        if named:
            raise bad(f"host {named[:200]!r} is no host", "write a name such as example.com")
        return ""
    try:
        host = (urlsplit(target.strip()).hostname or "").rstrip(".")
        return host if host.isascii() else host.encode("idna").decode()
    except (ValueError, UnicodeError):
        raise bad(f"the address {target[:200]!r} has no host", "write it as https://host/path") from None


def _touches(value: object, roots: Sequence[str], *, writes: bool) -> list[str]:
    found = []
    for path in _strings("touches", value):
        if len(path) > 4096:
            raise bad("a touched path is longer than 4096 characters", "name a directory above it")
        try:
            found.append(touches.inside(path, roots))
        except ValueError as error:
            raise bad(str(error), "name paths inside the project, relative to its root") from None
    return found or ([touches.EVERYTHING] if writes else [])


def _budget(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad("budget must be a table", 'write {"tokens": 50000} or --budget tokens=50000')
    budget: dict[str, Any] = {}
    for name, amount in value.items():
        kind = _BUDGET.get(name)
        if kind is None:
            raise bad(f"budget has no {name!r}", f"use {', '.join(_BUDGET)}")
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 < amount < 1e15:
            raise bad(f"budget {name} cannot be {amount!r}", "use a number above zero")
        if kind is int and amount != int(amount):
            raise bad(f"budget {name} cannot be {amount!r}", "use a whole number")
        budget[name] = kind(amount)
    return budget


def bad(message: str, hint: str) -> FleetError:
    return FleetError("bad_input", message, hint=hint)


def resolve_needs(bodies: Sequence[dict[str, Any]], ids: Sequence[str], exists: Callable[[str], bool]) -> None:
    """Turn each body's `needs` into ids: names given by `ref` in the same batch, or tasks that exist.

    Raises FleetError for an unknown one, a `ref` given twice, and a cycle.
    """
    refs: dict[str, str] = {}
    for body, task in zip(bodies, ids, strict=True):
        ref = body.pop("ref", "")
        if ref and (ref in refs or names.is_id(ref)):
            raise bad(f"ref {ref!r} is given twice or looks like an id", "give every task of the batch its own ref")
        if ref:
            refs[ref] = task
    known: dict[str, bool] = {}
    for body, task in zip(bodies, ids, strict=True):
        resolved = []
        for needed in body["needs"]:
            target = refs.get(needed, needed)
            if target not in known:
                known[target] = needed in refs or (names.is_id(target) and exists(target))
            if not known[target]:
                raise bad(
                    f"{body['target'][:60]!r} needs {needed!r}, which is no task",
                    "name an id from `fleet list`, or a ref of this batch",
                )
            resolved.append(target)
        body["needs"] = resolved
        body["id"] = task
    _refuse_cycle({task: body["needs"] for body, task in zip(bodies, ids, strict=True) if body["needs"]})


def _refuse_cycle(graph: dict[str, list[str]]) -> None:
    state: dict[str, int] = {}
    for start in graph:
        stack = [(start, 0)]
        while stack:
            task, position = stack.pop()
            if position == 0:
                if state.get(task) == 2:
                    continue
                state[task] = 1
            children = [child for child in graph.get(task, ()) if child in graph]
            if position < len(children):
                stack.append((task, position + 1))
                child = children[position]
                if state.get(child) == 1:
                    raise bad(f"tasks need each other in a circle: {child} and {task}", "remove one of their needs")
                stack.append((child, 0))
            else:
                state[task] = 2
