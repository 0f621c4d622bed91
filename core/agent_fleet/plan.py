"""The plan: how many workers, in which lanes, and what limits each number. Pure: board + ceilings → plan.

    workers = min(work available, your cap, hosts and paths, machine headroom, lane, policies)

Every number in it carries who says so and why; the smallest binds and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_fleet.model import Board, Ceiling, Waiting
from agent_fleet.queue import names


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Where work goes: a lane for each need, and what one run overrides."""

    lanes: Mapping[str, str]
    provider: str
    lane_override: str = ""
    provider_override: str = ""

    def lane(self, need: str, wish: str) -> str:
        """The lane for a task: what this run says, else what the task wishes, else what its need is mapped to."""
        return self.lane_override or wish or self.lanes[need]

    def provider_for(self, need: str, wish: str) -> str:
        """The kind of agent for a task. A shell command is run as it is, whatever agent a run prefers."""
        if need == "command":
            return "command"
        return wish or self.provider_override or self.provider


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFacts:
    """What is known of a lane: its own limit (None: none), and why it cannot be used here (empty: it can)."""

    name: str
    limit: int | None
    unusable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePlan:
    """One lane: how many workers it will have in all, how many run now, and what binds the number."""

    lane: str
    waiting: int
    running: int
    workers: int
    binding: Ceiling
    ceilings: tuple[Ceiling, ...]
    providers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many workers in all, by lane; `ceilings` hold for all lanes together, the smallest is `binding`."""

    workers: int
    running: int
    binding: Ceiling
    ceilings: tuple[Ceiling, ...]
    lanes: tuple[LanePlan, ...]
    notes: tuple[str, ...] = ()

    @property
    def starts(self) -> int:
        """How many more workers may start now."""
        return max(0, self.workers - self.running)

    def lane(self, name: str) -> LanePlan | None:
        return next((lane for lane in self.lanes if lane.lane == name), None)


Claimable = Callable[[str, int], int]


def make(
    board: Board,
    routes: Routes,
    lanes: Sequence[LaneFacts],
    overall: Iterable[Ceiling],
    *,
    claimable: Claimable,
    running: Mapping[str, int],
    unknown_workers: int,
) -> Plan:
    """Make the plan. `running` are this project's dispatched workers by lane; `overall` are the ceilings for all lanes.

    `claimable(gate, count)` says how many of the tasks behind a gate could be active in addition to those that are. A
    ceiling that is unknown counts as `unknown_workers`, and is shown as unknown.
    """
    per_lane = _by_lane(board.waiting, routes)
    facts = {lane.name: lane for lane in lanes}
    waiting = sum(group.count for group in board.waiting)
    busy = sum(running.values())
    work = Ceiling(
        name="work",
        workers=waiting + busy,
        source="queue",
        why=f"{waiting} tasks wait, {busy} are at work",
        at=board.now,
    )
    ceilings = (work, *overall)
    binding = smallest(ceilings, unknown_workers)
    total = counted(binding, unknown_workers)
    left = max(0, total - busy)
    plans = []
    for name, groups in sorted(per_lane.items(), key=lambda item: (min(group.priority for group in item[1]), item[0])):
        plan = _lane_plan(
            name, groups, facts.get(name), routes, claimable, running.get(name, 0), left, binding, board.now
        )
        left -= plan.workers - plan.running
        plans.append(plan)
    idle = [_idle_lane(name, number, binding) for name, number in running.items() if name not in per_lane and number]
    whole = tuple(plans + idle)
    workers = sum(lane.workers for lane in whole)
    if workers < total and plans:
        binding = min((lane.binding for lane in plans), key=lambda ceiling: counted(ceiling, unknown_workers))
    return Plan(workers=workers, running=busy, binding=binding, ceilings=ceilings, lanes=whole)


def smallest(ceilings: Iterable[Ceiling], unknown_workers: int) -> Ceiling:
    """The ceiling that binds; the first of equals."""
    return min(ceilings, key=lambda ceiling: counted(ceiling, unknown_workers))


def counted(ceiling: Ceiling, unknown_workers: int) -> int:
    """What a ceiling counts for: an unknown one is conservative, never plenty."""
    return unknown_workers if ceiling.workers is None else ceiling.workers


def _by_lane(waiting: Iterable[Waiting], routes: Routes) -> dict[str, list[Waiting]]:
    found: dict[str, list[Waiting]] = {}
    for group in waiting:
        found.setdefault(routes.lane(group.need, group.lane), []).append(group)
    return found


def _lane_plan(
    name: str,
    groups: list[Waiting],
    facts: LaneFacts | None,
    routes: Routes,
    claimable: Claimable,
    running: int,
    left: int,
    overall: Ceiling,
    now: float,
) -> LanePlan:
    waiting = sum(group.count for group in groups)
    ceilings = [
        Ceiling(name="work", workers=waiting + running, source="queue", why=f"{waiting} tasks wait here", at=now),
        _exclusion(groups, claimable, running, now),
        *_own_limits(name, facts),
        Ceiling(name=overall.name, workers=running + left, source=overall.source, why=overall.why, at=overall.at),
    ]
    binding = min(ceilings, key=lambda ceiling: ceiling.workers or 0)
    return LanePlan(
        lane=name,
        waiting=waiting,
        running=running,
        workers=max(running, binding.workers or 0),
        binding=binding,
        ceilings=tuple(ceilings),
        providers=tuple(sorted({routes.provider_for(group.need, group.provider) for group in groups})),
    )


def _exclusion(groups: list[Waiting], claimable: Claimable, running: int, now: float) -> Ceiling:
    """How many may be active together: one per host, no two on the same paths, none before what it needs."""
    by_gate: dict[str, int] = {}
    for group in groups:
        by_gate[group.gate] = by_gate.get(group.gate, 0) + group.count
    free = sum(claimable(gate, count) for gate, count in by_gate.items())
    hosts = len({names.host_of_gate(gate) for gate in by_gate if names.host_of_gate(gate)})
    waits = sum(count for gate, count in by_gate.items() if names.awaited(gate))
    parts = [f"{free} could start now"]
    parts += [f"{hosts} hosts"] if hosts else []
    parts += [f"{waits} wait for other tasks"] if waits else []
    return Ceiling(name="hosts and paths", workers=free + running, source="queue", why=", ".join(parts), at=now)


def _own_limits(name: str, facts: LaneFacts | None) -> list[Ceiling]:
    if facts is None:
        return [Ceiling(name="lane", workers=0, source=name, why=f"no lane {name!r} is installed")]
    if facts.unusable:
        return [Ceiling(name="lane", workers=0, source=name, why=f"the lane cannot be used: {facts.unusable}")]
    if facts.limit is not None:
        return [Ceiling(name="lane", workers=facts.limit, source=name, why=f"the lane runs {facts.limit} at a time")]
    return []


def _idle_lane(name: str, number: int, binding: Ceiling) -> LanePlan:
    return LanePlan(
        lane=name, waiting=0, running=number, workers=number, binding=binding, ceilings=(binding,), providers=()
    )
