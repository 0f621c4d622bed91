"""Where an attempt works and what it has to itself: its directory, a number, ports and an empty place for its files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agent_fleet import identity, paths
from agent_fleet.config import Config
from agent_fleet.errors import FleetError, from_os_error
from agent_fleet.model import Task
from agent_fleet.queue.store import Queue
from agent_fleet.run import checkout, fitness, roster, slots
from agent_fleet.run.roster import Attempt, Run

# git(1): what decides which repository, work tree and index a git command means, before its working directory does
_LEADING = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_IMPLICIT_WORK_TREE", "GIT_CEILING_DIRECTORIES"),
)


class Workplace(NamedTuple):
    """`variables` go into the worker's environment, `unset` do not; `tree` and `branch` name its worktree, if it has one."""

    cwd: str
    variables: Mapping[str, str]
    unset: tuple[str, ...] = ()
    tree: str = ""
    branch: str = ""

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment of what works here."""
        return {name: value for name, value in env.items() if name not in self.unset} | dict(self.variables)


def prepare(
    queue: Queue,
    config: Config,
    run: Run,
    task: Task,
    generation: int,
    environ: Mapping[str, str],
    *,
    mark: str,
    directory: str,
    worktree: bool,
) -> Workplace:
    """Make a place for an attempt. Raises FleetError with what keeps its worktree from being made."""
    variables = own_variables(queue, config, run.identity, environ, mark=mark, directory=directory)
    if not worktree:
        return _in_project(queue, variables)
    try:
        tree = checkout.provide(queue, task, generation, environ, reserve=config.get("capacity.reserve_disk"))
    except OSError as error:
        raise from_os_error(error, f"cannot make a worktree for {task.id}") from None
    return _in_tree(tree.cwd, variables, tree.name, tree.branch)


def of_check(queue: Queue, config: Config, attempt: Attempt, environ: Mapping[str, str]) -> Workplace:
    """Where the check of an attempt runs: where its agent did, with the same number and files."""
    variables = own_variables(queue, config, identity.identity_of(), environ, mark=attempt.mark, directory=attempt.dir)
    if not attempt.tree:
        return _in_project(queue, variables)
    return _in_tree(attempt.cwd, variables, attempt.tree, "")


def _in_project(queue: Queue, variables: Mapping[str, str]) -> Workplace:
    root = os.path.dirname(queue.dir)
    return Workplace(root, {**variables, "PWD": root}, ("OLDPWD",))


def _in_tree(cwd: str, variables: Mapping[str, str], tree: str, branch: str) -> Workplace:
    return Workplace(cwd, {**variables, "PWD": cwd}, (*_LEADING, "OLDPWD"), tree, branch)


def own_variables(
    queue: Queue, config: Config, driver: str, environ: Mapping[str, str], *, mark: str, directory: str
) -> dict[str, str]:
    """`FLEET_SLOT`, `FLEET_PORT` and `FLEET_TMP` of one worker, which no other live worker of this user here has.

    `mark` marks its processes, `directory` is its own in the run, `driver` the identity of the process that looks after it.
    Where they cannot be had they are left out, which is a notice: a worker needs them less than it needs to work.
    """
    try:
        unfit = fitness.unfit_slots(queue)
        slot = slots.take(environ, mark=mark, directory=directory, driver=driver, unfit=unfit)
        place = scratch(environ, mark)
        os.makedirs(place, mode=0o700, exist_ok=True)
    except (FleetError, OSError) as error:
        queue.notices.append(f"a worker has no FLEET_SLOT, FLEET_PORT and FLEET_TMP of its own: {error}")
        return {}
    port = slots.port(config.get("run.port_base"), slot)
    variables = {"FLEET_SLOT": str(slot), "FLEET_TMP": place}
    return variables if port is None else {**variables, "FLEET_PORT": str(port)}


def scratch(environ: Mapping[str, str], mark: str) -> str:
    """The directory for a worker's own temporary files: short, since sockets may lie there. Raises FleetError, OSError."""
    named = environ.get("TMPDIR", "")
    return os.path.join(paths.private_dir(named if os.path.isdir(named) else "/tmp"), mark)  # noqa: S108  the directory in it is private


def leave(environ: Mapping[str, str], mark: str) -> None:
    """Remove a worker's own temporary files, as far as they can be removed."""
    try:
        shutil.rmtree(scratch(environ, mark), ignore_errors=True)
    except (FleetError, OSError):
        pass  # it could not be made either


def abandoned(queue: Queue, environ: Mapping[str, str]) -> Iterator[str]:
    """Temporary files of attempts of this project that are settled."""
    for name in queue.listing("runs"):
        mark = roster.mark_of(queue, name)
        for worker in queue.listing("runs", name, "workers") if mark else ():
            place = scratch(environ, f"{mark}-{worker}")
            if os.path.isdir(place) and os.path.exists(queue.path("runs", name, "workers", worker, "settled")):
                yield place
