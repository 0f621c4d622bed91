"""`fleet why`: why a task waits, or what became of it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import click

from agent_fleet import paths
from agent_fleet.commands import Shared, command
from agent_fleet.deploy import orders
from agent_fleet.deploy.orders import is_id as is_deployment
from agent_fleet.errors import FleetError
from agent_fleet.model import Task
from agent_fleet.queue import holds, lease, records
from agent_fleet.queue.claim import Claim
from agent_fleet.queue.store import Place
from agent_fleet.queue.view import task_from
from agent_fleet.run import outlook, roster
from agent_fleet.run.accounts import Access, sole_provider
from agent_fleet.run.gates import gates_of
from agent_fleet.run.outlook import Outlook, Wishes
from agent_fleet.run.roster import Run
from agent_fleet.run.spending import Spending
from agent_fleet.text import count, duration, printable
from agent_fleet.throttle.standing import standings
from agent_fleet.throttle.terms import terms


@command("why", help="Say why task ID waits, who works on it, or what became of it.")
@click.argument("task", metavar="ID")
def command_line(shared: Shared, task: str) -> None:
    why(shared, task)


def why(shared: Shared, task: str) -> None:
    """Answer with the reasons why this task is where it is."""
    lease.reclaim(shared.queue, lapse=shared.config.get("queue.lapse"))
    if is_deployment(task):
        raise FleetError(
            "not_found",
            f"{task} is the name of a deployment, not of a task",
            hint=f"`fleet report {task}` tells what came of it, by item and task; give `why` one of these tasks",
        )
    place = shared.queue.require(task)
    reasons = _reasons(shared, task, place)
    shared.emit(
        {"id": task, "state": place.state, "reasons": reasons},
        lambda: "\n".join([f"{task} is in {place.state}", *(f"  {printable(each['why'])}" for each in reasons)]),
    )


def _reasons(shared: Shared, task: str, place: Place) -> list[dict[str, Any]]:
    if place.state == "inbox":
        return _waiting(shared, task, place)
    if place.state == "active":
        return _active(shared, place)
    return _settled(shared, task, place)


def _reason(name: str, why: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "why": why, **more}


def _settled(shared: Shared, task: str, place: Place) -> list[dict[str, Any]]:
    outcome = records.outcome(shared.queue, task, place.generation) or {}
    said = outcome.get("result") if place.state == "done" else outcome.get("reason")
    found = [_reason("outcome", f"{outcome.get('outcome', 'no outcome is on record')}: {said or 'nothing was said'}")]
    if place.state == "blocked":
        found.append(_reason("next", f"answer it with: fleet unblock {task} --answer 'text'"))
    if place.state == "failed":
        charged = f"charged: {count(records.charged(shared.queue, task), 'attempt')}"
        heirs = _heirs(shared, task, place)
        rest = f"what it left is with {', '.join(heirs)}" if heirs else f"try again with: fleet reset {task}"
        found.append(_reason("next", f"{charged}; {rest}", **({"tasks": heirs} if heirs else {})))
    return found


def _heirs(shared: Shared, task: str, place: Place) -> list[str]:
    """The tasks to which the remainder of a deployment's task was given, if it was."""
    deployment = str((shared.queue.body(place.path, task) or {}).get("run") or "")
    if not is_deployment(deployment):
        return []
    return [
        each for each, order in orders.all_of(shared.queue, deployment) if order.of == task and shared.queue.find(each)
    ]


def _active(shared: Shared, place: Place) -> list[dict[str, Any]]:
    holder = lease.owner(shared.queue, place.owner)
    verdict = lease.judge(shared.queue, holder)
    who = f"{holder.agent} in lane {holder.lane or '-'}" if holder else "an owner whose record cannot be read"
    life = {True: "alive", False: "gone", None: "of unknown life"}[verdict.alive]
    found = [_reason("held", f"held by {who} under lease {place.generation}; it is {life}")]
    if verdict.why and verdict.alive is not True:
        found.append(_reason("owner", verdict.why))
    limits = standings(paths.state_dir(shared.environ), terms(shared.config)) if holder else []
    return found + [_reason("calls", each.said) for each in limits if holder and holder.identity in each.processes]


