"""Gives each worker of a run its account and takes it back: chosen and leased before the start, closed where it met its limit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from agent_fleet.accounts import audit, outputs
from agent_fleet.accounts.cooldowns import LONGEST, Cooldown, Cooldowns
from agent_fleet.accounts.outfit import Outfit, outfit
from agent_fleet.accounts.ports import ProviderPort
from agent_fleet.accounts.probing import Prober
from agent_fleet.accounts.proofs import Proofs
from agent_fleet.accounts.registrar import STATE_LOCK
from agent_fleet.accounts.router import Router
from agent_fleet.accounts.values import Lease, Profile
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.model import Hold, Outcome, Task
from agent_fleet.plan import SHELL
from agent_fleet.plugins import Plugins
from agent_fleet.queue import records
from agent_fleet.queue.store import Queue
from agent_fleet.run.accounts import AUTH, Access, Rooms
from agent_fleet.run.gates import gates_of
from agent_fleet.run.pacing import settle_gate
from agent_fleet.run.roster import Attempt
from agent_fleet.text import line

CLOSING: Final = ("limit", AUTH)
_GLANCE = 1.0  # seconds that the loop of a run waits for a look at accounts before it goes on without
_RETRY = 15.0  # seconds after which a task is tried again whose pool had no account, where nobody says when it will
_REST = 3600.0  # seconds for which an account is closed whose login was refused
_DOUBLINGS = 30.0  # the longest closing where nobody says when a limit ends, in units of `run.backoff`


class Lodging(NamedTuple):
    """The account of one worker that is about to start, under this lease."""

    profile: Profile
    pool: str
    lease: str
    port: ProviderPort

    def outfit(self, root: str, env: Mapping[str, str]) -> Outfit:
        """What the worker starts with in the work tree `root`. Raises FleetError."""
        names = ("AGENT_FLEET_CONFIG", "AGENT_FLEET_STATE_DIR")
        carries = {name: env[name] for name in names if env.get(name)}
        carries |= {"AGENT_FLEET_PROFILE": self.profile.id, "AGENT_FLEET_PROVIDER": self.profile.provider}
        return outfit(self.port, self.profile, root, carries, env)


class Refused(NamedTuple):
    """Why a task gets no account, and that waiting would not help."""

    why: str


class Clerk:
    """One a run. What it remembers is which account a run without rotation stays with, and what is being looked at."""

    def __init__(self, queue: Queue, access: Access, run: str) -> None:
        self.queue = queue
        self.access = access
        self._run = run  # the mark of the run, which no other project has
        self._kept: dict[tuple[str, str], str] = {}
        self._looking: threading.Thread | None = None

    def name(self, what: str) -> str:
        """What the lease of a worker of this run is called: people read it in `fleet lease list`."""
        project = os.path.basename(self.access.root)[:100]
        return "".join(char if char.isprintable() else "?" for char in f"{project} {what} {self._run}")

    def rooms(self, provider: str) -> Rooms | None:
        """How the accounts of the run's own pool stand. A look at one that takes long is not waited for."""
        kept = self._kept.get((self.access.pool(), provider), "")
        return self.access.rooms(provider, kept=kept, look=self._glance)

    def assign(self, task: Task, provider: str, name: str) -> Lodging | Hold | Refused | None:
        """Choose an account for a task and lease it as `name`; None where it needs none. A hold says until when it waits."""
        pool = self.access.pool(task.pool)
        if not pool or provider == SHELL:
            return None
        own = self._own(task.id, provider)
        try:
            if own:
                return self._lease(provider, pool, name, task.model, own)
        except FleetError as error:
            if hold := self._worth_waiting(own, provider, pool, error):
                return hold
        return self.call(provider, pool, name, task.model)

    def call(self, provider: str, pool: str, name: str, model: str = "") -> Lodging | Hold | Refused:
        """The same for a worker without a conversation that is worth going back to."""
        try:
            return self._lease(provider, pool, name, model, self._kept.get((pool, provider), ""))
        except FleetError as error:
            why = line("; ".join([error.message, *error.details]), 600)
            if error.code not in ("no_account", "busy", "unavailable"):
                return Refused(why)
            rooms = self.access.rooms(provider, pool=pool, look=self._glance)
            until = rooms.until if rooms and rooms.until else time.time() + _RETRY
            return Hold(source="accounts", why=why, until=until)

    def bind(self, attempt: Attempt) -> None:
        """Make the lease that of the worker's process. One that is gone meanwhile is made anew, as after a driver's death."""
        if not attempt.account or attempt.worker.pid <= 0:
            return
        try:
            router, _ = self.access.router()
            router.hand_over(_lease_of(attempt, self.access.root), attempt.worker.pid)
        except (FleetError, OSError) as error:
            self.queue.notices.append(f"the account {attempt.account} is not leased to {attempt.id}: {error}")

    def release(self, lodging: Lodging) -> None:
        """Give an account back whose worker did not start."""
        try:
            _release(self.access.router()[0], lodging.lease)
        except (FleetError, OSError) as error:
            self.queue.notices.append(f"the account {lodging.profile.id} was not given back: {error}")

    # ---------------------------------------------------------------------------------------------------- choosing

    def _lease(self, provider: str, pool: str, name: str, model: str, label: str) -> Lodging:
        router, port = self.access.router()
        request = self.access.request(pool, provider, name, self.access.model(provider, model))
        if label:
            if pool not in port.registry.profile(label).pools:
                raise FleetError("unroutable", f"{label} is not in pool {pool} any more")
            request = replace(request, profile=label)
        lease = router.choose(request).lease
        if lease is None:
            raise AssertionError("a choice that is no dry run leases")
        if not self.access.rotates(port, provider):
            self._kept.setdefault((pool, provider), lease.profile)
        return Lodging(port.registry.profile(lease.profile), pool, name, port)

    def _own(self, task: str, provider: str) -> str:
        """The account that the task's conversation is with, if there is one that can be gone on with."""
        before = records.outcomes(self.queue, task)
        last = before[-1] if before else {}
        if last.get("provider") != provider or not last.get("session") or last.get("outcome") in _ENDING:
            return ""
        return str(last.get("account") or "")

    def _worth_waiting(self, own: str, provider: str, pool: str, error: FleetError) -> Hold | None:
        """A hold where the task's own account opens so soon that its conversation is worth the wait."""
        rooms = self.access.rooms(provider, pool=pool, kept=own, look=self._glance)
        until = rooms.opens.get(own) if rooms else None
        if until is None or until - time.time() > self.access.config.get("accounts.patience"):
            return None
        why = line("; ".join([error.message, *error.details]), 400)
        return Hold(source="accounts", why=f"its conversation is with {own}: {why}", until=until)

    def _glance(self, prober: Prober, due: list[Profile]) -> None:
        """Look in a thread of its own: a provider that is slow to answer must not keep the workers unwatched."""
        if self._looking is None or not self._looking.is_alive():
            self._looking = threading.Thread(target=prober.prove, args=(due,), name="accounts", daemon=True)
            self._looking.start()
        self._looking.join(_GLANCE)


