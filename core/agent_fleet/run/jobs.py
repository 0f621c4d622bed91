"""The job of an attempt: a task as the provider that works on it sees it, before its start and when its output is read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Any

from agent_fleet.model import Job, Task
from agent_fleet.queue import records
from agent_fleet.queue.store import Queue
from agent_fleet.run import prompt
from agent_fleet.run.roster import Attempt
from agent_fleet.run.workplace import Workplace


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


def new_job(
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
    """The job of an attempt that is about to start; its nonce is in none of the texts that the agent is shown."""
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
