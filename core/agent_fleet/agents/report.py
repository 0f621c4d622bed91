"""What a process of agents tells its driver, one JSON object a line, and how that is read again. Pure.

The usage of a task that is on record is told there, so a session counts only what is on no record: attempts that were given
back, and those that were at work when the process died.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, get_args

from agent_fleet.agents.allowance import add
from agent_fleet.model import Event, Exit, Outcome, OutcomeKind, Usage
from agent_fleet.prices import COUNTS

_KINDS = get_args(OutcomeKind)


def line(event: str, **fields: Any) -> str:
    """One line of the report, with its end."""
    return json.dumps({"fleet": event, **fields}, separators=(",", ":")) + "\n"


def used(key: str, usage: Usage) -> str:
    """What the attempt `key` has used by now."""
    return line("used", key=key, usage=asdict(usage))


def recorded(key: str) -> str:
    """The attempt `key` is on record, with its usage."""
    return line("recorded", key=key)


def ended(outcome: Outcome) -> str:
    """How the whole ended: the last line."""
    return line("ended", **asdict(outcome))


class HostReader:
    """Reads the report of a process. `alone` says that it worked one dispatched task, whose usage its lines carry as they come."""

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone
        self._open: dict[str, Usage] = {}
        self._ended: Outcome | None = None
        self._session = ""

    def feed(self, text: str) -> Iterable[Event]:
        told = _object(text)
        kind = told.get("fleet")
        if kind == "used":
            return self._used(str(told.get("key")), usage_of(told.get("usage")))
        if kind == "recorded":
            self._open.pop(str(told.get("key")), None)
            return ()
        if kind == "ended":
            self._ended = _outcome(told)
            return (Event(kind="result", text=self._ended.reason or self._ended.result, session=self._ended.session),)
        said = str(told.get("text") or "")
        known = {"started": "started", "retry": "retry", "text": "text", "tool": "tool"}.get(str(kind))
        return (Event(kind=known, text=said),) if known else ()  # type: ignore[arg-type]  # the names are the same

    def outcome(self, exit: Exit) -> Outcome:
        """How the session as a whole ended. A process that could not say it has crashed, or was ended by somebody."""
        rest = Usage()
        for usage in self._open.values():
            rest = add(rest, usage)
        if not rest.tokens and not self._alone and self._ended is not None:
            rest = Usage(money=0.0)  # all that was used is on record with its tasks, which is not the same as unknown
        if self._ended is not None:
            found = self._ended
        elif exit.cause in ("stopped", "shed", "lost"):
            found = Outcome(kind="unknown", reason=f"was ended ({exit.cause}): {exit.note}")
        elif exit.cause in ("first_byte", "idle", "timeout"):
            found = Outcome(kind="timeout", reason=f"was ended ({exit.cause}) after {exit.seconds:.0f} s")
        elif exit.signal or exit.cause == "unstarted":
            found = Outcome(kind="crashed", reason=exit.note or f"ended by signal {exit.signal}")
        else:
            found = Outcome(kind="failed", reason=exit.note or f"exited {exit.code} without a last word")
        return Outcome(
            kind=found.kind,
            reason=found.reason,
            result=found.result,
            session=found.session,
            usage=rest,
            limit=found.limit,
            model=found.model,
            resets_at=found.resets_at,
        )

    def _used(self, key: str, usage: Usage) -> Iterable[Event]:
        self._open[key] = usage
        return (Event(kind="other", usage=usage),) if self._alone else ()


def usage_of(value: object) -> Usage:
    """The usage in a line; what is no number counts as nothing."""
    if not isinstance(value, Mapping):
        return Usage()
    counts = {name: count for name in COUNTS if isinstance(count := value.get(name), int) and count >= 0}
    models = value.get("models")
    return Usage(
        **counts,
        models=tuple(each for each in models if isinstance(each, str)) if isinstance(models, list) else (),
        partial=value.get("partial") is True,
    )


def _outcome(told: Mapping[str, Any]) -> Outcome:
    kind: Any = told.get("kind")
    resets = told.get("resets_at")

    def text(name: str) -> str:
        return str(told.get(name) or "")

    return Outcome(
        kind=kind if kind in _KINDS else "unknown",
        reason=text("reason"),
        result=text("result"),
        session=text("session"),
        limit=text("limit"),
        model=text("model"),
        resets_at=float(resets) if isinstance(resets, int | float) and not isinstance(resets, bool) else None,
    )


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
