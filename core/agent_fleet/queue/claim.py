"""Claiming: find the first task that may start now, and take it by one rename.

Order: priority, then age. A task's gate names the condition it waits on; a gate found shut is passed over whole.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from agent_fleet.errors import FleetError
from agent_fleet.queue import names
from agent_fleet.queue.lease import Owner
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import Queue, remove_if_empty

Held = tuple[str, int, str, str, str]


class Only:
    """Lets nothing through but the tasks of one deployment, or those with one of these wishes for a pool of accounts.

    What a task belongs to and wishes for never changes, so each is read once.
    """

    __slots__ = ("_known", "pools", "run")

    def __init__(self, run: str = "", pools: Collection[str] | None = None) -> None:
        self.run = run
        self.pools = pools
        self._known: dict[str, bool] = {}

    def passes(self, queue: Queue, task: str, path: str) -> bool:
        """Whether the task whose file is at `path` is one of them; no, if the file is gone or cannot be read."""
        if task not in self._known:
            body = queue.body(path, task)
            if body is None:
                return False
            is_of_run = not self.run or body.get("run") == self.run
            self._known[task] = is_of_run and (self.pools is None or body.get("pool", "") in self.pools)
        return self._known[task]


class Rules(NamedTuple):
    """What limits a claim: `host_max` tasks of one host at once; `holds` are the ids that wait, each with its reason;
    `only` leaves all tasks alone that it does not let through.
    """

    host_max: Callable[[str], int]
    holds: dict[str, str]
    only: Only | None = None


class Claimed(NamedTuple):
    task: str
    generation: int
    gate: str
    path: str
    body: dict[str, Any]


class Candidate(NamedTuple):
    number: int
    task: str
    generation: int
    gate: str
    path: str


Wanted = Callable[[int, str, str, str], bool]


def anything(_priority: int, _need: str, _lane: str, _provider: str) -> bool:
    return True


class Claim:
    """One search of the inbox on behalf of one owner. `refusals` counts why candidates were passed over, by gate or task."""

    __slots__ = ("_done", "_gates", "_glance", "_look", "_touched", "owner", "queue", "refusals", "rules")

    def __init__(self, queue: Queue, owner: Owner, rules: Rules) -> None:
        self.queue = queue
        self.owner = owner
        self.rules = rules
        self.refusals: dict[str, str] = {}
        self._gates: dict[str, str] = {}
        self._done: dict[str, frozenset[str]] = {}
        self._touched: dict[str, tuple[str, ...]] = {}
        self._glance: list[Held] | None = None
        self._look: Iterator[Candidate] = iter(())

    def take(self, wanted: Wanted = anything) -> Claimed | None:
        """Claim the first task that may start, or None."""
        return next(iter(self.take_some(1, wanted)), None)

    def take_some(self, most: int, wanted: Wanted = anything) -> list[Claimed]:
        """Claim up to so many of the tasks that may start, by one look at the inbox and one write to the journal."""
        self._look = self.candidates(wanted)
        return self.take_more(most)

    def take_more(self, most: int) -> list[Claimed]:
        """Go on with the last look where it was left: what came to the inbox since is not seen, what left it is passed over."""
        found: list[Claimed] = []
        emptied: set[str] = set()
        try:
            while len(found) < most and (candidate := next(self._look, None)) is not None:
                claimed = self._try(candidate)
                if claimed is not None:
                    found.append(claimed)
                    emptied.add(os.path.dirname(candidate.path))
        except (FleetError, OSError):
            if not found:  # else what was taken is worked on, and the next look meets the same
                raise
        self._tell(found)
        for directory in emptied:
            remove_if_empty(directory)
        return found

    # ------------------------------------------------------------------------------------------------ the order

    def candidates(self, wanted: Wanted = anything) -> Iterator[Candidate]:
        """Waiting tasks in claim order, without those behind a gate that is known to be shut."""
        by_priority: dict[int, list[str]] = {}
        for (priority, need, lane, provider), track in self.queue.tracks():
            if wanted(priority, need, lane, provider):
                by_priority.setdefault(priority, []).append(track)
        for priority in sorted(by_priority):
            for candidate in heapq.merge(*(self._in_track(track) for track in by_priority[priority])):
                only = self.rules.only
                if only is None or only.passes(self.queue, candidate.task, candidate.path):
                    yield candidate

    def _in_track(self, track: str) -> Iterator[Candidate]:
        for bucket in self.queue.buckets("inbox", track):
            found = self._in_bucket(track, bucket)
            if not found:
                remove_if_empty(self.queue.path("inbox", track, bucket))
            for candidate in found:
                if not self._gates.get(candidate.gate):
                    yield candidate

    def _in_bucket(self, track: str, bucket: str) -> list[Candidate]:
        found = []
        for gate in self.queue.listing("inbox", track, bucket):
            if self._is_shut(gate):
                # one name is enough to keep the bucket from looking empty; none of its tasks can start now
                found.append(Candidate(0, "", 0, gate, ""))
                continue
            entries = self.queue.entries("inbox", track, bucket, gate)
            if not entries:
                remove_if_empty(self.queue.path("inbox", track, bucket, gate))
            for number, task, generation, name in entries:
                path = self.queue.path("inbox", track, bucket, gate, name)
                found.append(Candidate(number, task, generation, gate, path))
        found.sort()
        return found

    # --------------------------------------------------------------------------------------------- the conditions

    def _is_shut(self, gate: str) -> bool:
        """Whether everything behind this gate must wait, as far as the gate's name alone can tell."""
        known = self._gates.get(gate)
        if known is None:
            known = ""
            needed = names.awaited(gate)
            if needed:
                known = "" if self._is_done(needed) else f"needs {needed}, which is not done"
            elif gate != names.FREE:
                known = self._host_is_full(gate, self._seen()) or self._all_is_taken(gate)
            self._shut(gate, known)
        return bool(known)

    def _shut(self, gate: str, why: str) -> None:
        self._gates[gate] = why
        if why:
            self.refusals[gate] = why

    def obstacle(self, body: dict[str, Any]) -> str:
        """Why the task of this body cannot start now as far as other tasks go, in words; empty if they do not stop it."""
        unmet = self._unmet(body)
        return f"needs {unmet}, which is not done" if unmet else self._conflict(_gate(body), body, self._seen())

    def _unmet(self, body: dict[str, Any]) -> str | None:
        return next((needed for needed in body.get("needs", ()) if not self._is_done(needed)), None)

    def _seen(self) -> list[Held]:
        """Who was active when this search first asked: good enough to pass a task over, never to give one out."""
        if self._glance is None:
            self._glance = self.queue.active()
        return self._glance

    def _is_done(self, task: str) -> bool:
        bucket = names.bucket_of(task)
        if bucket not in self._done:
            self._done[bucket] = self.queue.done_in(bucket)
        return task in self._done[bucket]

    def _conflict(self, gate: str, body: dict[str, Any], active: list[Held]) -> str:
        why = self._host_is_full(gate, active)
        if not why and names.touches_of_gate(gate):
            why = self._paths_are_taken(body.get("touches", []), active)
        return why

    def _host_is_full(self, gate: str, active: list[Held]) -> str:
        host = names.host_of_gate(gate)
        if not host:
            return ""
        limit = self.rules.host_max(host)
        busy = [task for task, _, _, other, _ in active if names.host_of_gate(other) == host]
        if len(busy) < limit:
            return ""
        return f"host {host} allows {limit} at once; active: {', '.join(sorted(busy))}"

    def _all_is_taken(self, gate: str) -> str:
        """Whether somebody works on the whole project, so that nobody else who touches something may start."""
        if names.touches_of_gate(gate):
            for held in self._seen():
                if "**" in self._touched_by(held):
                    return f"touches paths; {held[0]} works on all of them"
        return ""

    def _paths_are_taken(self, touches: list[str], active: list[Held]) -> str:
        from agent_fleet.queue.touches import overlap

        for held in active:
            if overlap(touches, self._touched_by(held)):
                return f"touches paths that {held[0]} works on"
        return ""

    def _touched_by(self, held: Held) -> tuple[str, ...]:
        task, _, _, gate, name = held
        if not names.touches_of_gate(gate):
            return ()
        if name not in self._touched:
            body = self.queue.body(self.queue.path("active", name), task) or {}
            self._touched[name] = tuple(body.get("touches", ()))
        return self._touched[name]

    # ----------------------------------------------------------------------------------------------------- taking

    def _try(self, candidate: Candidate) -> Claimed | None:
        if candidate.task in self.rules.holds:
            self.refusals[candidate.task] = self.rules.holds[candidate.task]
            return None
        body = self.queue.body(candidate.path, candidate.task)
        if body is None:
            return None
        unmet = self._unmet(body)
        if unmet is not None:
            self._move_to_gate(candidate, body, names.waits_for(unmet))
            return None
        gate = _gate(body)
        if gate == names.FREE:
            return self._rename(candidate, body, gate)
        if self._pass_over(candidate, body, gate, self._seen()):
            return None
        with DirLock(self.queue.path("active")):
            if self._pass_over(candidate, body, gate, self.queue.active()):
                return None
            return self._rename(candidate, body, gate)

    def _pass_over(self, candidate: Candidate, body: dict[str, Any], gate: str, active: list[Held]) -> bool:
        why = self._conflict(gate, body, active)
        if why:
            self._shut(gate, why)
            self._move_to_gate(candidate, body, gate)
        return bool(why)

    def _move_to_gate(self, candidate: Candidate, body: dict[str, Any], gate: str) -> None:
        """Let a waiting task wait at the gate that it is really behind, so that the next claim passes it over with the rest."""
        if gate != candidate.gate:
            self.queue.move(candidate.path, self.queue.inbox_path(body, candidate.generation, gate))

    def _rename(self, candidate: Candidate, body: dict[str, Any], gate: str) -> Claimed | None:
        generation = candidate.generation + 1
        name = names.active_name(candidate.task, generation, self.owner.key, gate)
        path = self.queue.path("active", name)
        try:
            os.rename(candidate.path, path)
        except FileNotFoundError:
            return None
        try:
            os.utime(path)
        except FileNotFoundError:
            # somebody reset the task in this very moment: it is theirs to give out again
            return None
        except OSError:
            self.queue.move(path, self.queue.inbox_path(body, generation, gate))
            raise
        return Claimed(candidate.task, generation, gate, path, body)

    def _tell(self, found: Sequence[Claimed]) -> None:
        """Write down what was taken. Work whose start cannot be recorded does not start."""
        if not found:
            return
        owner = self.owner
        who = {"owner": owner.key, "agent": owner.agent, "lane": owner.lane}
        if owner.worker[1]:
            who["worker"] = owner.worker[1]
        try:
            self.queue.journal.extend(
                {"event": "claimed", "task": each.task, "gen": each.generation, **who} for each in found
            )
        except OSError:
            for each in found:
                self.queue.move(each.path, self.queue.inbox_path(each.body, each.generation, each.gate))
            raise


def _gate(body: dict[str, Any]) -> str:
    return str(body.get("gate", names.FREE))
