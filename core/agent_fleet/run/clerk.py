"""Gives each worker of a run its account and takes it back: chosen and leased before the start, closed where it met its limit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from agent_fleet import identity
from agent_fleet.accounts import audit, outputs
from agent_fleet.accounts.cooldowns import LONGEST, Cooldown, Cooldowns, concerns
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
HELD: Final = "accounts"  # the source of a hold on a task for which no account is free
UNSURE: Final = "unseen accounts"  # the same where nobody can say that one will be
_GLANCE = 1.0  # seconds that the loop of a run waits for a look at accounts before it goes on without
_FRESH = 2.0  # seconds for which what is known of the accounts is good enough to hold a task by
_AGAIN = 10.0  # seconds after which a held task is looked at again, since a person may have opened an account meanwhile
_RETRY = 15.0  # seconds after which a task is tried again whose pool had no account, where nobody says when it will
_REST = 3600.0  # seconds for which an account is closed whose login was refused
_FARTHEST = 400 * 86400.0  # seconds from now within which a limit may be said to end
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
        self._seen: dict[tuple[str, str, str], tuple[float, Rooms | None]] = {}

    def name(self, what: str) -> str:
        """What the lease of a worker of this run is called: people read it in `fleet lease list`."""
        project = os.path.basename(self.access.root)[:100]
        return "".join(char if char.isprintable() else "?" for char in f"{project} {what} {self._run}")

    def rooms(self, provider: str, is_crewed: bool, pool: str = "") -> Rooms | None:
        """How the accounts of a pool stand, if none is named those of the run's own. A look that takes long is not waited for."""
        kept = self._kept.get((self.access.pool(pool), provider), "")
        return self.access.at_large(provider, is_crewed, pool, kept=kept, look=self._glance)

    def keep(self, task: Task, provider: str) -> Hold | None:
        """A hold where only what the task itself wishes for, a pool or a model, keeps it from an account, and time may help."""
        pool, model = self.access.pool(task.pool), self.access.model(provider, task.model)
        key = provider, pool, model
        if not pool or provider == SHELL:
            return None
        known = self._seen.get(key)
        if known is None or time.monotonic() - known[0] > _FRESH:
            kept = self._kept.get((pool, provider), "")
            rooms = self.access.rooms(provider, pool=pool, kept=kept, model=model, look=self._glance)
            known = self._seen[key] = time.monotonic(), rooms
        rooms = known[1]
        return _hold(rooms, rooms.why) if rooms and not rooms.free and rooms.is_waiting else None

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
            if hold := self._worth_waiting(own, provider, pool, task.model, error):
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
            wanted = self.access.model(provider, model)
            return _hold(self.access.rooms(provider, pool=pool, model=wanted, look=self._glance), why)

    def bind(self, attempt: Attempt) -> None:
        """Make the lease that of the worker's process. One that is gone meanwhile is made anew, as after a driver's death."""
        if not attempt.account or attempt.worker.pid <= 0 or identity.is_alive(attempt.worker.identity) is False:
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

    def _worth_waiting(self, own: str, provider: str, pool: str, model: str, error: FleetError) -> Hold | None:
        """A hold where the task's own account opens so soon that its conversation is worth the wait.

        Without rotation it is worth any: to begin anew under another account would be to go from one login to the next at a limit.
        """
        model = self.access.model(provider, model)
        rooms = self.access.rooms(provider, pool=pool, kept=own, model=model, look=self._glance)
        why = f"its conversation is with {own}: {line('; '.join([error.message, *error.details]), 400)}"
        if rooms is None:
            return None
        if not self.access.rotates(self.access.router()[1], provider):
            return _hold(rooms, why) if rooms.is_waiting or rooms.free else None
        until = rooms.opens.get(own)
        if until is None or until - time.time() > self.access.config.get("accounts.patience"):
            return None
        return Hold(source=HELD, why=why, until=until)

    def _glance(self, prober: Prober, due: list[Profile]) -> None:
        """Look in a thread of its own: a provider that is slow to answer must not keep the workers unwatched."""
        if self._looking is None or not self._looking.is_alive():
            self._looking = threading.Thread(target=prober.prove, args=(due,), name="accounts", daemon=True)
            self._looking.start()
        self._looking.join(_GLANCE)


