"""Choosing an account and leasing it, in one step between all processes.

What is too old is looked at without the lock, and everything is read again under it; no process is started while it is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent_fleet.accounts import audit, leases, places, projects, selection, stamps, unfinished
from agent_fleet.accounts.cooldowns import Cooldowns
from agent_fleet.accounts.leases import Clock, Leases
from agent_fleet.accounts.pins import Pins
from agent_fleet.accounts.probing import Port, Prober, own_of, readiness_of
from agent_fleet.accounts.proofs import Proofs
from agent_fleet.accounts.refusals import refusal
from agent_fleet.accounts.registrar import STATE_LOCK, Registrar
from agent_fleet.accounts.registry import Registry, check_label
from agent_fleet.accounts.selection import EXPLICIT, Request, Situation, Verdict
from agent_fleet.accounts.sessions import Sessions
from agent_fleet.accounts.stored import check_task
from agent_fleet.accounts.values import Lease, Profile, Proof
from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError

_ROUNDS = 3
Reason = Literal["quota", "sticky", "sticky-resume"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was chosen. `lease` is None for a dry run; `others` are the verdicts on all that were asked for."""

    request: Request
    verdict: Verdict
    reason: Reason
    lease: Lease | None
    others: tuple[Verdict, ...] = field(default=())
    is_looked_at: bool = True


