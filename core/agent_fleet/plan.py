"""The plan: how many workers, in which lanes, and what limits each number. Pure: board + ceilings → plan.

    workers = min(work available, your cap, hosts and paths, machine headroom, lane, policies)

Every number in it carries who says so and why; the smallest binds and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agent_fleet.model import Board, Ceiling, Waiting
from agent_fleet.queue import names
from agent_fleet.text import count

SHELL = "command"  # the provider of tasks that are a shell command, whatever agent a run prefers


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
            return SHELL
        return wish or self.provider_override or self.provider


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFacts:
    """What is known of a lane: its own limit (None: none), and why it cannot be used here (empty: it can).

    `seats` is how many workers one session of the providers `crews` is; `empty` seats of these have a task in sight.
    """

    name: str
    limit: int | None
    unusable: str = ""
    seats: int = 0
    empty: int = 0
    crews: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePlan:
    """One lane: how many workers it will have in all, how many run now, and what binds the number.

    With `seats`, so many of the workers are one session, but for those that are dispatched `alone`.
    """

    lane: str
    waiting: int
    running: int
    workers: int
    binding: Ceiling
    ceilings: tuple[Ceiling, ...]
    providers: tuple[str, ...]
    seats: int = 0
    alone: int = 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """What cannot run together: `hosts_max` tasks of a host, one task on the same paths, none before what it needs.

    `busy` counts the active tasks of each host, `taken` are the digests of the paths that active tasks touch, and
    `everything` is the digest of a task that may touch any path.
    """

    hosts_max: Callable[[str], int]
    is_done: Callable[[str], bool]
    busy: Mapping[str, int]
    taken: frozenset[str] = frozenset()
    everything: str = ""


def make(
    board: Board,
    routes: Routes,
    lanes: Sequence[LaneFacts],
    overall: Iterable[Ceiling],
    *,
    exclusion: Exclusion,
    running: Mapping[str, int],
    unknown_workers: int,
    troubles: Mapping[str, str] | None = None,
    held: int = 0,
    rooms: Mapping[str, Ceiling] | None = None,
) -> Plan:
    """Make the plan. `running` are this project's dispatched workers by lane; `overall` are the ceilings for all lanes.

    `troubles` say why a provider cannot be used, by its name; `held` of the waiting tasks are on hold;
    `rooms` say how many more workers the accounts of a provider can take, where its workers need any. A ceiling that is
    unknown counts as `unknown_workers`, and is shown as unknown. Lanes are served by the best priority that waits for
    them; no lane is planned below what runs in it.
    """
    busy = sum(running.values())
    facts = {lane.name: lane for lane in lanes}
    ceilings = (_work(board, busy, held, sum(lane.empty for lane in lanes)), *overall)
    binding = smallest(ceilings, unknown_workers)
    left = max(0, counted(binding, unknown_workers) - busy)
    used = _Used({}, frozenset())
    plans: list[LanePlan] = []
    for name, groups in _by_lane(board.waiting, routes):
        known = facts.get(name)
        usable = _usable(groups, routes, troubles or {})
        lane = _Lane(name, running.get(name, 0), groups, usable, known or LaneFacts(name=name, limit=0))
        own = [*_lane_ceilings(lane, routes, troubles or {}, board.now), *_own_limits(name, known)]
        own += _accounts(lane, routes, rooms or {})
        own.append(_exclusion(lane, exclusion, used, board.now))
        plan = _lane_plan(lane, own, routes, binding, left)
        starts = plan.workers - plan.running
        left -= starts
        used = _fit(lane.usable, exclusion, used, starts)[1]
        plans.append(plan)
    idle = [_idle_lane(name, number, binding) for name, number in running.items() if number]
    planned = {plan.lane for plan in plans}
    if left and plans:
        binding = smallest((plan.binding for plan in plans), unknown_workers)
    plans += [plan for plan in idle if plan.lane not in planned]
    workers = sum(plan.workers for plan in plans)
    return Plan(workers=workers, running=busy, binding=binding, ceilings=ceilings, lanes=tuple(plans))


def smallest(ceilings: Iterable[Ceiling], unknown_workers: int) -> Ceiling:
    """The ceiling that binds; the first of equals."""
    return min(ceilings, key=lambda ceiling: counted(ceiling, unknown_workers))


def counted(ceiling: Ceiling, unknown_workers: int) -> int:
    """What a ceiling counts for: an unknown one is conservative, never plenty."""
    return unknown_workers if ceiling.workers is None else ceiling.workers


# ------------------------------------------------------------------------------------------------------- one lane


class _Lane(NamedTuple):
    """A lane while it is planned: what waits for it, and what of that a usable provider would take."""

    name: str
    running: int
    groups: list[Waiting]
    usable: list[Waiting]
    facts: LaneFacts

    @property
    def empty(self) -> int:
        return self.facts.empty

    def alone(self, workers: int, routes: Routes) -> int:
        """How many of so many new workers are dispatched one by one, because their providers have no crews here."""
        dispatched = [
            group for group in self.usable if routes.provider_for(group.need, group.provider) not in self.facts.crews
        ]
        return min(workers, sum(group.count for group in dispatched))

    def beside(self, tasks: int) -> int:
        """How many workers so many tasks keep at work, besides those that run: empty seats take theirs first."""
        return max(0, tasks - self.empty) + self.running


def _work(board: Board, busy: int, held: int, empty: int) -> Ceiling:
    waiting = sum(group.count for group in board.waiting)
    kept = min(held, waiting)
    why = f"{count(waiting, 'task')} in the inbox, {busy} at work" + (f", {kept} on hold" if kept else "")
    why += f", {empty} of these wait for one" if empty else ""
    return Ceiling(name="work", workers=max(0, waiting - kept - empty) + busy, source="queue", why=why, at=board.now)


def _by_lane(waiting: Iterable[Waiting], routes: Routes) -> list[tuple[str, list[Waiting]]]:
    """What waits for each lane, best priority first; the lanes by the best priority that waits for them."""
    found: dict[str, list[Waiting]] = {}
    for group in sorted(waiting, key=lambda group: (group.priority, group.need, group.gate)):
        found.setdefault(routes.lane(group.need, group.lane), []).append(group)
    return sorted(found.items(), key=lambda item: (item[1][0].priority, item[0]))


def _usable(groups: Iterable[Waiting], routes: Routes, troubles: Mapping[str, str]) -> list[Waiting]:
    return [group for group in groups if routes.provider_for(group.need, group.provider) not in troubles]


def _lane_plan(lane: _Lane, own: list[Ceiling], routes: Routes, overall: Ceiling, left: int) -> LanePlan:
    if overall.name != "work":
        share = Ceiling(
            name=overall.name, workers=lane.running + left, source=overall.source, why=overall.why, at=overall.at
        )
        own = [*own, share]
    binding = min(own, key=lambda ceiling: ceiling.workers or 0)
    workers = max(lane.running, min(binding.workers or 0, lane.running + left))
    return LanePlan(
        lane=lane.name,
        waiting=sum(group.count for group in lane.groups),
        running=lane.running,
        workers=workers,
        binding=binding,
        ceilings=tuple(own),
        providers=tuple(sorted({routes.provider_for(group.need, group.provider) for group in lane.groups})),
        seats=lane.facts.seats,
        alone=lane.alone(workers - lane.running, routes),
    )


def _lane_ceilings(lane: _Lane, routes: Routes, troubles: Mapping[str, str], now: float) -> list[Ceiling]:
    waiting = sum(group.count for group in lane.groups)
    work = Ceiling(
        name="work",
        workers=lane.beside(waiting),
        source="queue",
        why=f"{count(waiting, 'task')} in the inbox"
        + (f", {lane.empty} of them for empty seats" if lane.empty else ""),
        at=now,
    )
    if len(lane.usable) == len(lane.groups):
        return [work]
    wanted = {routes.provider_for(group.need, group.provider) for group in lane.groups}
    why = "; ".join(f"{name} cannot start: {troubles[name]}" for name in sorted(wanted & troubles.keys()))
    number = lane.beside(sum(group.count for group in lane.usable))
    return [work, Ceiling(name="provider", workers=number, source="providers", why=why, at=now)]


def _accounts(lane: _Lane, routes: Routes, rooms: Mapping[str, Ceiling]) -> list[Ceiling]:
    """What the accounts can take, where all that waits needs one; each session of a crew needs one for all its seats."""
    wanted = sorted({routes.provider_for(group.need, group.provider) for group in lane.usable})
    found = [rooms[name] for name in wanted if name in rooms]
    if not found or len(found) < len(wanted):
        return []
    free = sum(room.workers or 0 for room in found) * max(1, lane.facts.seats)
    why = "; ".join(room.why for room in found)
    return [Ceiling(name="accounts", workers=lane.running + free, source=found[0].source, why=why)]


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


# --------------------------------------------------------------------------------------------- what excludes another


class _Used(NamedTuple):
    """What the workers planned so far take of the hosts and paths."""

    hosts: Mapping[str, int]
    paths: frozenset[str]


def _exclusion(lane: _Lane, rules: Exclusion, used: _Used, now: float) -> Ceiling:
    waiting = sum(group.count for group in lane.usable)
    free, _ = _fit(lane.usable, rules, used, waiting)
    gates = {group.gate for group in lane.usable}
    hosts = len({names.host_of_gate(gate) for gate in gates} - {""})
    waits = sum(group.count for group in lane.usable if _awaits(group.gate, rules))
    parts = [f"{free} could start now"]
    parts += [f"{hosts} host{'s' if hosts > 1 else ''}"] if hosts else []
    parts += [f"{waits} wait for other tasks"] if waits else []
    return Ceiling(name="hosts and paths", workers=lane.beside(free), source="queue", why=", ".join(parts), at=now)


def _awaits(gate: str, rules: Exclusion) -> bool:
    needed = names.awaited(gate)
    return bool(needed) and not rules.is_done(needed)


def _fit(groups: Iterable[Waiting], rules: Exclusion, used: _Used, most: int) -> tuple[int, _Used]:
    """How many of these tasks could start besides what is active and `used`, at most `most`, and what is used then."""
    hosts, paths, free = dict(used.hosts), set(used.paths), 0
    for group in groups:
        if _awaits(group.gate, rules):
            continue
        host, digest = names.host_of_gate(group.gate), names.touches_of_gate(group.gate)
        allowed = min(group.count, most - free)
        if host:
            allowed = min(allowed, rules.hosts_max(host) - rules.busy.get(host, 0) - hosts.get(host, 0))
        if digest:
            allowed = min(allowed, 0 if _is_taken(digest, rules.taken | paths, rules.everything) else 1)
        if allowed > 0:
            free += allowed
            hosts[host] = hosts.get(host, 0) + allowed
            paths |= {digest} - {""}
    return free, _Used(hosts, frozenset(paths))


def _is_taken(digest: str, taken: frozenset[str], everything: str) -> bool:
    """Whether a task on these paths must wait, as far as digests tell: different ones may overlap all the same."""
    return digest in taken or everything in taken or (digest == everything and bool(taken))
