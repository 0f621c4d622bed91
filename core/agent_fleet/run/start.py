"""Starting one attempt: a claimed task becomes a process under a keeper, in its lane."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from agent_fleet import keys as config_keys
from agent_fleet import process
from agent_fleet.accounts.outfit import Outfit
from agent_fleet.config import Config
from agent_fleet.deploy import orders
from agent_fleet.errors import FleetError
from agent_fleet.model import Job, Launch, Task, Worker
from agent_fleet.plugins import Offer, Plugins
from agent_fleet.protocols import Lane, Provider
from agent_fleet.queue import records
from agent_fleet.queue.claim import Claimed
from agent_fleet.queue.store import Queue, write_whole
from agent_fleet.queue.view import task_from
from agent_fleet.run import keeper, outlook, prompt, roster, workplace
from agent_fleet.run.clerk import Lodging
from agent_fleet.run.roster import Attempt, Run
from agent_fleet.run.workplace import Workplace

CEILINGS: Final = ("budget.run_money", "budget.day_money", "budget.unknown_price")


class Route(NamedTuple):
    """Through which lane and provider one task goes."""

    lane: Offer[Lane]
    provider: Offer[Provider]


class Unstarted(NamedTuple):
    """Why a task was not started, and what will not start the next one either: the task itself, its provider, its lane, or
    the machine, which may have room again later.
    """

    culprit: Literal["task", "provider", "lane", "machine"]
    error: FleetError


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
    worker, mark, directory = new_worker(run)
    log = queue.path("logs", f"{task.id}.g{claimed.generation}.log")
    env = environment(queue, run, mark, worker, environ)
    env |= {"FLEET_TASK": claimed.task, "FLEET_GENERATION": str(claimed.generation), **ceilings(config)}
    try:
        place = workplace.prepare(
            *(queue, config, run, task, claimed.generation, environ), mark=mark, directory=directory, worktree=worktree
        )
    except FleetError as error:
        workplace.leave(environ, mark)
        roster.mark_dir_settled(directory)
        return Unstarted("machine", error)
    ask = roster.options(run).get("ask") is True and outlook.has_terminal(plugins, route.lane.name)
    label = lodging.profile.id if lodging else ""
    job = _job(
        queue, task, worker, directory, place.environment(env), route.provider.name, place, ask=ask, account=label
    )
    job = replace(job, servers=servers)
    attempt = Attempt(
        id=worker,
        dir=directory,
        mark=mark,
        task=task.id,
        generation=claimed.generation,
        lane=route.lane.name,
        provider=route.provider.name,
        log=log,
        nonce=job.nonce,
        started=time.time(),
        session=job.session,
        cwd=place.cwd,
        tree=place.tree,
        worker=Worker(id=worker, lane=route.lane.name, pid=0, identity="", handle=mark),
        **lodged(lodging),
    )
    try:
        worn = lodging.outfit(place.cwd, job.env) if lodging else None
        job = job if worn is None else replace(job, env=worn.environ)
        launch = armed(plugins.ask(route.provider, lambda provider: provider.launch(job)), worn)
    except FleetError as error:
        workplace.leave(environ, mark)
        roster.mark_settled(attempt)
        return Unstarted("task" if error.code in ("refused", "bad_input") else "provider", error)
    take = {
        "from": claimed.path,
        "active_dir": queue.path("active"),
        "owners_dir": queue.path("owners"),
        "task": claimed.task,
        "generation": claimed.generation,
        "gate": claimed.gate,
        "agent": launch.worker,
        "lane": route.lane.name,
    }
    terminal = outlook.has_terminal(plugins, route.lane.name)
    kept = under_keeper(config, attempt, launch, take, total=_longest(queue, config, task), terminal=terminal)
    begun = begin(queue, config, plugins, attempt, kept, route.lane)
    if isinstance(begun, Unstarted):
        workplace.leave(environ, mark)
        return begun
    queue.tell(
        "started",
        task=task.id,
        gen=claimed.generation,
        run=run.id,
        worker=worker,
        lane=begun.lane,
        provider=begun.provider,
        pid=begun.worker.pid,
        **({"account": begun.account} if begun.account else {}),
    )
    return begun


def lodged(lodging: Lodging | None) -> dict[str, Any]:
    """What the record of an attempt says of its account."""
    if lodging is None:
        return {}
    return {"account": lodging.profile.id, "pool": lodging.pool, "lease": lodging.lease}


def armed(launch: Launch, worn: Outfit | None) -> Launch:
    """The launch with the program that was pinned for the account, where it starts the provider's own."""
    if worn is None or os.path.basename(launch.argv[0]) != os.path.basename(worn.spec.binary):
        return launch
    return replace(launch, argv=(worn.binary, *launch.argv[1:]))


