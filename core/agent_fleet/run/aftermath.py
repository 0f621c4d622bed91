"""What an ended attempt leaves behind besides its output: looked at before its task is settled, cleared away after."""

from __future__ import annotations

import os
from collections.abc import Mapping

from agent_fleet.queue.store import Queue
from agent_fleet.run import diffstat, removal, workplace, worktree
from agent_fleet.run.diffstat import Work
from agent_fleet.run.roster import Attempt


def look(queue: Queue, environ: Mapping[str, str], attempt: Attempt) -> Work | None:
    """What it has left in its worktree; None if it had none. It never raises."""
    if not attempt.tree:
        return None
    tree = worktree.read(worktree.shelf(queue, environ), attempt.tree)
    if tree is None:
        return Work("", attempt.cwd, "", note="the record of its worktree is gone")
    return diffstat.work_in(tree)


def is_lost(work: Work | None) -> bool:
    """Whether nothing is left of the work: its directory is gone, and nothing was committed."""
    return work is not None and not os.path.isdir(work.path) and not work.commits


def clear(queue: Queue, environ: Mapping[str, str], attempt: Attempt, state: str, work: Work | None) -> str:
    """Clear away what is of no more use, now that the task is in `state`; returns what is to be known of its work, in words."""
    workplace.leave(environ, attempt.mark)
    if work is None:
        return ""
    queue.tell("worktree", task=attempt.task, gen=attempt.generation, run=attempt.run, **work._asdict())
    fate = removal.close(queue, environ, attempt.tree) if state == "done" else None
    where = "; its worktree is removed" if fate is not None and fate.gone else f"; in {work.path}"
    return diffstat.sentence(work._asdict()) + where
