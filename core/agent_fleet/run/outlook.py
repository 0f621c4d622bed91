"""Looking before acting: the board, the machine and the policies folded into one plan. `fleet plan` and `fleet run` share it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent_fleet.config import Config
from agent_fleet.cost import CostBook
from agent_fleet.errors import FleetError
from agent_fleet.machine import Machine, measure
from agent_fleet.model import Board, Ceiling, Hold, Policy, Task
from agent_fleet.plan import Claimable, LaneFacts, Plan, Routes, make
from agent_fleet.plugins import LANES, POLICIES, PROVIDERS, Plugins
from agent_fleet.queue import board as boards
from agent_fleet.queue import holds, names
from agent_fleet.queue.claim import Rules
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from

_VETTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What one invocation asks for: at most `cap` workers (None: no cap), one lane or provider for all, no machine limit."""

    cap: int | None = None
    lane: str = ""
    provider: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """One look: what there is, what the machine can take, and the plan that follows."""

    board: Board
    machine: Machine
    plan: Plan
    routes: Routes
    warnings: tuple[str, ...]


def routes_of(config: Config, wishes: Wishes) -> Routes:
    return Routes(
        lanes={need: config.get(f"lanes.{need}") for need in names.NEEDS},
        provider=config.get("providers.default"),
        lane_override=wishes.lane,
        provider_override=wishes.provider,
    )


def rules_of(queue: Queue, config: Config) -> Rules:
    return Rules(config.hosts_max, holds.reasons(queue))


def look(
    queue: Queue,
    config: Config,
    plugins: Plugins,
    wishes: Wishes,
    *,
    running: Mapping[str, int],
    owed_memory: float = 0.0,
    book: CostBook | None = None,
) -> Outlook:
    """Read everything once and make the plan.

    `running` are this project's dispatched workers by lane; `owed_memory` is what they were let in for and have not taken yet.
    """
    routes = routes_of(config, wishes)
    board = boards.read(queue)
    lane, provider = _next(board, routes)
    machine = measure(
        plugins, config, provider=provider, lane=lane, running=sum(running.values()), owed_memory=owed_memory, book=book
    )
    warnings = list(machine.warnings)
    overall = [*_cap(config, wishes), _machine_ceiling(machine, wishes), *_policies(plugins, board, warnings)]
    plan = make(
        board,
        routes,
        [lane_facts(plugins, name) for name in sorted(_lanes(board, routes))],
        overall,
        claimable=_claimable(queue, config, board),
        running=running,
        unknown_workers=config.get("capacity.unknown_workers"),
    )
    return Outlook(board=board, machine=machine, plan=plan, routes=routes, warnings=tuple(warnings))


def lane_facts(plugins: Plugins, name: str) -> LaneFacts:
    """A lane's own limit and whether it can be used; one that is missing or broken cannot, and says why."""
    try:
        offer = plugins.offer(LANES, name)
        limit, reason = plugins.ask(offer, lambda lane: (lane.limit, lane.usable()))
    except FleetError as error:
        return LaneFacts(name=name, limit=None, unusable=error.message)
    return LaneFacts(name=name, limit=limit, unusable=reason or "")


def provider_trouble(plugins: Plugins, name: str) -> str:
    """Why a provider cannot be used on this machine, or an empty string."""
    try:
        offer = plugins.offer(PROVIDERS, name)
        return plugins.ask(offer, lambda provider: provider.usable()) or ""
    except FleetError as error:
        return error.message


def vet(queue: Queue, plugins: Plugins, board: Board, warnings: list[str]) -> None:
    """Ask the policies about the tasks that would be claimed next, and leave their holds where every claim reads them."""
    changes: dict[str, dict[str, object] | None] = {}
    tasks = list(itertools.islice(_first_tasks(queue), _VETTED))
    for offer in plugins.all(POLICIES):
        try:
            found = plugins.ask(offer, lambda policy: _holds_of(policy, tasks, board))
        except FleetError as error:
            warnings.append(f"the policy {offer.name} could not be asked: {error.message}")
            continue
        for task, hold in found:
            until = hold.until if hold.until is not None else time.time() + 60
            changes[task] = {"why": hold.why, "until": until, "source": hold.source}
    holds.put(queue, changes)


def _holds_of(policy: Policy, tasks: list[Task], board: Board) -> list[tuple[str, Hold]]:
    found = []
    for task in tasks:
        hold = policy.hold(task, board)
        if hold is not None:
            found.append((task.id, hold))
    return found


def _first_tasks(queue: Queue) -> Iterator[Task]:
    for _, track in queue.tracks():
        for bucket in queue.buckets("inbox", track):
            for gate in queue.listing("inbox", track, bucket):
                for _, task, _, name in queue.entries("inbox", track, bucket, gate):
                    body = queue.body(queue.path("inbox", track, bucket, gate, name), task)
                    if body is not None:
                        yield task_from(body)


def _next(board: Board, routes: Routes) -> tuple[str, str]:
    """The lane and provider of what would start next: the cost that the machine is measured for."""
    for group in sorted(board.waiting, key=lambda group: group.priority):
        return routes.lane(group.need, group.lane), routes.provider_for(group.need, group.provider)
    return routes.lane("agent", ""), routes.provider_for("agent", "")


def _lanes(board: Board, routes: Routes) -> set[str]:
    return {routes.lane(group.need, group.lane) for group in board.waiting}


def _cap(config: Config, wishes: Wishes) -> list[Ceiling]:
    found = []
    configured = config.get("run.max_workers")
    if configured:
        source = config.source("run.max_workers")
        found.append(Ceiling(name="cap", workers=configured, source=source, why="your configured cap"))
    if wishes.cap is not None:
        found.append(Ceiling(name="cap", workers=wishes.cap, source="command line", why="the cap you asked for"))
    return found


def _machine_ceiling(machine: Machine, wishes: Wishes) -> Ceiling:
    measured = machine.capacity.ceiling()
    if not wishes.force:
        return measured
    return Ceiling(
        name="machine",
        workers=1_000_000,
        source="--force",
        why=f"not counted, because you said --force (measured: {measured.workers}, {measured.why})",
        at=measured.at,
    )


def _policies(plugins: Plugins, board: Board, warnings: list[str]) -> list[Ceiling]:
    found = []
    for offer in plugins.all(POLICIES):
        try:
            ceiling = plugins.ask(offer, lambda policy: policy.ceiling(board))
        except FleetError as error:
            warnings.append(f"the policy {offer.name} could not be asked: {error.message}")
            continue
        if ceiling is not None:
            found.append(ceiling)
    return found


def _claimable(queue: Queue, config: Config, board: Board) -> Claimable:
    """How many tasks behind a gate could be active besides those that are."""
    busy: dict[str, int] = {}
    taken = set()
    for held in board.active:
        host = names.host_of_gate(held.gate)
        busy[host] = busy.get(host, 0) + 1
        taken.add(names.touches_of_gate(held.gate))
    done: dict[str, bool] = {}

    def claimable(gate: str, count: int) -> int:
        needed = names.awaited(gate)
        if needed:
            if needed not in done:
                done[needed] = queue.is_done(needed)
            return count if done[needed] else 0
        host, touches = names.host_of_gate(gate), names.touches_of_gate(gate)
        allowed = count
        if host:
            allowed = min(allowed, max(0, config.hosts_max(host) - busy.get(host, 0)))
        if touches:
            allowed = min(allowed, 0 if touches in taken else 1)
        return allowed

    return claimable
