"""`fleet plan`: what would run, where and why, before anything starts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from agent_fleet.commands import Shared, command, named, terminals
from agent_fleet.commands.terminals import form_options
from agent_fleet.config import Config
from agent_fleet.model import Ceiling, Task
from agent_fleet.plan import LanePlan, Plan
from agent_fleet.queue import intake, lease, names
from agent_fleet.queue.claim import Claim
from agent_fleet.queue.view import task_from
from agent_fleet.run import accounts, fitness, outlook, roster
from agent_fleet.run.accounts import Access, Rooms, sole_provider
from agent_fleet.run.outlook import Outlook, Wishes
from agent_fleet.text import count, duration, line

_SHOWN = 10


@command("plan", help="Show what would run, where and why, before anything starts.")
@click.argument("workers", type=click.IntRange(min=1), required=False)
@click.option("--max", "cap", type=click.IntRange(min=1), help="Plan for at most so many workers.")
@click.option("--lane", default="", help="Plan for this lane only.")
@form_options
@click.option("--provider", default="", help="Plan with this kind of agent where a task names none.")
@click.option("--pool", default="", metavar="NAME", help="Plan with the accounts of this pool.")
@click.option("--force", is_flag=True, help="Do not count what the machine can take.")
@click.option("--count", is_flag=True, help="Print only the number of workers.")
def command_line(
    shared: Shared,
    workers: int | None,
    cap: int | None,
    lane: str | None,
    form: str | None,
    count: bool,
    provider: str,
    pool: str,
    **options: Any,
) -> None:
    kind = provider or sole_provider(shared.config, shared.environ, pool)
    lane = terminals.choose(shared, lane, form)
    named.refuse_unknown(shared, lanes=[lane], providers=[provider], pools=[pool])
    for warning in accounts.warnings(shared.config, shared.environ, pool):
        shared.warn(warning)
    wishes = Wishes(cap=cap or workers, lane=lane, provider=kind, pool=pool, **options)
    plan(shared, wishes, count=count)


def plan(shared: Shared, wishes: Wishes, *, count: bool = False) -> None:
    """Answer with the plan; with `count`, people see the number of workers alone."""
    queue = shared.queue
    intake.recover(queue)
    lease.reclaim(queue, lapse=shared.config.get("queue.lapse"))
    access = Access(shared.root, shared.config, shared.plugins, shared.environ, wishes.pool)
    at_work = roster.at_work(queue)
    seen = outlook.look(queue, shared.config, shared.plugins, wishes, at_work=at_work, rooms=access.at_large)
    for warning in seen.warnings:
        shared.warn(warning)
    first = _first(shared, seen) if not count else []
    lanes = [] if count else outlook.forms(shared.config, shared.plugins, [lane.lane for lane in seen.plan.lanes])
    parts = fitness.rows(queue)
    payload = _payload(seen, first) | {"forms": lanes, "health": parts}
    shown = [*lanes, *(fitness.said(each) for each in parts if each["part"] == "node" or each["state"] != "in")]
    shared.emit(payload, lambda: str(seen.plan.workers) if count else text_of(seen, first, shown))


def _first(shared: Shared, seen: Outlook) -> list[dict[str, Any]]:
    """The tasks that would be claimed first. Their files are read here, so a bad one is found before anything starts."""
    queue, config = shared.queue, shared.config
    search = Claim(queue, lease.Owner("", "", "", ""), outlook.rules_of(queue, config))
    found: list[dict[str, Any]] = []
    taken: dict[str, int] = {}

    def wanted(_priority: int, need: str, _lane: str, provider: str) -> bool:
        # by the track alone, so that no file is read of tasks that cannot start
        return seen.routes.provider_for(need, provider) not in seen.troubles

    for candidate in search.candidates(wanted):
        if candidate.task in search.rules.holds or _is_full(candidate.gate, taken, config):
            continue
        body = queue.body(candidate.path, candidate.task)
        if body is None or search.obstacle(body):
            continue
        gate = body.get("gate", names.FREE)
        if _is_full(gate, taken, config):
            continue
        task = task_from(body)
        for each in (names.host_of_gate(gate), names.touches_of_gate(gate)):
            taken[each] = taken.get(each, 0) + 1
        found.append(_shown(task, seen))
        if len(found) >= _SHOWN:
            break
    return found


def _is_full(gate: str, taken: dict[str, int], config: Config) -> bool:
    """Whether a task behind this gate could not run together with those that are shown before it."""
    host, touches = names.host_of_gate(gate), names.touches_of_gate(gate)
    return bool((host and taken.get(host, 0) >= config.hosts_max(host)) or (touches and touches in taken))


def _shown(task: Task, seen: Outlook) -> dict[str, Any]:
    return {
        "id": task.id,
        "title": task.title or task.target[:200],
        "need": task.need,
        "lane": seen.routes.lane(task.need, task.lane),
        "provider": seen.routes.provider_for(task.need, task.provider),
        "priority": task.priority,
        "host": task.host or None,
    }


def _payload(seen: Outlook, first: list[dict[str, Any]]) -> dict[str, Any]:
    plan = seen.plan
    return {
        "workers": plan.workers,
        "running": plan.running,
        "starts": plan.starts,
        "binding": asdict(plan.binding),
        "ceilings": [asdict(ceiling) for ceiling in plan.ceilings],
        "lanes": [
            asdict(lane) | {"ceilings": [asdict(ceiling) for ceiling in lane.ceilings], "binding": asdict(lane.binding)}
            for lane in plan.lanes
        ],
        "counts": dict(seen.board.counts),
        "cost": asdict(seen.machine.cost),
        "wait": seen.machine.capacity.wait or None,
        "degraded": seen.machine.capacity.degraded or None,
        "notes": list(seen.machine.capacity.notes),
        "first": first,
        "unusable_providers": {name: why for name, why in seen.troubles.items() if name not in seen.gated},
        "gates": dict(seen.gated),
        "accounts": [asdict(row) | {"pool": rooms.pool} for rooms in _pools(seen) for row in rooms.rows],
    }


def _pools(seen: Outlook) -> list[Rooms]:
    return [each for rooms in seen.rooms.values() for each in (rooms, *rooms.others)]


def text_of(seen: Outlook, first: list[dict[str, Any]], forms: Sequence[str] = ()) -> str:
    """The plan for people."""
    plan = seen.plan
    rows = [f"workers: {plan.workers}  (bound by {plan.binding.name}: {plan.binding.why})"]
    rows += [_ceiling(ceiling, plan.binding) for ceiling in plan.ceilings]
    for lane in plan.lanes:
        rows += ["", *_lane(lane)]
    for rooms in _pools(seen):
        rows += ["", f"accounts of pool {rooms.pool}", *([f"  {rooms.fault}"] if rooms.fault else [])]
        rows += [f"    {row.name:<16}{row.workers:>8}  {line(row.why, 200)}" for row in rooms.rows]
    for name, trouble in seen.troubles.items():
        rows.append(f"  provider {name} {'waits' if name in seen.gated else 'cannot be used'}: {trouble}")
    rows += ["", *(line(text, 400) for text in forms)] if forms else []
    capacity = seen.machine.capacity
    rows += [f"\n{text}" for text in (capacity.wait, capacity.degraded, *capacity.notes) if text]
    if first:
        rows += ["", "first in line"]
        rows += [
            f"  {task['id']:>6}  {task['lane']} by {task['provider']}  priority {task['priority']}  {line(task['title'], 70)}"
            for task in first
        ]
    waiting = seen.board.counts["inbox"]
    if waiting:
        rows += ["", f"{count(waiting, 'task')} in the inbox; " + _next_step(plan)]
    else:
        rows += ["", "nothing waits"]
    return "\n".join(rows)


def _next_step(plan: Plan) -> str:
    return "start with: fleet run" if plan.starts else "nothing more would start now"


def _lane(lane: LanePlan) -> list[str]:
    by = f" by {', '.join(lane.providers)}" if lane.providers else ""
    waiting = count(lane.waiting, "task")
    head = f"lane {lane.lane}{by}: {count(lane.workers, 'worker')}{_sessions(lane)}, {lane.running} at work, {waiting} in the inbox"
    return [head, *(_ceiling(ceiling, lane.binding) for ceiling in lane.ceilings)]


def _sessions(lane: LanePlan) -> str:
    """How many sessions the workers of a lane are, where one session is several."""
    if lane.seats < 2 or not lane.workers:
        return ""
    sessions, rest = divmod(lane.workers - lane.alone, lane.seats)
    parts = [f"{count(sessions, 'session')} of {count(lane.seats, 'seat')}"] if sessions else []
    parts += [f"1 session of {count(rest, 'seat')}"] if rest else []
    parts += [f"{lane.alone} alone"] if lane.alone else []
    return f" ({', '.join(parts[:-1])}{' and ' if len(parts) > 1 else ''}{parts[-1]})"


def _ceiling(ceiling: Ceiling, binding: Ceiling) -> str:
    known = "no limit" if ceiling.source == "--force" else str(ceiling.workers)
    number = "unknown" if ceiling.workers is None else known
    mark = "→" if ceiling == binding else " "
    age = "" if ceiling.at is None else f", {duration(max(0.0, time.time() - ceiling.at))} old"
    return f"  {mark} {ceiling.name:<16}{number:>8}  {ceiling.why}  [{ceiling.source}{age}]"