_ENDING: Final = ("refused", AUTH, "budget")


def _hold(rooms: Rooms | None, why: str) -> Hold:
    """A hold until the first account opens or it is time to look again, which is soon where nobody knows when one opens."""
    until = rooms.until if rooms and not rooms.is_busy else None
    source = HELD if until or (rooms and rooms.is_busy) else UNSURE
    now = time.time()
    return Hold(source=source, why=line(why, 600), until=min(until, now + _AGAIN) if until else now + _RETRY)


# ------------------------------------------------------------------------------------------------------------ settling


def meet(
    queue: Queue,
    config: Config,
    plugins: Plugins,
    environ: Mapping[str, str],
    attempt: Attempt,
    outcome: Outcome,
    *,
    wish: str = "",
) -> None:
    """What an outcome closes or opens: a worker's own account where it has one, else the gate of its provider.

    Before the task is back in the inbox, so that nobody starts it against the same wall in between. `wish` is the model that
    its task asked for.
    """
    if attempt.account and outcome.kind in CLOSING:
        try:
            access = _access(queue, config, plugins, environ)
            close(access, attempt.account, outcome, model=access.model(attempt.provider, wish))
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


def close(access: Access, profile: str, outcome: Outcome, *, model: str = "") -> list[Cooldown]:
    """Close exactly this account, until the reset that was named or for a wait that doubles from time to time.

    A limit of one model closes it for that model alone. What is in force already and knows as much stays as it is.
    """
    router, _ = access.router()
    longest = min(float(access.config.get("run.max_wait")), LONGEST)
    unit = float(access.config.get("run.backoff"))
    said = f"{outcome.kind}{' ' + outcome.limit if outcome.limit else ''}: {outcome.reason}"
    reason = line(said, 120) or outcome.kind
    made = []
    with router.vault.lock(STATE_LOCK, "a limit"):
        cooldowns = Cooldowns(router.vault)
        for scope in scopes(outcome, model):
            now, before = time.time(), cooldowns.last(profile, scope)
            if not is_news(outcome, before, now):
                continue
            length = closing(outcome, before, now, longest=longest, unit=unit)
            if outlasts(before, now, length):
                continue
            made.append(cooldowns.begin(profile, reason, length, scope=scope, resets_at=named_reset(outcome, now)))
            more: dict[str, Any] = {"scope": scope} if scope else {}
            audit.note(
                router.vault, "cooldown-started", profile=profile, reason=outcome.kind, seconds=round(length), **more
            )
        Proofs(router.vault).spoil(profile)  # what was seen before the limit is not true any more
    return made


def scopes(outcome: Outcome, model: str) -> tuple[str, ...]:
    """What of an account a limit or a refused login closes: models by name, or all of it as an empty name. Pure.

    `model` is what the worker was asked to run. Where it bears no name of the model whose limit it met (`best`), its own name is
    closed too: it would meet the same again.
    """
    if outcome.kind != "limit" or not outcome.model:
        return ("",)
    return (outcome.model,) if concerns(outcome.model, model) else (outcome.model, model)


def is_news(outcome: Outcome, before: Cooldown | None, now: float) -> bool:
    """Whether an account that may be closed already is to be closed anew. Pure.

    Of several workers that meet one wall together the first closes it. A later one counts where it alone knows the reset, or
    where its login was refused; a limit never opens what waits for a person.
    """
    if before is None or before.expires <= now:
        return True
    if before.reason.startswith(AUTH):
        return False
    if outcome.kind == AUTH:
        return True
    return named_reset(outcome, now) is not None and before.resets_at is None


def outlasts(before: Cooldown | None, now: float, length: float) -> bool:
    """Whether an account is closed for longer than `length` seconds by something else than a limit that a worker met. Pure.

    A person closed it, or its file could not be read: no limit opens it sooner than that.
    """
    return before is not None and not before.reason.startswith("limit") and before.expires >= now + length


def named_reset(outcome: Outcome, now: float) -> float | None:
    """When a limit was said to end; None where nobody said so, or named a moment that is past or cannot be meant. Pure."""
    at = outcome.resets_at
    return at if outcome.kind == "limit" and at is not None and now < at <= now + _FARTHEST else None


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
