"""Reads the events of `claude -p --output-format stream-json` and judges the attempt.

One line is one JSON object. Whatever is no object is text, and kept, because Claude Code says on standard error why it
did not start. A process may print several results (subagents in the background report later); the last one counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from agent_fleet.api import Event, Exit, Job, Outcome, well_formed
from agent_fleet_providers._answers import answered, in_the_way, last_words
from agent_fleet_providers._claude_errors import AUTH, Signs, classify, rejected
from agent_fleet_providers._claude_usage import Meter
from agent_fleet_providers._endings import by_cause, by_signal, status
from agent_fleet_providers._event_lines import EventLines, Json
from agent_fleet_providers._figures import count, table
from agent_fleet_providers._output import one_line, said
from agent_fleet_providers._verdict import verdict

EventKind = Literal["started", "text", "tool", "retry", "limit", "denied", "result", "other"]
_WALLS = ("limit", "auth", "overload")


class ClaudeReader:
    """Keeps what decides: the last result, the last error since there was progress, the text lines, and the use.

    With `members` its subagents do the work, as in a crew: a wall that ended one of them counts although the session ended well.
    """

    def __init__(self, job: Job, clock: Callable[[], float] = time.time, *, members: bool = False) -> None:
        self._job = job
        self._members = members
        self._ended: dict[str, Signs] = {}  # the subagents whose last word was an error
        self._clock = clock
        self._meter = Meter(resumed=bool(job.session))
        self._lines = EventLines()
        self._session = job.session
        self._began = False
        self._result: Json | None = None
        self._answer = ""
        self._signs = Signs()

    def feed(self, line: str) -> Iterable[Event]:
        event = self._lines.event(line, mark=self._session)
        if event is None:
            return ()
        session = event.get("session_id")
        if isinstance(session, str) and session:
            self._session = well_formed(session)
        handlers: Mapping[str, Callable[[Json], list[Event]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "rate_limit_event": self._limit,
            "result": self._results,
        }
        handler = handlers.get(str(event.get("type")))
        return handler(event) if handler else ()

    def outcome(self, ended: Exit) -> Outcome:
        """Judge the attempt.

        An answer counts if the process ended well, or if it holds the verdict of this attempt. A refusal that nothing
        came after counts even if the fleet lost patience first: waiting for a limit to pass is no timeout.
        """
        judged = self._judge(ended)
        if self._members and judged.kind not in _WALLS:
            judged = self._of_a_member() or judged
        known = self._began or judged.kind != "refused"  # a conversation that could not be opened is none to go on with
        return replace(judged, session=self._session if known else "", usage=self._meter.usage)

    # ------------------------------------------------------------------------------------------------ events

    def _system(self, event: Json) -> list[Event]:
        subtype = event.get("subtype")
        if subtype == "init":
            self._began = True
            return [
                self._event("started", f"Claude Code {event.get('claude_code_version', '')}, {event.get('model', '')}")
            ]
        if subtype == "permission_denied":
            return [self._event("denied", f"{event.get('tool_name', 'a tool')}: {event.get('message', '')}")]
        if subtype == "api_retry":
            error, code = str(event.get("error", "")), event.get("error_status")
            self._signs = self._signs._replace(error=error, status=code if isinstance(code, int) else None, text="")
            wait = count(event.get("retry_delay_ms")) / 1000
            tries = f"{count(event.get('attempt'))} of {count(event.get('max_retries'))}"
            return [self._event("retry", f"{error} ({code or 'no answer'}), try {tries} in {wait:.1f} s")]
        return []

    def _assistant(self, event: Json) -> list[Event]:
        message = table(event.get("message"))
        self._meter.message(message)
        blocks = message.get("content")
        blocks = [table(block) for block in blocks] if isinstance(blocks, list) else []
        if event.get("error") or event.get("is_api_error_message"):
            text = "\n".join(str(block.get("text", "")) for block in blocks)
            info = table(table(event.get("api_error_params")).get("rate_limit_info"))
            self._signs = Signs(
                error=str(event.get("error") or ""),
                api_error=str(event.get("api_error") or ""),
                status=_status(event),
                text=text,
                limit=info or self._signs.limit,
            )
            self._ended[_member(event)] = self._signs
        elif blocks:
            self._signs = Signs()
            self._ended.pop(_member(event), None)
            # one who goes on has a login: that of another was refused for no lasting reason
            self._ended = {who: signs for who, signs in self._ended.items() if signs.error not in AUTH}
        return [said for block in blocks if (said := self._block(block)) is not None]

    def _block(self, block: Json) -> Event | None:
        if block.get("type") == "text" and str(block.get("text", "")).strip():
            return self._event("text", str(block["text"]), metered=True)
        if block.get("type") == "tool_use":
            given = table(block.get("input"))
            told = next(
                (given[key] for key in ("command", "file_path", "pattern", "url", "description") if key in given), ""
            )
            return self._event("tool", f"{block.get('name', '')}: {told}", metered=True)
        return None

    def _limit(self, event: Json) -> list[Event]:
        info = table(event.get("rate_limit_info"))
        window = str(info.get("rateLimitType") or "account")
        if rejected(info):
            self._signs = self._signs._replace(limit=info)
            return [self._event("limit", f"{window} limit reached")]
        self._signs = self._signs._replace(limit={})
        return [self._event("other", f"{window} limit is near")] if info.get("status") == "allowed_warning" else []

    def _results(self, event: Json) -> list[Event]:
        self._meter.result(event)
        self._result = event
        text = well_formed(str(event.get("result") or ""))
        if verdict(text, self._job.nonce) or not verdict(self._answer, self._job.nonce):
            self._answer = text
        return [self._event("result", text, metered=True)]

    def _event(self, kind: EventKind, text: str, *, metered: bool = False) -> Event:
        return Event(
            kind=kind, text=said(kind, text), session=self._session, usage=self._meter.usage if metered else None
        )

    # ------------------------------------------------------------------------------------------------ judging

    def _judge(self, ended: Exit) -> Outcome:
        result = self._result
        if result is not None and not result.get("is_error") and result.get("subtype", "success") == "success":
            if verdict(self._answer, self._job.nonce) or (ended.cause == "exited" and ended.code == 0):
                return answered(
                    self._answer,
                    self._job.nonce,
                    host=self._job.task.host,
                    now=self._clock(),
                    note=_denials(result),
                )
        elif result is not None:
            judged = self._error(result, ended)
            return judged if judged.kind not in ("failed", "crashed") else by_cause(ended) or judged
        return self._waiting() or by_cause(ended) or self._unfinished(ended)

    def _error(self, result: Json, ended: Exit) -> Outcome:
        subtype, why = str(result.get("subtype", "")), str(result.get("terminal_reason", ""))
        errors = result.get("errors")
        text = one_line("; ".join(str(each) for each in errors)) if isinstance(errors, list) and errors else ""
        if subtype == "error_max_turns" or why == "max_turns":
            return Outcome(kind="budget", reason=text or "reached the number of turns it may take")
        if subtype == "error_max_budget_usd" or why == "budget_exhausted":
            return Outcome(kind="budget", reason=text or "spent the money it may spend")
        if why.startswith("aborted"):
            return by_signal(ended) or Outcome(kind="crashed", reason="was interrupted")
        if why == "api_error" or result.get("api_error_status") or result.get("api_error") or self._signs != Signs():
            signs = self._signs._replace(
                api_error=str(result.get("api_error") or self._signs.api_error),
                status=_status(result) or self._signs.status,
                text=str(result.get("result") or "") or self._signs.text,
            )
            return classify(signs, self._clock())
        text = text or one_line(str(result.get("result") or "")) or subtype or "ended with an error"
        return in_the_way(text, self._clock(), failed=True) or Outcome(kind="failed", reason=text)

    def _of_a_member(self) -> Outcome | None:
        """The limit, or the refused login, that ended a subagent which did not come to work again."""
        found = [classify(signs, self._clock()) for who, signs in self._ended.items() if who]
        return next((each for kind in ("limit", "auth") for each in found if each.kind == kind), None)

    def _waiting(self) -> Outcome | None:
        """What the attempt waited for when it ended, if that was the API's leave to go on."""
        if self._signs == Signs():
            return None
        judged = classify(self._signs, self._clock())
        return judged if judged.kind in _WALLS else None

    def _unfinished(self, ended: Exit) -> Outcome:
        lines = [line.strip() for line in self._lines.tail.lines if line.strip()]
        if wall_met := last_words(lines, self._clock()):
            return wall_met
        if crashed := by_signal(ended):
            return crashed
        last = f": {one_line(lines[-1])}" if lines else ""
        if not self._began and ended.code:
            return Outcome(kind="refused", reason=f"Claude Code did not begin, {status(ended)}{last}")
        if ended.code == 0:
            return Outcome(kind="unknown", reason=f"ended without a result{last}")
        return Outcome(kind="failed", reason=f"{status(ended)} without a result{last}")


def _member(event: Json) -> str:
    """By what a subagent is known; empty for the session itself."""
    return str(event.get("parent_tool_use_id") or "")


def _status(event: Json) -> int | None:
    status = event.get("api_error_status")
    return status if isinstance(status, int) and not isinstance(status, bool) else None


def _denials(result: Json) -> str:
    denied = result.get("permission_denials")
    tools = [str(table(each).get("tool_name", "a tool")) for each in denied] if isinstance(denied, list) else []
    told = ", ".join(f"{tool} ({tools.count(tool)})" for tool in sorted(set(tools)))
    return one_line(f"permission was denied: {told}") if told else ""
