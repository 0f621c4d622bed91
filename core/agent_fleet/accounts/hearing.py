"""What the hooks of a session tell: its conversation is put on record, and the end of a turn becomes the time of a file.

A session that is not the task's own is none of ours: programs begin conversations of their own beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_fleet.accounts import audit, leases, marker
from agent_fleet.accounts.badge import Badge
from agent_fleet.accounts.ports import ProviderPort
from agent_fleet.accounts.registrar import STATE_LOCK
from agent_fleet.accounts.router import Router
from agent_fleet.accounts.sessions import Session
from agent_fleet.errors import FleetError

PATIENCE = 10.0  # seconds that a session is kept waiting for the state


def hear(
    router: Router, port: ProviderPort, badge: Badge, event: str, arguments: Sequence[str], payload: bytes
) -> None:
    """Take in what `fleet hook EVENT` was told in a process with this badge.

    Raises FleetError for what cannot be understood; for a start also where the lease is not (any more) that of the badge, and
    `session_conflict` for another conversation than the one on record: nothing is written then.
    """
    said = port.heard(badge.provider, event, arguments, payload)
    if said is None:
        return
    if said.kind == "turn_end":
        # a program may have ended before what it told is heard, so that the conversation alone says whose turn it was
        known = router.sessions.of(badge.task)
        if known is not None and known.binding == (*badge, said.session):
            marker.touch(badge.turn_end)
        return
    with router.vault.lock(STATE_LOCK, "a hook", patience=PATIENCE):
        _check_lease(router, badge)
        stored = router.sessions.started(Session(**badge._asdict(), session_id=said.session, updated=0.0, sequence=0))
        audit.note(
            router.vault,
            "session-recorded",
            task=badge.task,
            profile=badge.profile,
            provider=badge.provider,
            session_event_seq=stored.sequence,
        )


def _check_lease(router: Router, badge: Badge) -> None:
    lease = router.leases.of(badge.task)
    held = None if lease is None else (lease.profile, lease.provider, lease.pool, lease.workspace)
    if (
        lease is None
        or not leases.is_running(lease)
        or held != (badge.profile, badge.provider, badge.pool, badge.workspace)
    ):
        raise FleetError(
            "lease_missing",
            f"no lease for task: {badge.task} that this process works under",
            hint="it was released, or its process has ended",
        )
