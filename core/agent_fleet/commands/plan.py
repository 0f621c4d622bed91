"""`fleet plan`: what would run, where and why, before anything starts."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click

from agent_fleet.commands import Shared, command
from agent_fleet.model import Ceiling
from agent_fleet.plan import LanePlan
from agent_fleet.queue import intake, lease
from agent_fleet.queue.claim import Claim
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import outlook, roster
from agent_fleet.run.outlook import Outlook, Wishes
from agent_fleet.text import duration, line

_SHOWN = 10


@command("plan", help="Show what would run, where and why, before anything starts.")
@click.argument("workers", type=click.IntRange(min=1), required=False)
@click.option("--max", "cap", type=click.IntRange(min=1), help="Plan for at most so many workers.")
@click.option("--lane", default="", help="Plan for this lane only.")
@click.option("--provider", default="", help="Plan with this kind of agent where a task names none.")
@click.option("--force", is_flag=True, help="Do not count what the machine can take.")
@click.option("--count", is_flag=True, help="Print only the number of workers.")
def command_line(shared: Shared, workers: int | None, cap: int | None, count: bool, **options: Any) -> None:
    queue = shared.queue
    intake.recover(queue)
    lease.reclaim(queue, lapse=shared.config.get("queue.lapse"))
    wishes = Wishes(cap=cap or workers, **options)
    seen = outlook.look(queue, shared.config, shared.plugins, wishes, running=running_by_lane(queue))
    for warning in seen.warnings:
        shared.warn(warning)
    first = _first(shared, seen) if not count else []
    troubles = {
        name: trouble
        for lane in seen.plan.lanes
        for name in lane.providers
        if (trouble := outlook.provider_trouble(shared.plugins, name))
    }
    payload = _payload(seen, first, troubles)
    shared.emit(payload, lambda: str(seen.plan.workers) if count else text_of(seen, first, troubles))


def running_by_lane(queue: Queue) -> dict[str, int]:
    """This project's dispatched workers that live now, by lane."""
    found: dict[str, int] = {}
    for run, _ in roster.runs(queue):
        for attempt in roster.attempts(queue, run):
            if roster.read_exit(attempt) is None:
                found[attempt.lane] = found.get(attempt.lane, 0) + 1
    return found


def _first(shared: Shared, seen: Outlook) -> list[dict[str, Any]]:
    """The tasks that would be claimed first. Their files are read here, so a bad one is found before anything starts."""
    search = Claim(shared.queue, lease.Owner("", "", "", ""), outlook.rules_of(shared.queue, shared.config))
    found: list[dict[str, Any]] = []
    taken: set[str] = set()
    for candidate in search.candidates():
        body = shared.queue.body(candidate.path, candidate.task)
        if body is None or body.get("gate", "_") in taken or search.obstacle(body):
            continue
        taken |= {body.get("gate", "_")} - {"_"}
        task = task_from(body)
        found.append(
            {
                "id": task.id,
                "title": task.title or task.target,
                "need": task.need,
                "lane": seen.routes.lane(task.need, task.lane),
                "provider": seen.routes.provider_for(task.need, task.provider),
                "priority": task.priority,
                "host": task.host or None,
            }
        )
        if len(found) >= _SHOWN:
            break
    return found


def _payload(seen: Outlook, first: list[dict[str, Any]], troubles: dict[str, str]) -> dict[str, Any]:
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
        "first": first,
        "unusable_providers": troubles,
    }


def text_of(seen: Outlook, first: list[dict[str, Any]], troubles: dict[str, str]) -> str:
    """The plan for people."""
    plan = seen.plan
    rows = [f"workers: {plan.workers}  (bound by {plan.binding.name}: {plan.binding.why})"]
    rows += [_ceiling(ceiling, plan.binding) for ceiling in plan.ceilings]
    for lane in plan.lanes:
        rows += ["", *_lane(lane)]
    rows += [f"  provider {name} cannot be used: {trouble}" for name, trouble in troubles.items()]
    capacity = seen.machine.capacity
    rows += [f"\n{text}" for text in (capacity.wait, capacity.degraded) if text]
    if first:
        rows += ["", "first in line"]
        rows += [
            f"  {task['id']:>6}  {task['lane']} by {task['provider']}  priority {task['priority']}  {line(task['title'], 70)}"
            for task in first
        ]
    waiting = seen.board.counts["inbox"]
    rows += ["", "nothing waits" if not waiting else f"{waiting} tasks wait; start with: fleet run"]
    return "\n".join(rows)


def _lane(lane: LanePlan) -> list[str]:
    by = f" by {', '.join(lane.providers)}" if lane.providers else ""
    head = f"lane {lane.lane}{by}: {lane.workers} workers, {lane.running} at work, {lane.waiting} tasks wait"
    return [head, *(_ceiling(ceiling, lane.binding) for ceiling in lane.ceilings)]


def _ceiling(ceiling: Ceiling, binding: Ceiling) -> str:
    number = "unknown" if ceiling.workers is None else f"{ceiling.workers}"
    mark = "→" if ceiling == binding else " "
    age = "" if ceiling.at is None else f", {duration(max(0.0, time.time() - ceiling.at))} old"
    return f"  {mark} {ceiling.name:<16}{number:>8}  {ceiling.why}  [{ceiling.source}{age}]"
