"""What every worker is given before it starts, of one task or of many: a directory, its marks, an environment, a keeper."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from agent_fleet import keys as config_keys
from agent_fleet import process
from agent_fleet.accounts.outfit import Outfit
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.model import Launch
from agent_fleet.plugins import Offer, Plugins
from agent_fleet.protocols import Lane
from agent_fleet.queue.store import Queue, write_whole
from agent_fleet.run import keeper, roster
from agent_fleet.run.clerk import Lodging
from agent_fleet.run.roster import Attempt, Run

CEILINGS: Final = ("budget.run_money", "budget.day_money", "budget.unknown_price")


class Unstarted(NamedTuple):
    """Why a task was not started, and what will not start the next one either: the task itself, its provider, its lane, or
    the machine, which may have room again later.
    """

    culprit: Literal["task", "provider", "lane", "machine"]
    error: FleetError


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


def environment(queue: Queue, run: Run, mark: str, worker: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What is in the environment of every worker: the person's own, the queue, and the marks of its tree."""
    root = os.path.dirname(queue.dir)
    env = {name: value for name, value in environ.items() if not name.startswith("FLEET_") and name != "OLDPWD"}
    env |= {
        "PWD": root,  # whoever typed `run` may have been elsewhere
        "AGENT_ROOT": root,
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