def begin(
    queue: Queue, config: Config, plugins: Plugins, attempt: Attempt, kept: Launch, lane: Offer[Lane]
) -> Attempt | Unstarted:
    """Put an attempt on record and start its keeper. Raises OSError if the record cannot be written."""
    roster.write_attempt(attempt)
    try:
        attempt = attempt._replace(worker=plugins.ask(lane, lambda found: found.start(kept)))
    except FleetError as error:
        process.stop_tree("", attempt.mark, config.get("run.grace"))
        roster.mark_settled(attempt)
        return Unstarted("machine" if error.code == "unavailable" else "lane", error)
    try:
        roster.write_attempt(attempt)
    except OSError as error:  # its lease, or its answer, tells who it is
        queue.notices.append(f"the worker {attempt.id} could not be put on record: {error.strerror}")
    return attempt


def job_of(queue: Queue, attempt: Attempt, task: Task) -> Job:
    """The job of an attempt that was started earlier, for reading its output."""
    return Job(
        task=task,
        worker=attempt.id,
        prompt="",
        nonce=attempt.nonce,
        cwd=attempt.cwd or os.path.dirname(queue.dir),
        env={},
        scratch=attempt.dir,
        session=attempt.session,
        account=attempt.account,
    )


def new_worker(run: Run) -> tuple[str, str, str]:
    """(id, mark, directory) of one more worker of a run."""
    number, directory = _new_worker_dir(run)
    return f"{run.id}-w{number}", f"{run.mark}-w{number}", directory


def _new_worker_dir(run: Run) -> tuple[int, str]:
    base = os.path.join(run.dir, "workers")
    os.makedirs(base, exist_ok=True)
    number = len(os.listdir(base)) + 1
    while True:
        directory = os.path.join(base, f"w{number}")
        try:
            os.mkdir(directory, 0o700)
            return number, directory
        except FileExistsError:
            number += 1


def _job(
    queue: Queue,
    task: Task,
    worker: str,
    scratch: str,
    env: Mapping[str, str],
    provider: str,
    place: Workplace,
    *,
    ask: bool,
    account: str,
) -> Job:
    answers = records.answers(queue, task.id)
    before = records.outcomes(queue, task.id)
    earlier = records.earlier(queue, task.id)
    texts = "\n".join([task.title, task.target, task.notes, *answers, *earlier])
    nonce = secrets.token_hex(8)
    while nonce in texts:
        nonce = secrets.token_hex(8)
    return Job(
        task=task,
        worker=worker,
        prompt=prompt.compose(task, nonce=nonce, answers=answers, attempts=earlier, branch=place.branch, ask=ask),
        nonce=nonce,
        cwd=place.cwd,
        env=env,
        scratch=scratch,
        session=_session_of(before, provider, place.tree, account),
        account=account,
    )


def _session_of(before: list[dict[str, Any]], provider: str, tree: str, account: str) -> str:
    """The conversation of the last attempt, if the same kind of agent can go on with it in the same place and under the same
    account: what it knows is paid for already.

    After a refusal or a login wall a new one begins: the old one may be what was refused.
    """
    last = before[-1] if before else {}
    if (last.get("provider"), last.get("account") or "") != (provider, account):
        return ""
    if last.get("outcome") in ("refused", "auth", "budget"):
        return ""
    worked_in = last.get("worktree")
    if (os.path.basename(str(worked_in.get("path"))) if isinstance(worked_in, dict) else "") != tree:
        return ""
    return str(last.get("session") or "")


