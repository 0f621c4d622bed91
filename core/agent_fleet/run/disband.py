"""Settling a crew that has ended: what it still held goes back, its session opens or closes gates, its use is put on record."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import NamedTuple

from agent_fleet.model import Exit, Outcome
from agent_fleet.queue import lease
from agent_fleet.queue.store import Queue
from agent_fleet.run import clerk, fitness, roster, slots, turns, workplace
from agent_fleet.run.crews import DISMISSED, UNCLAIMED
from agent_fleet.run.roster import Attempt
from agent_fleet.run.settle import Bench, Settled, by_note, ending, settle


class Disbanded(NamedTuple):
    """How a crew ended: what its session as a whole came to, and which tasks it still held; all of these are back."""

    attempt: Attempt
    outcome: Outcome
    exit: Exit
    returned: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return self.exit.seconds

    @property
    def ended_by_us(self) -> bool:
        return self.exit.cause != "exited"

    @property
    def is_its_own_end(self) -> bool:
        """Whether it ended by itself, or because of something that it did or did not do: nobody had called it off."""
        return self.exit.cause not in ("stopped", "shed") or self.exit.note.startswith(UNCLAIMED)


def close(bench: Bench, attempt: Attempt) -> Settled | Disbanded:
    """Settle an attempt that has ended, of either kind; see `settle` for what it raises."""
    slot = slots.held(bench.environ, attempt.worker.identity, attempt.mark)  # it is free again once this is settled
    found = disband(bench, attempt) if attempt.is_crew else settle(bench, attempt)
    clerk.part(bench.queue, bench.config, bench.plugins, bench.environ, attempt)
    about = (bench.queue, bench.config, attempt, found.outcome, found.seconds)
    fitness.note(*about, slot=slot, ended_by_us=found.ended_by_us)
    return found


def disband(bench: Bench, attempt: Attempt) -> Disbanded:
    """Settle a crew. Its processes are gone, or are ended first; the same holds after a crash and for an adopted one."""
    queue = bench.queue
    exit, told = ending(bench, attempt)
    outcome = _judged(bench, attempt, exit)
    # what it closes is closed before the tasks are back, so that nobody starts them against the same wall in between
    if not attempt.is_launched:
        clerk.meet(queue, bench.config, bench.plugins, bench.environ, attempt, outcome)
    returned = _give_back(queue, attempt)
    workplace.leave(bench.environ, attempt.mark)
    queue.tell(
        "disbanded",
        run=attempt.run,
        worker=attempt.id,
        lane=attempt.lane,
        provider=attempt.provider,
        seats=attempt.seats,
        outcome=outcome.kind,
        reason=outcome.reason,
        returned=list(returned),
        session=outcome.session,
        usage=asdict(outcome.usage),
        exit=told,
    )
    roster.mark_settled(attempt)
    return Disbanded(attempt, outcome, exit, returned)


def _judged(bench: Bench, attempt: Attempt, exit: Exit) -> Outcome:
    outcome = by_note(_read(bench, attempt, exit), exit)
    kind, _, why = exit.note.partition(": ")
    if exit.cause != "stopped" or outcome.kind not in ("unknown", "failed"):
        return outcome
    if kind == DISMISSED:
        return replace(outcome, kind="done", reason=why)
    return replace(outcome, kind="failed", reason=why) if kind == UNCLAIMED else outcome


def _read(bench: Bench, attempt: Attempt, exit: Exit) -> Outcome:
    return _of_its_end(exit) if attempt.is_launched else turns.read(bench.queue, bench.plugins, attempt, exit)


def _of_its_end(exit: Exit) -> Outcome:
    """What the end of a person's own command tells; what it printed is nobody's business."""
    if exit.cause == "exited" and exit.code == 0:
        return Outcome(kind="done", result="its command ended")
    if exit.cause != "exited":
        return Outcome(kind="unknown", reason=exit.note or exit.cause)
    how = f"signal {exit.signal}" if exit.code is None else f"status {exit.code}"
    return Outcome(kind="failed", reason=f"its command ended with {how}")


def _give_back(queue: Queue, attempt: Attempt) -> tuple[str, ...]:
    """Return what was claimed from within the crew's tree and is still held, uncharged."""
    returned = []
    for task, generation, key, gate, name in queue.active():
        holder = lease.owner(queue, key)
        if holder is None or holder.mark != attempt.mark:
            continue
        path = queue.path("active", name)
        if lease.give_back(
            queue, task, generation, gate, path, event="reclaimed", why="the session that held it is over", owner=key
        ):
            returned.append(task)
    return tuple(sorted(returned))
