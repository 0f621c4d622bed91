"""The provider `scripted`: workers that are the scripted agent.

A module that is a plugin, like any other; nothing offers it unless a distribution names it. `fleet_project` does.

    [plugin.scripted]
    mode = "ok"            # for every task: the name of a mode, or a script as JSON; by default the task's own text decides
    seed = "7"             # draws a mode for each attempt instead
    mix = { ok = 8, crash = 1 }
    identity = "scripted@example.com"   # who the agent has to be logged in as
    state = "/some/directory"           # what is counted over several processes
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from agent_fleet.api import Config, Event, Exit, FleetError, Job, Launch, Outcome, Provider, Usage, hookimpl
from agent_fleet.testing import agent
from agent_fleet.testing.agent import IDENTITY

PROGRAM = os.path.join(os.path.dirname(agent.__file__), "__main__.py")
LONGEST = 1 << 20  # characters; an event is shorter, and a piece of a longer line is none

_KINDS = {"auth": "auth", "overload": "overload", "budget": "budget"}
_SCREEN = "Press Enter to continue"


class Scripted:
    """Starts the scripted agent with the settings of the table `[plugin.scripted]`."""

    name = "scripted"

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table

    def usable(self) -> str | None:
        return None if os.path.isfile(PROGRAM) else "the scripted agent is not a file"

    def launch(self, job: Job) -> Launch:
        """The agent in a Python of its own, without site-packages. Raises `bad_config` for a table that means nothing."""
        return Launch(
            worker=job.worker,
            argv=(sys.executable, "-I", "-S", PROGRAM),
            cwd=job.cwd,
            env={**job.env, **self._told()},
            log=os.path.join(job.scratch, "output.log"),
            stdin=job.prompt.encode("utf-8", "replace"),
        )

    def reader(self, job: Job) -> ScriptedReader:
        del job
        return ScriptedReader(self._text("identity") or IDENTITY)

    def _told(self) -> dict[str, str]:
        told = {f"FLEET_SCRIPTED_{name.upper()}": self._text(name) for name in ("mode", "seed", "state")}
        mix = self._table.get("mix", {})
        if not isinstance(mix, dict) or not all(isinstance(weight, (int, float)) for weight in mix.values()):
            raise _bad("mix", "a table of modes and their weights")
        return {name: value for name, value in (told | {"FLEET_SCRIPTED_MIX": json.dumps(mix)}).items() if value}

    def _text(self, name: str) -> str:
        value = self._table.get(name, "")
        if not isinstance(value, str):
            raise _bad(name, "a text")
        return value


class ScriptedReader:
    """Goes by the events that the agent prints, in the order of their weight: a wall, then its result, then how it ended."""

    def __init__(self, identity: str = IDENTITY) -> None:
        self._identity = identity
        self._session = ""
        self._usage = Usage()
        self._wall: Outcome | None = None
        self._result: Outcome | None = None
        self._screen = False
        self._last = ""

    def feed(self, line: str) -> Iterable[Event]:
        event = _event(line)
        if event is None:
            self._screen = self._screen or _SCREEN in line[:LONGEST]
            self._last = _clean(line.strip())[-200:] or self._last
            return ()
        return self._take(event)

    def outcome(self, exit: Exit) -> Outcome:
        found = self._wall or self._result or self._by_end(exit)
        partial = self._result is None
        return replace(found, session=self._session, usage=replace(self._usage, partial=partial))

    def _take(self, event: Mapping[str, Any]) -> tuple[Event, ...]:
        kind, text = event.get("type"), _text(event, "text")
        if kind == "started":
            return (self._begin(event),)
        if kind == "usage":
            self._usage = _usage(event, self._usage.models)
            return (Event(kind="other", usage=self._usage),)
        if kind == "tool":
            return (Event(kind="tool", text=_text(event, "name")),)
        if kind == "retry":
            return (Event(kind="retry", text=f"status {event.get('status')}"),)
        if kind in ("limit", "error"):
            self._wall = _limit(event, text) if kind == "limit" else _error(event, text)
            return (Event(kind="limit", text=text),)
        if kind == "result":
            self._result = _result(event, text)
            return (Event(kind="result", text=text),)
        return (Event(kind="text" if kind == "text" else "other", text=text),)

    def _begin(self, event: Mapping[str, Any]) -> Event:
        self._session = _text(event, "session")
        self._usage = replace(self._usage, models=(_text(event, "model"),))
        who = _text(event, "identity")
        if who != self._identity:
            self._wall = Outcome(kind="auth", reason=f"it is logged in as {who or 'nobody'}, not as {self._identity}")
        return Event(kind="started", session=self._session)

    def _by_end(self, exit: Exit) -> Outcome:
        """What its end says where its events do not."""
        if self._screen:
            return Outcome(kind="auth", reason="it waits for a person to set it up")
        note = f": {exit.note}" if exit.note else ""
        if exit.cause in ("first_byte", "idle", "timeout", "log_limit"):
            return Outcome(kind="timeout", reason=f"ended by {exit.cause} after {exit.seconds:.0f} s{note}")
        if exit.cause != "exited":
            kind = "crashed" if exit.cause == "unstarted" else "unknown"
            return Outcome(kind=cast(Any, kind), reason=f"it was {exit.cause}{note}")
        if exit.signal is not None:
            return Outcome(kind="crashed", reason=f"ended by signal {exit.signal}")
        last = f": {self._last}" if self._last else ""
        return Outcome(kind="unknown", reason=f"it exited {exit.code} without a result{last}")


def _event(line: str) -> Mapping[str, Any] | None:
    """The event that a line is; None for anything else, and for a piece of an endless line."""
    if len(line) > LONGEST:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("type"), str) else None


def _limit(event: Mapping[str, Any], text: str) -> Outcome:
    resets_at = _number(event, "resets_at")
    return Outcome(
        kind="limit", reason=text or "a limit without a word", limit=_text(event, "kind"), resets_at=resets_at
    )


def _error(event: Mapping[str, Any], text: str) -> Outcome:
    kind = _KINDS.get(_text(event, "kind"), "unknown")
    return Outcome(kind=cast(Any, kind), reason=text or "an error without a word")


def _result(event: Mapping[str, Any], text: str) -> Outcome:
    status, reason = _text(event, "status"), _text(event, "reason")
    if status == "blocked":
        return Outcome(kind="blocked", reason=reason or "needs human: no reason was given", result=text)
    if status != "done":
        return Outcome(kind="failed", reason=reason or "no reason was given", result=text)
    if not text.strip():
        return Outcome(kind="failed", reason="empty answer")
    return Outcome(kind="done", result=text)


def _usage(event: Mapping[str, Any], models: tuple[str, ...]) -> Usage:
    def count(name: str) -> int:
        return int(_number(event, name) or 0)

    return Usage(
        input=count("input"),
        cache_write=count("cache_write"),
        cache_read=count("cache_read"),
        output=count("output"),
        reasoning=count("reasoning"),
        turns=count("turns"),
        money=_number(event, "money"),
        models=models,
    )


def _number(event: Mapping[str, Any], name: str) -> float | None:
    value = event.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < 1e15 and math.isfinite(value) and value >= 0 else None


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    return _clean(value) if isinstance(value, str) else ""


def _clean(text: str) -> str:
    """The text with every lone surrogate replaced, so that it can be written as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _bad(name: str, wanted: str) -> FleetError:
    return FleetError("bad_config", f"plugin.scripted.{name} is not {wanted}", hint=f"write {wanted} there")


@hookimpl
def fleet_providers(config: Config) -> Iterable[Provider]:
    yield Scripted(config.table("scripted"))