def environment(queue: Queue, run: Run, mark: str, worker: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What is in the environment of every worker: the person's own, the queue, and the marks of its tree."""
    env = {name: value for name, value in environ.items() if not name.startswith("FLEET_")}
    env |= {
        "AGENT_ROOT": os.path.dirname(queue.dir),
        "AGENT_DIR": os.path.basename(queue.dir),
        "FLEET_RUN": run.mark,
        "FLEET_WORKER": mark,
        "FLEET_AGENT": worker,
    }
    path = env.get("PATH", os.defpath)
    if shutil.which("fleet", path=path) is None:
        env["PATH"] = os.pathsep.join([path, os.path.dirname(sys.executable)])
    return env


def ceilings(config: Config) -> dict[str, str]:
    """The run's and the day's ceilings of money as variables, for an agent that can look at them before each call."""
    keys = (key for key in config_keys.KEYS if key.name in CEILINGS and config.source(key.name) != "default")
    return {key.variable: str(config.get(key.name)) for key in keys}


def _with_terminal(env: Mapping[str, str], terminal: bool) -> dict[str, str]:
    """The environment with the kind of terminal that a window is, where the person's own says that there is none."""
    if not terminal or env.get("TERM", "dumb") not in ("", "dumb", "unknown"):
        return dict(env)
    return dict(env) | {"TERM": "xterm-256color"}


def _longest(queue: Queue, config: Config, task: Task) -> float:
    """How many seconds the attempt may take: what earlier ones have left of the task's budget, and the run's own limit."""
    limit = float(config.get("run.timeout"))
    if not task.budget.seconds:
        return limit
    exits = [record.get("exit") or {} for record in records.outcomes(queue, task.id)]
    used = sum(float(exit.get("seconds") or 0.0) for exit in exits if isinstance(exit, dict))
    left = max(1.0, task.budget.seconds - used)
    return min(limit, left) if limit else left


def under_keeper(
    config: Config, attempt: Attempt, launch: Launch, take: dict[str, Any], *, total: float, terminal: bool
) -> Launch:
    """Wrap a launch: the process to start is the keeper, which takes over what is told and then starts the agent.

    `take` is the lease of a task, or nothing for a crew; `total` is how many seconds the attempt may last (0: any);
    `terminal` says that the agent is to have one of its own.
    """
    stdin = ""
    if launch.stdin:
        stdin = os.path.join(attempt.dir, "stdin")
        write_whole(stdin, launch.stdin, durable=False)
    seats = max(1, attempt.seats)
    marks = {"FLEET_RUN": attempt.run_mark, "FLEET_WORKER": attempt.mark}
    order = {
        "argv": launch.argv,
        "cwd": launch.cwd,
        "env": _with_terminal(launch.env, terminal) | marks,
        "terminal": terminal,
        "stdin": stdin,
        "log": attempt.log,
        "mark": attempt.mark,
        "take": take,
        "total": total,
        "first_byte": config.get("run.first_byte") if launch.speaks else 0,
        "idle": config.get("run.idle") if launch.speaks else 0,
        "grace": config.get("run.grace"),
        "max_log": config.get("run.max_log"),
        "max_memory": seats * config.get("capacity.max_mem_per_worker"),
        "max_processes": seats * config.get("capacity.max_processes_per_worker"),
    }
    write_whole(os.path.join(attempt.dir, "keeper.json"), json.dumps(order).encode(), durable=False)
    if not keeper.__file__:
        raise FleetError("unusable", "the keeper is not a file", hint="install agent-fleet unpacked")
    return Launch(
        worker=launch.worker,
        argv=(sys.executable, "-I", "-S", keeper.__file__, attempt.dir),
        cwd=launch.cwd,
        env={"PATH": launch.env.get("PATH", os.defpath), **marks},
        log=os.path.join(attempt.dir, "keeper.log"),
    )