class Router:
    """Accounts of one registry, chosen and leased."""

    def __init__(self, registrar: Registrar, vault: Vault, port: Port) -> None:
        self.registrar = registrar
        self.vault = vault
        self.port = port
        self.leases = Leases(vault)
        self.sessions = Sessions(vault)

    # ------------------------------------------------------------------------------------------------ looking

    def situation(
        self,
        workspace: str | None = None,
        proofs: Mapping[str, Proof] | None = None,
        request: Request | None = None,
    ) -> Situation:
        """Everything as it is now. `proofs` are taken instead of what is kept; `workspace` decides what projects close.

        With a `request` only the providers that it may mean are asked anything.
        """
        registry = self.registrar.load()
        clock = Clock.read()
        cached = {label: Proofs(self.vault).of(label) for label, p in registry.profiles.items() if p.is_worker}
        known = {label: proof for label, proof in cached.items() if proof is not None}
        meant = self._meant(request, registry)
        return Situation(
            registry=registry,
            now=clock.now,
            leases=tuple(self.leases.active(clock, registry.rules.lease_grace_seconds)),
            cooldowns=Cooldowns(self.vault).active(clock.now),
            stamps=stamps.read(self.vault),
            proofs={**known, **(proofs or {})},
            pins=Pins(self.vault).all(registry.profiles),
            readiness=readiness_of(self.port, (p for p in registry.workers() if p.provider in meant)),
            pending=unfinished.logins(self.vault),
            own=own_of(self.port, self.vault, sorted(meant)),
            closed_projects={} if workspace is None else _closed_projects(registry, workspace),
            closed_pools={} if workspace is None else _closed_pools(registry, workspace),
        )

    def _meant(self, request: Request | None, registry: Registry) -> set[str]:
        """The providers of the accounts that were asked for, and of the one that the task has already."""
        if request is None:
            return set(registry.providers)
        mine = self.leases.of(request.task) if request.task else None
        asked = {profile.provider for profile in selection.candidates(request, registry)}
        return asked | ({mine.provider} if mine else set())

    def looked(self, request: Request) -> Situation:
        """Everything as it is now, after a look at each account that may still be chosen and was not looked at lately."""
        workspace = request.workspace or None
        situation = self.situation(workspace, request=request)
        due = selection.needing_proof(request, situation)
        if not due:
            return situation
        proofs = Prober(self.vault, self.port, situation.registry.rules).prove(due)
        return self.situation(workspace, proofs, request)

    # --------------------------------------------------------------------------------------------- dry running

    def would_choose(self, request: Request) -> Selection:
        """What `choose` would do a moment later; nothing but what was seen of the accounts is written. Raises as `choose` does."""
        request = checked(request)
        situation = self.looked(request)
        clock = Clock.read()
        mine = self._own(request, situation.registry, clock)
        if mine is not None:
            return self._sticky(request, mine, situation)
        return replace(_decide(request, situation), lease=None)

    # ------------------------------------------------------------------------------------------------- leasing

    def choose(self, request: Request, *, pid: int | None = None) -> Selection:
        """Choose an account and lease it to the task, in one step. With `pid` the lease is that process's, else a reservation.

        A task that has a lease keeps it: a reservation begins its time anew, a running lease is told as it is, or refused if
        `pid` is another process. Raises FleetError: `no_account` or `unroutable` with a reason for each profile, `lease_conflict`,
        `lease_live`, `project_refused`.
        """
        return self._lease(checked(request), pid, "quota")

    def recover(self, task: str, workspace: str, *, pid: int | None = None, doing: str = "recovery") -> Selection:
        """Lease the account of the task's conversation again, whatever its reserve. Raises FleetError as `choose` does.

        Also `session_missing`, `session_conflict` for another workspace, and `lease_live` while the task's process lives.
        """
        session = self.sessions.must(check_task(task))
        if places.lexical(workspace, "--workspace") != session.workspace:
            raise FleetError(
                "session_conflict",
                f"the session of task {task} belongs to {session.workspace}",
                hint=f"name that workspace for its {doing}",
            )
        request = Request(
            task=task,
            pool=session.pool,
            provider=session.provider,
            profile=session.profile,
            workspace=session.workspace,
            ignore_reserve=True,
        )
        profile = self.registrar.load().profile(session.profile)
        if profile.provider != session.provider:
            raise FleetError(
                "session_conflict",
                f"the session of task {task} is one of {session.provider}, and {profile.id} is of {profile.provider}",
                hint="`fleet session remove` forgets it",
            )
        return self._lease(checked(request), pid, "sticky-resume")

    def _lease(self, request: Request, pid: int | None, reason: Reason) -> Selection:
        for last in (False,) * _ROUNDS + (True,):
            with self.vault.lock(STATE_LOCK, "a choice"):
                situation = self.situation(request.workspace, request=request)
                clock = Clock.read()
                mine = self._own(request, situation.registry, clock)
                due = [] if last else self._due(request, mine, situation)
                if not due:
                    return self._taken(request, mine, situation, clock, pid, reason)
            # no account is looked at while others wait for the lock; what comes into reach or grows old meanwhile is looked at next
            Prober(self.vault, self.port, situation.registry.rules).prove(due)
        raise AssertionError("the last round always decides")

    def _taken(
        self, request: Request, mine: Lease | None, situation: Situation, clock: Clock, pid: int | None, reason: Reason
    ) -> Selection:
        if reason == "sticky-resume":
            self._check_not_live(request, mine, situation, pid)
        if mine is not None:
            return self._sticky(request, mine, situation, clock=clock, pid=pid)
        self.leases.active(clock, situation.registry.rules.lease_grace_seconds, sweep=True)
        Cooldowns(self.vault).repair(clock.now)
        chosen = replace(_decide(request, situation), reason=reason)
        lease = leases.reserve(
            Lease(
                task=request.task,
                profile=chosen.verdict.profile,
                provider=chosen.verdict.provider,
                pool=request.pool,
                workspace=request.workspace,
                state="reserved",
                created=clock.now,
                renewed=clock.now,
            ),
            clock,
        )
        lease = lease if pid is None else leases.bind(lease, clock, pid)
        self.leases.write(lease)
        stamps.write(self.vault, {**situation.stamps, lease.profile: clock.now})
        self._audit("lease-selected", lease, decision_reason=reason, lease_state=lease.state)
        return replace(chosen, lease=lease)

    def _due(self, request: Request, mine: Lease | None, situation: Situation) -> list[Profile]:
        """Whom to look at first. For a task that has a lease no other account matters, and none once it runs."""
        if mine is None:
            return selection.needing_proof(request, situation)
        if mine.state == "running":
            return []
        return selection.needing_proof(replace(request, pool=EXPLICIT, profile=mine.profile), situation)

    def _check_not_live(self, request: Request, mine: Lease | None, situation: Situation, pid: int | None) -> None:
        """A conversation is never live twice, neither by its own task nor by another that has the same one."""
        if mine is not None and mine.state == "running" and mine.pid != pid:
            raise FleetError(
                "lease_live",
                f"task already has a live worker lease; refusing recovery: process {mine.pid} on {mine.profile}",
                hint="end that process, or wait for it",
            )
        session = self.sessions.must(request.task).session_id
        live = {lease.task: lease for lease in situation.leases if lease.state == "running"}
        for other in self.sessions.all():
            if other.session_id == session and other.task != request.task and other.task in live:
                raise FleetError(
                    "lease_live",
                    f"session {session} has a live worker lease already, for task {other.task}",
                    hint="end that process, or wait for it",
                )

    def _own(self, request: Request, registry: Registry, clock: Clock) -> Lease | None:
        """The task's lease if it counts. Raises FleetError (`lease_conflict`) where something else is asked for now."""
        mine = self.leases.of(request.task)
        if mine is None or not leases.is_active(mine, clock, registry.rules.lease_grace_seconds):
            return None
        for words, asked, held in (
            ("already owns a lease for workspace", request.workspace, mine.workspace),
            ("is already bound to provider", request.provider, mine.provider),
            ("is already bound to profile", request.profile, mine.profile),
            ("already owns a lease in pool", None if request.profile else request.pool, mine.pool),
        ):
            if asked is not None and asked != held:
                raise FleetError(
                    "lease_conflict",
                    f"task {request.task} {words} {held}",
                    hint="ask for the same, or `fleet lease release` it first",
                )
        return mine

    def _sticky(
        self,
        request: Request,
        mine: Lease,
        situation: Situation,
        *,
        clock: Clock | None = None,
        pid: int | None = None,
    ) -> Selection:
        """The lease that the task has: as it is if its process lives, else judged again but for its reserve, and renewed."""
        profile = situation.registry.profile(mine.profile)
        asked = replace(request, pool=mine.pool, profile=mine.profile, ignore_reserve=True)
        verdict = selection.judge(profile, asked, situation)
        if mine.state == "running":
            if pid is not None and pid != mine.pid:
                raise FleetError(
                    "lease_live",
                    f"task lease is already owned by live process {mine.pid}",
                    hint="a task is worked by one process; end that one, or wait for it",
                )
            return self._kept(request, mine, situation, verdict)
        if not verdict.eligible:
            raise refusal(asked, [verdict], situation.registry)
        if clock is not None:
            mine = leases.reserve(mine, clock) if pid is None else leases.bind(mine, clock, pid)
            self.leases.write(mine)
            if pid is not None:
                self._audit("lease-bound", mine)
        return self._kept(request, mine, situation, verdict, is_looked_at=True)

    def _kept(
        self, request: Request, mine: Lease, situation: Situation, verdict: Verdict, *, is_looked_at: bool = False
    ) -> Selection:
        counted = replace(verdict, active=situation.active(mine.profile))
        return Selection(
            request=request,
            verdict=counted,
            reason="sticky",
            lease=mine,
            others=(counted,),
            is_looked_at=is_looked_at,
        )

    def hand_over(self, like: Lease, pid: int) -> Lease:
        """Make a lease that was reserved for a process that process's own; one that was lost meanwhile is written anew.

        Nothing is judged again: the process runs. Raises FleetError (`lease_live`) if another one has it.
        """
        with self.vault.lock(STATE_LOCK, "a start"):
            mine = self.leases.of(like.task)
            if mine is not None and leases.is_running(mine):
                if mine.pid == pid:
                    return mine
                raise FleetError(
                    "lease_live", f"task lease is already owned by live process {mine.pid}", hint="end that one first"
                )
            clock = Clock.read()
            # the process works under the account that it was started with, whatever was reserved for the task meanwhile
            is_same = mine is not None and mine.profile == like.profile
            kept = mine if mine is not None and is_same else replace(like, created=clock.now, renewed=clock.now)
            bound = leases.bind(kept, clock, pid)
            self.leases.write(bound)
            self._audit("lease-bound", bound)
            return bound

    # ----------------------------------------------------------------------------------------------- releasing

    def release(self, task: str, *, force: bool = False) -> tuple[str, str]:
        """End a task's lease; its profile, and what it was: `reserved`, `running`, `gone` or `corrupt`.

        A lease whose process may live is refused without `force`: ending it here would not end the process. Raises FleetError:
        `lease_missing`, `lease_live`.
        """
        with self.vault.lock(STATE_LOCK, "a release"):
            mine = self.leases.of(check_task(task))
            if mine is None:
                if self.leases.repair(task):
                    audit.note(self.vault, "lease-released", task=task, profile=None, pool=None, forced=force)
                    return "", "corrupt"
                raise FleetError(
                    "lease_missing", f"no lease for task: {task}", hint="`fleet lease list` shows those that there are"
                )
            is_live = leases.is_running(mine)
            if is_live and not force:
                raise FleetError(
                    "lease_live",
                    f"the lease of task {task} is held by the live process {mine.pid}",
                    hint="end that process first; --force takes the lease from it and leaves the process as it is",
                )
            self.leases.remove(task)
            self._audit("lease-released", mine, forced=force)
            return mine.profile, "running" if is_live else "reserved" if mine.state == "reserved" else "gone"

    def give_back(self, lease: Lease) -> None:
        """End a lease of this process that comes to nothing. One that was lost, or is another process's by now, stays as it is."""
        try:
            with self.vault.lock(STATE_LOCK, "a release"):
                mine = self.leases.of(lease.task)
                if mine is not None and (mine.identity, mine.profile) == (lease.identity, lease.profile):
                    self.leases.remove(lease.task)
                    self._audit("lease-released", mine, forced=True)
        except (FleetError, OSError):
            pass  # it ends with this process in any case; why that ends is what must be told

    def _audit(self, event: str, lease: Lease, **fields: Any) -> None:
        audit.note(
            self.vault,
            event,
            task=lease.task,
            profile=lease.profile,
            provider=lease.provider,
            pool=lease.pool,
            **fields,
        )


def checked(request: Request) -> Request:
    """The request with its words checked and its paths made plain. Raises FleetError (`bad_input`)."""
    check_task(request.task)
    check_label(request.pool, "pool id")
    return replace(request, workspace=places.lexical(request.workspace, "--workspace"))


def _decide(request: Request, situation: Situation) -> Selection:
    best, verdicts = selection.choose(request, situation)
    if best is None:
        raise refusal(request, verdicts, situation.registry)
    return Selection(request=request, verdict=best, reason="quota", lease=None, others=tuple(verdicts))


def _closed_projects(registry: Registry, workspace: str) -> dict[str, str]:
    found = {name: projects.refusal(table.trusted_projects, workspace) for name, table in registry.providers.items()}
    return {name: fault for name, fault in found.items() if fault}


def _closed_pools(registry: Registry, workspace: str) -> dict[str, str]:
    found = {pool: projects.refusal(bound, workspace) for pool, bound in registry.pool_projects.items()}
    return {pool: f"pool {pool} is not for {workspace}" for pool, fault in found.items() if fault}