def _waiting(shared: Shared, task: str, place: Place) -> list[dict[str, Any]]:
    queue, config = shared.queue, shared.config
    body = queue.body(place.path, task)
    if body is None:
        return [_reason("unreadable", "its file could not be read and was set aside")]
    found = []
    for needed in body.get("needs", ()):
        if not queue.is_done(needed):
            where = queue.find(needed)
            found.append(
                _reason(
                    "needs", f"it needs {needed}, which is {'in ' + where.state if where else 'nowhere'}", task=needed
                )
            )
    hold = holds.read(queue).get(task)
    if hold:
        until = hold.get("until")
        wait = f", for {duration(max(0.0, until - time.time()))} more" if isinstance(until, int | float) else ""
        found.append(_reason("hold", f"it is held{wait}: {hold.get('why')}", until=until, source=hold.get("source")))
    search = Claim(queue, lease.Owner("", "", "", ""), outlook.rules_of(queue, config))
    obstacle = search.obstacle({**body, "needs": []})
    if obstacle:
        found.append(_reason("exclusion", obstacle))
    runs = [run for run, alive in roster.runs(queue) if alive]
    takers = [run for run in runs if outlook.wishes_of(run).only in ("", body.get("run", ""))]
    wishes = outlook.wishes_of(takers[0]) if len({outlook.wishes_of(run) for run in takers}) == 1 else Wishes()
    if not wishes.provider:
        wishes = replace(wishes, provider=sole_provider(config, shared.environ, wishes.pool))
    seen = outlook.look(
        queue, config, shared.plugins, wishes, at_work=roster.at_work(queue), run=takers[0].id if takers else ""
    )
    found += _from_plan(shared, task_from(body), seen, wishes)
    found += _from_accounts(shared, task_from(body), seen, wishes)
    found += _from_budget(shared, task_from(body), runs)
    if not takers:
        found.append(_no_run(str(body.get("run", "")), bool(runs)))
    return found or [_reason("turn", "nothing stands in its way: it is its turn after the older tasks of its priority")]


def _no_run(deployment: str, are_others: bool) -> dict[str, Any]:
    at_work = "no run that is at work takes it" if are_others else "no run is at work in this project"
    return _reason("no run", f"{at_work}; start one with: fleet {f'resume-run {deployment}' if deployment else 'run'}")


def _from_budget(shared: Shared, task: Task, runs: list[Run]) -> list[dict[str, Any]]:
    """The limits that are used up: of the task itself, of this day, or of a run that is at work."""
    found: dict[str, dict[str, Any]] = {}
    for name in [run.id for run in runs] or [""]:
        spending = Spending(shared.queue, shared.config, name)
        for breach in (spending.refusal(task), spending.refusal(None)):
            if breach is not None:
                found[breach.kind] = _reason("budget", f"a budget is used up: {breach.why}")
    return list(found.values())


def _from_accounts(shared: Shared, task: Task, seen: Outlook, wishes: Wishes) -> list[dict[str, Any]]:
    """Why no account can take it now, account by account; nothing where one can, or where none is needed."""
    access = Access(shared.root, shared.config, shared.plugins, shared.environ, wishes.pool)
    provider = seen.routes.provider_for(task.need, task.provider)
    rooms = access.rooms(provider, pool=task.pool, model=access.model(provider, task.model))
    if rooms is None or rooms.free:
        return []
    if not rooms.rows:
        return [_reason("accounts", rooms.why, pool=rooms.pool)]
    opens = rooms.opens
    return [
        _reason("account", f"{row.name}: {row.why}", profile=row.name, pool=rooms.pool, until=opens.get(row.name))
        for row in rooms.rows
    ]


def _from_plan(shared: Shared, task: Task, seen: Outlook, wishes: Wishes) -> list[dict[str, Any]]:
    found = []
    name = seen.routes.lane(task.need, task.lane)
    facts = outlook.lane_facts(shared.plugins, name)
    if facts.unusable:
        found.append(_reason("lane", f"lane {name}: {facts.unusable}"))
    provider = seen.routes.provider_for(task.need, task.provider)
    trouble = outlook.provider_trouble(shared.plugins, provider)
    if trouble:
        found.append(_reason("provider", f"provider {provider}: {trouble}"))
    gate = gates_of(shared.queue, shared.config).read().get(provider)
    if gate is not None and provider in seen.gated:
        wait = "" if gate.until is None else f" {duration(max(0.0, gate.until - time.time()))},"
        why = f"provider {provider} waits{wait} {gate.ends}: {gate.why}"
        found.append(_reason("gate", why, until=gate.until, provider=provider))
    found += [_reason("node", each.why) for each in seen.plan.ceilings if each.name == "node"]
    if seen.machine.capacity.wait and not wishes.force:
        found.append(_reason("pressure", seen.machine.capacity.wait))
    lane = seen.plan.lane(name)
    if lane is not None and lane.workers <= lane.running and lane.running:
        found.append(_reason(lane.binding.name, f"lane {name} is full with {lane.running} at work: {lane.binding.why}"))
    ahead = sum(group.count for group in seen.board.waiting if group.priority < task.priority)
    if ahead:
        found.append(_reason("order", f"before it: {count(ahead, 'task')} of a higher priority"))
    return found
