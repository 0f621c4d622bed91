"""What a keeper holds while its agent runs: the lease of one task, or, for a crew, nothing but the word that it has begun."""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

CALL: Final = "call"  # in a crew's worker directory until its keeper has answered
ANSWER: Final = "answer"  # what it is renamed to by then: the identity of the keeper


class Lease(NamedTuple):
    """The active file that is ours, and where the outcome of its generation would be on record; none of both for a crew."""

    path: str
    record: str

    @property
    def is_reported(self) -> bool:
        """Whether the agent itself has finished the task, and only has to end."""
        return bool(self.path) and not os.path.exists(self.path) and os.path.exists(self.record)

    def beat(self) -> bool:
        """Show that we live; False if the lease was taken away, which a finish by the agent itself is not."""
        if not self.path:
            return True
        try:
            os.utime(self.path)
        except FileNotFoundError:
            return os.path.exists(self.record)
        except OSError:
            pass  # a heartbeat that cannot be written now says nothing about who holds the lease
        return True


def take(order: dict[str, Any], worker_dir: str, mark: str) -> Lease | None:
    """Make ours what the order says; None if it is no longer there to be taken."""
    return _take_over(order, worker_dir, mark) if "task" in order else _answer(worker_dir)


def answered(worker_dir: str) -> str:
    """Who keeps this crew; empty if nobody does: a call that nobody has answered is taken back, and never will be."""
    try:
        os.unlink(os.path.join(worker_dir, CALL))
    except FileNotFoundError:
        pass
    else:
        return ""
    try:
        with open(os.path.join(worker_dir, ANSWER), encoding="utf-8", errors="replace") as file:
            return file.readline(200).strip()
    except FileNotFoundError:
        return ""


def _answer(worker_dir: str) -> Lease | None:
    """Say who keeps this crew by one rename: whoever looks for it afterwards finds either the call or the keeper."""
    from agent_fleet.identity import identity_of

    call = os.path.join(worker_dir, CALL)
    try:
        with open(call, "r+", encoding="utf-8") as file:
            file.write(identity_of() + "\n")
        os.rename(call, os.path.join(worker_dir, ANSWER))
    except FileNotFoundError:
        return None
    return Lease("", "")


def _take_over(take: dict[str, Any], worker_dir: str, mark: str) -> Lease | None:
    """Make the lease ours by one rename; None if it is no longer there."""
    from agent_fleet.identity import identity_of
    from agent_fleet.queue import lease, names

    queue_dir = os.path.dirname(take["active_dir"])
    key, data = lease.owner_record(
        identity_of(),
        agent=take["agent"],
        lane=take["lane"],
        worker_dir=os.path.relpath(worker_dir, queue_dir),
        mark=mark,
    )
    lease.write_owner(take["owners_dir"], key, data)
    task, generation = take["task"], int(take["generation"])
    path = os.path.join(take["active_dir"], names.active_name(task, generation, key, take["gate"]))
    try:
        os.rename(take["from"], path)
    except FileNotFoundError:
        return None
    entry = names.entry_name(task, generation)
    return Lease(path, os.path.join(queue_dir, "records", names.bucket_of(task), entry))
