"""Settling an attempt that has ended: the one path from a process's output to a task's next state.

It works from what lies on disk alone, so it is the same after a normal end, a crash of the driver and an adoption.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.model import Exit, Outcome, Provider, Reader, Task
from agent_fleet.plugins import PROVIDERS, Plugins
from agent_fleet.queue import finish, holds, records
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import check, roster
from agent_fleet.run.roster import Attempt
from agent_fleet.run.start import job_of
from agent_fleet.run.verdict import decide

_LINE = 1 << 20


class Settled(NamedTuple):
    """What became of an attempt: the task's state now, what the attempt came to, and whether it cost one."""

    attempt: Attempt
    state: str
    outcome: Outcome
    charged: bool
    seconds: float


def settle(queue: Queue, config: Config, plugins: Plugins, attempt: Attempt, environ: Mapping[str, str]) -> Settled:
    """Judge an ended attempt, run its check, put the outcome on record and move the task."""
    found = roster.read_exit(attempt)
    exit, told = found if found else (Exit(code=None, cause="lost", note="its keeper died"), {})
    place = queue.find_active(attempt.task)
    if place is None or place.generation != attempt.generation:
        return _reported_by_itself(queue, attempt, exit)
    body = queue.body(place.path, attempt.task)
    if body is None:
        roster.mark_settled(attempt)
        return Settled(
            attempt, "quarantine", Outcome(kind="unknown", reason="its file is unreadable"), False, exit.seconds
        )
    task = task_from(body)
    outcome = judge(queue, plugins, attempt, task, exit)
    proof: dict[str, Any] = {}
    if outcome.kind == "done" and task.check:
        outcome, proof = _checked(queue, attempt, task, outcome, environ)
    verdict = decide(
        outcome,
        exit,
        charged_before=records.charged(queue, attempt.task),
        max_attempts=config.get("queue.max_attempts"),
        now=time.time(),
    )
    record = {
        "outcome": outcome.kind,
        "reason": outcome.reason,
        "result": outcome.result,
        "charged": verdict.charged,
        "by": "fleet",
        "run": os.path.basename(os.path.dirname(os.path.dirname(attempt.dir))),
        "worker": attempt.id,
        "lane": attempt.lane,
        "provider": attempt.provider,
        "session": outcome.session,
        "usage": asdict(outcome.usage),
        "limit": outcome.limit,
        "resets_at": outcome.resets_at,
        "exit": told,
        "log": os.path.relpath(attempt.log, queue.dir),
        **proof,
    }
    try:
        finish.finish(queue, attempt.task, Proof(generation=attempt.generation), verdict.state, record)
    except FleetError as error:
        if error.code != "lease_lost":
            raise
        return _reported_by_itself(queue, attempt, exit)
    if verdict.hold_until is not None:
        why = f"{outcome.kind}: {outcome.reason}"
        holds.put(queue, {attempt.task: {"why": why, "until": verdict.hold_until, "source": attempt.provider}})
    roster.mark_settled(attempt)
    return Settled(attempt, verdict.state, outcome, verdict.charged, exit.seconds)


def judge(queue: Queue, plugins: Plugins, attempt: Attempt, task: Task, exit: Exit) -> Outcome:
    """What the provider makes of the whole output. A provider that raises, or is gone, leaves the outcome unknown."""
    try:
        offer = plugins.offer(PROVIDERS, attempt.provider)
        return plugins.ask(offer, lambda provider: _read(provider, queue, attempt, task, exit))
    except FleetError as error:
        return Outcome(kind="unknown", reason=f"its output could not be judged: {error.message}")


def _read(provider: Provider, queue: Queue, attempt: Attempt, task: Task, exit: Exit) -> Outcome:
    reader = provider.reader(job_of(queue, attempt, task))
    feed_all(reader, attempt.log)
    return reader.outcome(exit)


def feed_all(reader: Reader, log: str) -> None:
    """Give a reader the whole log, line by line; a line longer than 1 MiB comes in pieces."""
    try:
        file = open(log, encoding="utf-8", errors="replace", newline="\n")  # noqa: SIM115 -- closed below
    except FileNotFoundError:
        return
    with file:
        while line := file.readline(_LINE):
            for _ in reader.feed(line.rstrip("\n")):
                pass


def _checked(
    queue: Queue, attempt: Attempt, task: Task, outcome: Outcome, environ: Mapping[str, str]
) -> tuple[Outcome, dict[str, Any]]:
    """Run the task's check: an agent's word that it is done counts for nothing without it."""
    result = check.run(task.check, cwd=os.path.dirname(queue.dir), environ=environ, scratch=attempt.dir)
    if not result.passed:
        reason = f"the check failed: {result.why}"
        outcome = replace(outcome, kind="failed", reason=reason)
    return outcome, {"check": result.as_record()}


def _reported_by_itself(queue: Queue, attempt: Attempt, exit: Exit) -> Settled:
    """The task has left this lease: its worker reported it, or a person reset it. Nothing is left to do."""
    roster.mark_settled(attempt)
    record = records.outcome(queue, attempt.task, attempt.generation) or {}
    place = queue.find(attempt.task)
    outcome = Outcome(
        kind=record.get("outcome", "unknown"),
        reason=str(record.get("reason", "the lease was taken away")),
        result=str(record.get("result", "")),
    )
    return Settled(attempt, place.state if place else "lost", outcome, bool(record.get("charged")), exit.seconds)
