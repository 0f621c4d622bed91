"""Reads the events of `codex exec --json` and judges the attempt.

One line is one JSON object. Whatever is no object is text: Codex says on standard error why it did not start, and which
calls it refused. An `error` event is a note that it tries again, or comes before the `turn.failed` that decides.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from agent_fleet.api import Event, Exit, Job, Outcome, plain, well_formed
from agent_fleet_providers._answers import answered, last_words
from agent_fleet_providers._codex_errors import FULL, classify, retry
from agent_fleet_providers._codex_threads import Threads
from agent_fleet_providers._codex_usage import Meter
from agent_fleet_providers._endings import by_cause, by_signal, status
from agent_fleet_providers._event_lines import EventLines, Json
from agent_fleet_providers._figures import table
from agent_fleet_providers._output import one_line, said
from agent_fleet_providers._verdict import verdict

ROUTER = re.compile(r"\bERROR codex_core::tools::router: error=(.*)", re.S)
DENIED = re.compile(r"\b(?:reject|rejected|denied|declined|cannot ask for)\b", re.I)
SANDBOX = re.compile(r"\bbwrap: .*", re.S)
HELPER = re.compile(r"WARNING: .*\bRefusing to create helper binaries\b.*", re.S)

EventKind = Literal["started", "text", "tool", "retry", "limit", "denied", "result", "other"]


class CodexReader:
    """Keeps what decides: how the turn ended, the last error since there was progress, the last message, the text lines.

    `thread` is the conversation that the attempt goes on with; `threads` is where use is looked up, None if nowhere.
    """

    def __init__(
        self, job: Job, threads: Threads | None = None, *, thread: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._job = job
        self._clock = clock
        self._meter = Meter(threads, resumed=bool(thread))
        self._lines = EventLines()
        self._session = thread
        self._opened = False
        self._began = False
        self._worked = False
        self._completed = False
        self._failed: str | None = None
        self._trouble = ""
        self._answer = ""
        self._open: set[str] = set()
        self._refusals = 0
        self._declined = 0
        self._ran = False
        self._sandbox = ""
        self._helper = ""

    def feed(self, line: str) -> Iterable[Event]:
        event = self._lines.event(line)
        if event is None:
            return self._text(line)
        handlers: Mapping[str, Callable[[Json], list[Event]]] = {
            "thread.started": self._thread,
            "turn.started": self._turn_started,
            "item.started": self._item,
            "item.updated": self._item,
            "item.completed": self._item,
            "error": self._error,
            "turn.completed": self._turn_completed,
            "turn.failed": self._turn_failed,
        }
        handler = handlers.get(str(event.get("type")))
        return handler(event) if handler else ()

    def outcome(self, ended: Exit) -> Outcome:
        """Judge the attempt.

        An answer counts if the turn was completed and the process ended well, or if it holds the verdict of this attempt.
        A refusal that nothing came after counts even if the fleet lost patience first: waiting for a limit is no timeout.
        """
        judged = self._judge(ended)
        if self._sandbox and not self._ran and judged.kind in ("done", "failed"):
            why = f"Codex could run no command in its sandbox: {self._sandbox}"
            judged = replace(judged, kind="refused", reason=one_line(why))
        full = self._failed is not None and FULL.match(self._failed)
        known = (self._began or judged.kind != "refused") and not full  # a full thread is none to go on with
        return replace(judged, session=self._session if known else "", usage=self._meter.usage)

    # ------------------------------------------------------------------------------------------------ events

    def _text(self, line: str) -> list[Event]:
        """What a line of text says about a call that Codex did not carry out, or about its sandbox."""
        found = ROUTER.search(line)
        if broken := SANDBOX.search(found[1] if found else line if line.startswith("bwrap: ") else ""):
            self._sandbox = one_line(broken[0])
            return [self._event("denied", self._sandbox)]
        if not self._began and (warned := HELPER.match(line)):
            self._helper = one_line(warned[0])
            return [self._event("other", self._helper)]
        if found and DENIED.search(found[1]):
            self._refusals += 1
            return [self._event("denied", plain(found[1]))]
        return []

    def _thread(self, event: Json) -> list[Event]:
        thread = event.get("thread_id")
        if self._opened or not isinstance(thread, str) or not thread:
            return []
        self._opened = True
        self._session = well_formed(thread)
        return [self._event("started", f"Codex, thread {self._session}")]

    def _turn_started(self, _event: Json) -> list[Event]:
        self._began = True
        self._meter.began(self._session)
        return []

    def _item(self, event: Json) -> list[Event]:
        item = table(event.get("item"))
        kind = str(item.get("type", ""))
        completed = event.get("type") == "item.completed"
        if kind == "error":  # a warning: about the model's name, a hook, a setting
            return [self._event("other", str(item.get("message", "")))] if completed else []
        self._go_on()
        if kind == "agent_message":
            return self._message(str(item.get("text") or "")) if completed else []
        told = _told(kind, item)
        if completed:
            self._finish(kind, item)
        name = str(item.get("id", ""))
        known = name in self._open
        (self._open.discard if completed else self._open.add)(name)
        return [self._event("tool", told, metered=True)] if told and not known else []

    def _go_on(self) -> None:
        self._worked = True
        self._completed = False
        self._failed = None
        self._trouble = ""

    def _message(self, text: str) -> list[Event]:
        text = well_formed(text)
        if verdict(text, self._job.nonce) or not verdict(self._answer, self._job.nonce):
            self._answer = text
        return [self._event("text", text, metered=True)] if text.strip() else []

    def _finish(self, kind: str, item: Json) -> None:
        if kind == "command_execution":
            output = str(item.get("aggregated_output") or "")
            if item.get("status") == "declined":
                self._declined += 1
            elif item.get("exit_code") and output.startswith("bwrap: "):
                self._sandbox = one_line(output)
            else:
                self._ran = True
        agents = item.get("receiver_thread_ids")
        if kind == "collab_tool_call" and isinstance(agents, list):
            for agent in agents:
                self._meter.agent(str(agent))

    def _error(self, event: Json) -> list[Event]:
        message = str(event.get("message") or "")
        again = retry(message)
        self._trouble = again.why if again else message
        return [self._event("retry", f"try {again.which}: {again.why}")] if again else []

    def _turn_completed(self, event: Json) -> list[Event]:
        self._meter.ended(event.get("usage"))
        self._go_on()
        self._completed = True
        return [self._event("result", self._answer, metered=True)]

    def _turn_failed(self, event: Json) -> list[Event]:
        self._meter.ended()
        self._failed = str(table(event.get("error")).get("message") or self._trouble)
        judged = classify(self._failed, self._clock(), worked=self._worked)
        return [self._event("limit" if judged.kind == "limit" else "other", judged.reason, metered=True)]

    def _event(self, kind: EventKind, text: str, *, metered: bool = False) -> Event:
        return Event(
            kind=kind, text=said(kind, text), session=self._session, usage=self._meter.usage if metered else None
        )

    # ------------------------------------------------------------------------------------------------ judging

    def _judge(self, ended: Exit) -> Outcome:
        if self._completed:
            if verdict(self._answer, self._job.nonce) or (ended.cause == "exited" and ended.code == 0):
                return answered(
                    self._answer,
                    self._job.nonce,
                    host=self._job.task.host,
                    now=self._clock(),
                    note=self._note(),
                )
        elif self._failed is not None:
            judged = classify(self._failed, self._clock(), worked=self._worked)
            return judged if judged.kind != "failed" else by_cause(ended) or judged
        return self._waiting() or by_cause(ended) or self._unfinished(ended)

    def _waiting(self) -> Outcome | None:
        """What the attempt waited for when it ended, if that was the service's leave to go on."""
        if not self._trouble:
            return None
        judged = classify(self._trouble, self._clock(), worked=self._worked)
        return judged if judged.kind in ("limit", "auth", "overload") else None

    def _unfinished(self, ended: Exit) -> Outcome:
        lines = [line.strip() for line in self._lines.tail.lines if line.strip()]
        if not self._began and (wall_met := last_words(lines, self._clock())):
            return wall_met
        if crashed := by_signal(ended):
            return crashed
        last = f": {one_line(_last_error(lines))}" if lines else ""
        if not self._began and ended.code:
            return Outcome(kind="refused", reason=f"Codex did not begin, {status(ended)}{last}")
        if self._completed:
            return Outcome(kind="failed", reason=f"{status(ended)} after an answer without a verdict{last}")
        if ended.code == 0:
            return Outcome(kind="unknown", reason=f"ended without a result{last}")
        return Outcome(kind="crashed", reason=f"{status(ended)} before the turn was over{last}")

    def _note(self) -> str:
        """What to know of a task that is done: that calls were refused, or that the sandbox may have let none through."""
        denied = max(self._refusals, self._declined)
        if denied:
            return f"permission was denied ({denied})"
        if self._helper and not self._ran:
            return one_line(f"no command was run, and Codex lacks its sandbox helper: {self._helper}")
        return ""


def _told(kind: str, item: Json) -> str:
    """An item in words, empty if it is nothing that the agent did."""
    if kind == "command_execution":
        return str(item.get("command", ""))
    if kind == "file_change":
        changes = item.get("changes")
        told = [table(each) for each in changes] if isinstance(changes, list) else []
        return "; ".join(f"{each.get('kind', 'change')} {each.get('path', '')}" for each in told)
    if kind == "mcp_tool_call":
        return f"{item.get('server', '')}.{item.get('tool', '')}"
    if kind == "web_search":
        return f"web search: {item.get('query', '')}"
    return f"{item.get('tool', '')}: {item.get('prompt') or ''}" if kind == "collab_tool_call" else ""


def _last_error(lines: list[str]) -> str:
    """The line that says what is wrong: what follows an error may be help, the last line is the best guess otherwise."""
    return next((line for line in lines if line.lower().startswith("error")), lines[-1])