_ENDING: Final = ("refused", AUTH, "budget")


# ------------------------------------------------------------------------------------------------------------ settling


def meet(
    queue: Queue, config: Config, plugins: Plugins, environ: Mapping[str, str], attempt: Attempt, outcome: Outcome
) -> None:
    """What an outcome closes or opens: a worker's own account where it has one, else the gate of its provider.

    Before the task is back in the inbox, so that nobody starts it against the same wall in between.
    """
    if attempt.account and outcome.kind in CLOSING:
        try:
            close(_access(queue, config, plugins, environ), attempt.account, outcome)
            return
        except (FleetError, OSError) as error:
            queue.notices.append(f"the account {attempt.account} could not be closed: {error}")
    settle_gate(gates_of(queue, config), attempt.provider, outcome)


def part(queue: Queue, config: Config, plugins: Plugins, environ: Mapping[str, str], attempt: Attempt) -> None:
    """Take the account of a worker back that has ended, and remember where its output lies."""
    if not attempt.account:
        return
    try:
        access = _access(queue, config, plugins, environ)
        router, _ = access.router()
        outputs.remember(router.vault, attempt.account, attempt.log)
        _release(router, attempt.lease)
    except (FleetError, OSError) as error:
        queue.notices.append(f"the account {attempt.account} was not given back: {error}")


def close(access: Access, profile: str, outcome: Outcome) -> Cooldown:
    """Close exactly this account, until the reset that was named or for a wait that doubles from time to time."""
    router, _ = access.router()
    longest = min(float(access.config.get("run.max_wait")), LONGEST)
    with router.vault.lock(STATE_LOCK, "a limit"):
        cooldowns = Cooldowns(router.vault)
        length = closing(
            outcome, cooldowns.last(profile), time.time(), longest=longest, unit=float(access.config.get("run.backoff"))
        )
        said = f"{outcome.kind}{' ' + outcome.limit if outcome.limit else ''}: {outcome.reason}"
        reason = line(said, 120) or outcome.kind
        made = cooldowns.begin(profile, reason, length, most=LONGEST)
        Proofs(router.vault).spoil(profile)  # what was seen before the limit is not true any more
        audit.note(router.vault, "cooldown-started", profile=profile, reason=outcome.kind, seconds=round(length))
    return made


def closing(outcome: Outcome, before: Cooldown | None, now: float, *, longest: float, unit: float) -> float:
    """For how many seconds an account is closed. Pure.

    A reset that was named is kept to, but never beyond `longest`: then the account is tried again. One that has passed says
    nothing.
    """
    if outcome.kind == AUTH:
        return max(1.0, min(_REST, longest))
    if outcome.resets_at is not None and outcome.resets_at > now:
        return max(1.0, min(outcome.resets_at - now, longest))
    wait = unit
    if before is not None and before.reason.startswith("limit"):
        lasted = before.expires - before.created
        if now - before.expires < 2 * lasted:  # it met the next one as soon as it was open
            wait = max(unit, 2 * lasted)
    return max(1.0, min(wait, unit * _DOUBLINGS, longest))


def _release(router: Router, lease: str) -> None:
    try:
        router.release(lease, force=True)
    except FleetError as error:
        if error.code != "lease_missing":
            raise


def _lease_of(attempt: Attempt, root: str) -> Lease:
    """The lease of a worker as it was made, for the case that it was lost."""
    return Lease(
        task=attempt.lease,
        profile=attempt.account,
        provider=attempt.provider,
        pool=attempt.pool,
        workspace=root,
        state="reserved",
        created=0.0,
        renewed=0.0,
    )


def _access(queue: Queue, config: Config, plugins: Plugins, environ: Mapping[str, str]) -> Access:
    return Access(os.path.dirname(queue.dir), config, plugins, environ)
