"""Starting one attempt: a claimed task becomes a process under a keeper, in its lane."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from agent_fleet.config import Config
from agent_fleet.deploy import orders
from agent_fleet.errors import FleetError
from agent_fleet.model import Job, Launch, Task, Worker
from agent_fleet.plugins import Offer, Plugins
from agent_fleet.protocols import Lane, Provider
from agent_fleet.queue import records
from agent_fleet.queue.claim import Claimed
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import equipment, outlook, roster, workplace
from agent_fleet.run.clerk import Lodging
from agent_fleet.run.equipment import Unstarted
from agent_fleet.run.jobs import new_job
from agent_fleet.run.roster import Attempt, Run
from agent_fleet.run.workplace import Workplace


class Route(NamedTuple):
    """Through which lane and provider one task goes."""

    lane: Offer[Lane]
    provider: Offer[Provider]


def start(
    queue: Queue,
    config: Config,
    plugins: Plugins,
    run: Run,
    claimed: Claimed,
    route: Route,
    environ: Mapping[str, str],
    *,
    worktree: bool = False,
    lodging: Lodging | None = None,
) -> Attempt | Unstarted:
    """Start a claimed task, in a worktree of its own and under an account if that is wanted.

    If it could not be started nothing of it runs, and the lease is still the caller's. Raises OSError if the worker's directory
    cannot be written.
    """
    task = task_from(claimed.body)
    try:
        servers = orders.servers_of(queue, task.run, task.id) if task.run else None
    except FleetError as error:
        return Unstarted("task", error)
    worker, mark, directory = equipment.new_worker(run)
    try:
        place = workplace.prepare(
            *(queue, config, run, task, claimed.generation, environ), mark=mark, directory=directory, worktree=worktree
        )
    except FleetError as error:
        workplace.leave(environ, mark)
        roster.mark_dir_settled(directory)
        return Unstarted("machine", error)
    env = equipment.environment(queue, run, mark, worker, environ) | equipment.ceilings(config)
    env |= {"FLEET_TASK": claimed.task, "FLEET_GENERATION": str(claimed.generation)}
    env |= {"FLEET_DEPLOYMENT": task.run} if task.run else {}
    terminal = outlook.has_terminal(plugins, route.lane.name)
    job = new_job(
        *(queue, task, worker, directory, place.environment(env), route.provider.name, place),
        ask=terminal and roster.options(run).get("ask") is True,
        account=lodging.profile.id if lodging else "",
    )
    attempt = _attempt(queue, claimed, route, job, place, lodging, mark=mark)
    try:
        launch = _launch(plugins, route, replace(job, servers=servers), place, lodging)
    except FleetError as error:
        workplace.leave(environ, mark)
        roster.mark_settled(attempt)
        return Unstarted("task" if error.code in ("refused", "bad_input") else "provider", error)
    take = _take(queue, claimed, launch, route)
    kept = equipment.under_keeper(config, attempt, launch, take, total=_longest(queue, config, task), terminal=terminal)
    begun = equipment.begin(queue, config, plugins, attempt, kept, route.lane)
    if isinstance(begun, Unstarted):
        workplace.leave(environ, mark)
    else:
        _tell(queue, run, begun)
    return begun


def _attempt(
    queue: Queue, claimed: Claimed, route: Route, job: Job, place: Workplace, lodging: Lodging | None, *, mark: str
) -> Attempt:
    return Attempt(
        id=job.worker,
        dir=job.scratch,
        mark=mark,
        task=job.task.id,
        generation=claimed.generation,
        lane=route.lane.name,
        provider=route.provider.name,
        log=queue.path("logs", f"{job.task.id}.g{claimed.generation}.log"),
        nonce=job.nonce,
        started=time.time(),
        session=job.session,
        cwd=place.cwd,
        tree=place.tree,
        worker=Worker(id=job.worker, lane=route.lane.name, pid=0, identity="", handle=mark),
        **equipment.lodged(lodging),
    )


def _launch(plugins: Plugins, route: Route, job: Job, place: Workplace, lodging: Lodging | None) -> Launch:
    """What the provider would start, as its account has it. Raises FleetError with what either has against it."""
    worn = lodging.outfit(place.cwd, job.env) if lodging else None
    dressed = job if worn is None else replace(job, env=worn.environ)
    return equipment.armed(plugins.ask(route.provider, lambda provider: provider.launch(dressed)), worn)


def _take(queue: Queue, claimed: Claimed, launch: Launch, route: Route) -> dict[str, Any]:
    """What the keeper needs to take the lease over."""
    return {
        "from": claimed.path,
        "active_dir": queue.path("active"),
        "owners_dir": queue.path("owners"),
        "task": claimed.task,
        "generation": claimed.generation,
        "gate": claimed.gate,
        "agent": launch.worker,
        "lane": route.lane.name,
    }


def _longest(queue: Queue, config: Config, task: Task) -> float:
    """How many seconds the attempt may take: what earlier ones have left of the task's budget, and the run's own limit."""
    limit = float(config.get("run.timeout"))
    if not task.budget.seconds:
        return limit
    exits = [record.get("exit") or {} for record in records.outcomes(queue, task.id)]
    used = sum(float(exit.get("seconds") or 0.0) for exit in exits if isinstance(exit, dict))
    left = max(1.0, task.budget.seconds - used)
    return min(limit, left) if limit else left


def _tell(queue: Queue, run: Run, begun: Attempt) -> None:
    queue.tell(
        "started",
        task=begun.task,
        gen=begun.generation,
        run=run.id,
        worker=begun.id,
        lane=begun.lane,
        provider=begun.provider,
        pid=begun.worker.pid,
        **({"account": begun.account} if begun.account else {}),
    )
