"""Settling an attempt that has ended: the one path from a process's output to a task's next state.

It works from what lies on disk alone, so it is the same after a normal end, a crash of the driver and an adoption.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from agent_fleet import process
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.model import Exit, Outcome, Task
from agent_fleet.plugins import PROVIDERS, Plugins
from agent_fleet.protocols import Provider, Reader
from agent_fleet.queue import finish, lease, records
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import aftermath, check, clerk, logs, roster, workplace
from agent_fleet.run.diffstat import Work
from agent_fleet.run.jobs import job_of
from agent_fleet.run.roster import Attempt
from agent_fleet.run.verdict import Verdict, decide

_LINE = 1 << 22
_BLANK = 10_000  # empty lines in a row that a reader is given: more say no more, and millions would cost minutes


class Settled(NamedTuple):
    """What became of an attempt: the task's state now, what the attempt came to, whether it cost one, and what it left in its
    worktree, in words.
    """

    attempt: Attempt
    state: str
    outcome: Outcome
    charged: bool
    seconds: float
    ended_by_us: bool = False
    work: str = ""


class Bench(NamedTuple):
    """What settling needs besides the attempt. `cancelled` says whether the run is being stopped: a check is then given up."""

    queue: Queue
    config: Config
    plugins: Plugins
    environ: Mapping[str, str]
    cancelled: Callable[[], bool] = lambda: False


def settle(bench: Bench, attempt: Attempt) -> Settled:
    """Judge an ended attempt, run its check, put the outcome on record and move the task.

    What a dead keeper left behind is ended first. Raises FleetError (`still_alive`) if that cannot be proved; then, and
    after an OSError, the attempt stays unsettled for the next run.
    """
    exit, told = ending(bench, attempt)
    work = aftermath.look(bench.queue, bench.environ, attempt)
    found = _settle(bench, attempt, exit, told, work)
    said = aftermath.clear(bench.queue, bench.environ, attempt, found.state, work)
    return found._replace(work=said)


def _settle(bench: Bench, attempt: Attempt, exit: Exit, told: dict[str, Any], work: Work | None) -> Settled:
    queue = bench.queue
    place = queue.find_active(attempt.task)
    if place is None or place.generation != attempt.generation:
        return _reported_by_itself(bench, attempt, exit)
    if records.outcome(queue, attempt.task, attempt.generation) is not None:
        # whoever wrote it died before the task moved
        lease.give_back(
            queue,
            attempt.task,
            attempt.generation,
            place.gate,
            place.path,
            event="returned",
            why="its outcome was on record",
            owner=place.owner,
        )
        return _reported_by_itself(bench, attempt, exit)
    body = queue.body(place.path, attempt.task)
    if body is None:
        return _reported_by_itself(bench, attempt, exit)
    task = task_from(body)
    outcome = by_note(judge(queue, bench.plugins, attempt, task, exit), exit)
    proof: dict[str, Any] = {} if work is None else {"worktree": work._asdict()}
    if outcome.kind == "done" and aftermath.is_lost(work):
        outcome = replace(outcome, kind="failed", reason="its worktree is gone, and nothing was committed")
    if outcome.kind == "done" and task.check:
        outcome, exit, evidence = _checked(bench, attempt, task, outcome, exit)
        proof |= evidence
    verdict = decide(
        outcome,
        exit,
        charged_before=records.charged(queue, attempt.task),
        max_attempts=bench.config.get("queue.max_attempts"),
    )
    record = _record(attempt, outcome, verdict, told, os.path.relpath(attempt.log, queue.dir)) | proof
    # what it closes is closed before the task is back in the inbox, so that nobody starts it against the same wall in between
    clerk.meet(queue, bench.config, bench.plugins, bench.environ, attempt, outcome, wish=task.model)
    return _conclude(bench, attempt, outcome, verdict, exit, record)


def ending(bench: Bench, attempt: Attempt) -> tuple[Exit, dict[str, Any]]:
    """How the attempt ended, and its whole exit record."""
    found = roster.read_exit(attempt)
    if found is None:
        if not process.stop_tree(attempt.worker.identity, attempt.mark, bench.config.get("run.grace")):
            raise FleetError(
                "still_alive",
                f"what {attempt.id} left behind could not be ended",
                hint="look at its processes, then run `fleet stop`",
            )
        found = roster.read_exit(attempt)  # the keeper may have written it as the last thing that it did
    return found or (Exit(code=None, cause="lost", note="its keeper died"), {})


def _record(attempt: Attempt, outcome: Outcome, verdict: Verdict, told: dict[str, Any], log: str) -> dict[str, Any]:
    return {
        "outcome": outcome.kind,
        "reason": outcome.reason,
        "result": outcome.result,
        "charged": verdict.charged,
        "by": "fleet",
        "run": attempt.run,
        "worker": attempt.id,
        "lane": attempt.lane,
        "provider": attempt.provider,
        **({"account": attempt.account} if attempt.account else {}),
        "session": outcome.session,
        "usage": asdict(outcome.usage),
        "limit": outcome.limit,
        "resets_at": outcome.resets_at,
        "exit": told,
        "log": log,
    }


def _conclude(
    bench: Bench, attempt: Attempt, outcome: Outcome, verdict: Verdict, exit: Exit, record: dict[str, Any]
) -> Settled:
    """Write the record and move the task."""
    try:
        finish.finish(bench.queue, attempt.task, Proof(generation=attempt.generation), verdict.state, record)
    except FleetError as error:
        if error.code != "lease_lost":
            raise
        return _reported_by_itself(bench, attempt, exit)
    roster.mark_settled(attempt)
    return Settled(attempt, verdict.state, outcome, verdict.charged, exit.seconds, exit.cause != "exited")


def by_note(outcome: Outcome, exit: Exit) -> Outcome:
    """The outcome of an attempt that the driver had stopped, by the reason that it left."""
    kind, colon, why = exit.note.partition(": ")
    if exit.cause != "stopped" or not colon or outcome.kind == "done":
        return outcome
    if kind == "budget":
        return replace(outcome, kind="budget", reason=why)
    if kind == "stuck" and outcome.kind not in ("limit", "auth", "overload"):
        return replace(outcome, kind="overload", reason=why)
    return outcome


def judge(queue: Queue, plugins: Plugins, attempt: Attempt, task: Task, exit: Exit) -> Outcome:
    """What the provider makes of the whole output. A provider that raises, or is gone, leaves the outcome unknown."""
    try:
        offer = plugins.offer(PROVIDERS, attempt.provider)
        return plugins.ask(offer, lambda provider: _read(provider, queue, attempt, task, exit))
    except FleetError as error:
        return Outcome(kind="unknown", reason=f"its output could not be judged: {error.message}")


def _read(provider: Provider, queue: Queue, attempt: Attempt, task: Task, exit: Exit) -> Outcome:
    reader = provider.reader(job_of(queue, attempt, task))
    try:
        feed_all(reader, attempt.log)
    except OSError as error:
        found = reader.outcome(exit)
        if found.kind != "done":
            return found
        return Outcome(kind="unknown", reason=f"its output cannot be read: {error.strerror}", usage=found.usage)
    return reader.outcome(exit)


def feed_all(reader: Reader, log: str) -> None:
    """Give a reader the whole log, line by line. Raises OSError.

    A line longer than 4 Mi characters comes in pieces, and a row of more than 10,000 empty lines is cut to that.
    """
    blank = 0
    with logs.open_log(log) as file:
        while line := file.readline(_LINE):
            blank = blank + 1 if line == "\n" else 0
            if blank > _BLANK:
                continue
            for _ in reader.feed(line.rstrip("\n")):
                pass


def _checked(
    bench: Bench, attempt: Attempt, task: Task, outcome: Outcome, exit: Exit
) -> tuple[Outcome, Exit, dict[str, Any]]:
    """Run the task's check: an agent's word that it is done counts for nothing without it."""
    place = workplace.of_check(bench.queue, bench.config, attempt, bench.environ)
    result = check.run(
        task.check,
        cwd=place.cwd,
        environ=place.environment(bench.environ),
        scratch=attempt.dir,
        marks={"FLEET_RUN": attempt.run_mark, "FLEET_WORKER": f"{attempt.mark}-check"},
        cancelled=bench.cancelled,
    )
    evidence = {"check": result.as_record()}
    if result.passed:
        return outcome, exit, evidence
    if result.cancelled:
        return (
            replace(outcome, kind="unknown", reason=f"the check: {result.why}"),
            replace(exit, cause="stopped"),
            evidence,
        )
    return replace(outcome, kind="failed", reason=f"the check failed: {result.why}"), exit, evidence


def _reported_by_itself(bench: Bench, attempt: Attempt, exit: Exit) -> Settled:
    """The task has left this lease: its worker reported it, or a person reset it. What it used is noted all the same."""
    queue = bench.queue
    place = queue.find(attempt.task)
    body = queue.body(place.path, attempt.task) if place else None
    if body is not None:
        used = judge(queue, bench.plugins, attempt, task_from(body), exit).usage
        if used.tokens or used.turns or used.money is not None:
            queue.tell(
                "spent",
                task=attempt.task,
                gen=attempt.generation,
                run=attempt.run,
                provider=attempt.provider,
                lane=attempt.lane,
                usage=asdict(used),
            )
    roster.mark_settled(attempt)
    record = records.outcome(queue, attempt.task, attempt.generation) or {}
    outcome = Outcome(
        kind=record.get("outcome", "unknown"),
        reason=str(record.get("reason", "the lease was taken away")),
        result=str(record.get("result", "")),
    )
    return Settled(
        attempt,
        place.state if place else "lost",
        outcome,
        bool(record.get("charged")),
        exit.seconds,
        exit.cause != "exited",
    )
