"""The accounts of this machine as the tasks of one project reach them: which pool is meant, and how its accounts stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agent_fleet.accounts import places, selection
from agent_fleet.accounts.cooldowns import Cooldown, at_clock, concerning, told
from agent_fleet.accounts.ports import ProviderPort
from agent_fleet.accounts.probing import Prober
from agent_fleet.accounts.registrar import Registrar
from agent_fleet.accounts.registry import Registry
from agent_fleet.accounts.router import Router
from agent_fleet.accounts.selection import Request, Situation, Verdict
from agent_fleet.accounts.values import Profile
from agent_fleet.accounts.vault import Vault
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.model import Ceiling
from agent_fleet.plan import SHELL
from agent_fleet.plugins import Plugins

AUTH = "auth"  # how the reason of a cooldown begins that time does not end
UNKNOWN = 300.0  # seconds that a run waits for accounts of which nobody can say when they open

Look = Callable[[Prober, list[Profile]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """How the accounts of a pool stand for one provider: a row for each, how many workers they can take now, and why no more.

    `opens` says when a closed one opens by itself, where that is known. `is_waiting` says that waiting may help, at
    most for `patience` seconds; `is_busy` that one of them merely has no place left, and may have one at any time.
    `others` are the pools that waiting tasks wish for by themselves, looked at where nothing is free in this one.
    """

    pool: str
    provider: str
    rows: tuple[Ceiling, ...] = ()
    opens: Mapping[str, float] = field(default_factory=dict)
    is_waiting: bool = False
    is_busy: bool = False
    patience: float = 0.0
    fault: str = ""
    others: tuple[Rooms, ...] = ()

    @property
    def total(self) -> int:
        """How many workers these accounts and those of the other pools that tasks wish for can take now."""
        return self.free + sum(other.free for other in self.others)

    @property
    def wishes(self) -> frozenset[str] | None:
        """The pools that a task must wish for to find an account now; None where it need wish for none."""
        return None if self.free else frozenset(other.pool for other in self.others if other.free)

    @property
    def free(self) -> int:
        return sum(row.workers or 0 for row in self.rows)

    @property
    def until(self) -> float | None:
        """When the first closed account opens."""
        return min(self.opens.values(), default=None)

    @property
    def ends(self) -> str:
        """When the first closed account opens, for people."""
        return "" if self.until is None else f"until {at_clock(self.until)}"

    @property
    def why(self) -> str:
        """What the accounts can take, or why they can take nothing."""
        if self.fault:
            return self.fault
        told = "; ".join(f"{row.name}: {row.why}" for row in self.rows) or "nobody is in it"
        return told if self.free else f"no account of pool {self.pool} is free: {told}"

    def ceiling(self) -> Ceiling:
        """The same as one number."""
        told = "; ".join([self.why, *(f"pool {other.pool}: {other.why}" for other in self.others if other.free)])
        return Ceiling(name="accounts", workers=self.total, source=f"pool {self.pool}", why=told)


class Access:
    """The accounts as one project reaches them. The registry is read anew each time: people change it while a run goes on."""

    def __init__(self, root: str, config: Config, plugins: Plugins, environ: Mapping[str, str], pool: str = "") -> None:
        self.root = root
        self.config = config
        self.plugins = plugins
        self.environ = environ
        self._pool = pool

    def pool(self, wish: str = "") -> str:
        """The pool of a task: what it wishes, else what the run was asked for, else what is configured; empty: no accounts."""
        return wish or self._pool or str(self.config.get("accounts.pool"))

    def router(self) -> tuple[Router, ProviderPort]:
        """A router over the registry as it is now. Raises FleetError if it cannot be read."""
        registrar = Registrar(places.registry_path(self.environ), self.environ)
        registry = registrar.load()
        vault = Vault(registry.rules.state_dir)
        port = ProviderPort(self.plugins, registry, vault, self.environ)
        return Router(registrar, vault, port), port

    def rotates(self, port: ProviderPort, provider: str) -> bool:
        """Whether a run may go from one account of a provider to another. API keys are no logins of a person's own."""
        if self.config.get("accounts.rotation") == "on" or port.registry.rules.rotation:
            return True
        return all(place.kind == "api_key" for place in port.spec(provider).credentials)

    def model(self, provider: str, wish: str) -> str:
        """The model that a task will run with, as far as the settings tell."""
        try:
            return wish or str(self.config.get(f"provider.{provider}.model"))
        except KeyError:
            return ""

    def request(self, pool: str, provider: str, task: str = "", model: str | None = "") -> Request:
        return Request(task=task, pool=pool, provider=provider, workspace=self.root, model=model)

    def at_large(
        self, provider: str, is_crewed: bool, pool: str = "", *, kept: str = "", look: Look | None = None
    ) -> Rooms | None:
        """The rooms that a plan counts with, in the run's own pool or that which tasks wish for.

        A crew runs one model whatever its tasks wish for. Where tasks are dispatched one by one an account counts that is
        open for some model: the others are held by `Clerk.keep`.
        """
        model = self.model(provider, "") if is_crewed else None
        return self.rooms(provider, pool=pool, kept=kept, model=model, look=look)

    def rooms(
        self, provider: str, *, pool: str = "", kept: str = "", model: str | None = None, look: Look | None = None
    ) -> Rooms | None:
        """How the accounts for a provider stand; None where tasks of it need none.

        `model` is what a task will run with, empty if that is not known; None asks for work of whatever model. `kept` is
        the one account that a run without rotation stays with. `look` looks at accounts that have not been looked at lately;
        without it that is waited for.
        """
        name = self.pool(pool)
        if not name or provider == SHELL:
            return None
        try:
            router, port = self.router()
            rotates = self.rotates(port, provider)
            request = self.request(name, provider, model=model)
            situation = _situation(router, request, look or _at_once)
        except FleetError as error:
            return Rooms(pool=name, provider=provider, fault=f"accounts: {error.message}")
        longest = float(self.config.get("run.max_wait"))
        return rooms_of(situation, request, rotates=rotates, kept=kept, longest=longest)


def sole_provider(config: Config, environ: Mapping[str, str], pool: str) -> str:
    """The provider of a pool whose accounts are all of one; empty where that does not tell. A bad registry is told later."""
    name = pool or str(config.get("accounts.pool"))
    if not name:
        return ""
    try:
        registry: Registry = Registrar(places.registry_path(environ), environ).load()
    except FleetError:
        return ""
    found = {profile.provider for profile in registry.workers() if name in profile.pools}
    return found.pop() if len(found) == 1 else ""


def pools(environ: Mapping[str, str]) -> frozenset[str]:
    """All pools that there are: those that accounts are in, and those that are bound to projects. Raises as `members`."""
    registry: Registry = Registrar(places.registry_path(environ), environ).load()
    return frozenset(registry.pool_projects).union(*(profile.pools for profile in registry.profiles.values()))


def warnings(config: Config, environ: Mapping[str, str], pool: str) -> tuple[str, ...]:
    """What the registry says that means nothing, where a run takes accounts. What cannot be read is told where it is used."""
    if not (pool or config.get("accounts.pool")):
        return ()
    try:
        return Registrar(places.registry_path(environ), environ).load().warnings
    except FleetError:
        return ()


def members(environ: Mapping[str, str], pool: str, provider: str) -> frozenset[str]:
    """The accounts of a pool that work for a provider. Raises FleetError if the registry cannot be read."""
    registry: Registry = Registrar(places.registry_path(environ), environ).load()
    return frozenset(
        profile.id for profile in registry.workers() if profile.provider == provider and pool in profile.pools
    )


def rooms_of(situation: Situation, request: Request, *, rotates: bool, kept: str, longest: float) -> Rooms:
    """The verdicts on the accounts as rows. Pure."""
    best, verdicts = selection.choose(request, situation)
    only = "" if rotates else kept or (best.profile if best else "")
    rows: list[Ceiling] = []
    known: dict[str, float] = {}
    hopeful, is_busy, patience = False, False, 0.0
    for verdict in verdicts:
        profile = situation.registry.profile(verdict.profile)
        until = opens(verdict, request, situation)
        rows.append(_row(verdict, profile, request, situation, only))
        if not verdict.eligible and _may_open(verdict, request, situation) and only in ("", verdict.profile):
            hopeful = True
            is_busy = is_busy or verdict.code == "no_capacity"
            known |= {} if until is None else {verdict.profile: until}
            is_sure = until is not None or verdict.code == "no_capacity"
            patience = max(patience, longest if is_sure else min(longest, UNKNOWN))
    return Rooms(
        pool=request.pool,
        provider=request.provider or "",
        rows=tuple(rows),
        opens=known,
        is_waiting=hopeful,
        is_busy=is_busy,
        patience=patience,
    )


def opens(verdict: Verdict, request: Request, situation: Situation) -> float | None:
    """When a closed account opens by itself, as far as that is known."""
    if verdict.code == "cooldown":
        return max((each.expires for each in _closing(verdict, request.model, situation)), default=None)
    return verdict.resets_at if verdict.code in ("quota_reserve", "rate_limited") else None


def _row(verdict: Verdict, profile: Profile, request: Request, situation: Situation, only: str) -> Ceiling:
    free = max(0, profile.max_concurrent - verdict.active) if verdict.eligible else 0
    words = f"{verdict.code}: {verdict.words}"
    if verdict.code == "cooldown":
        words = f"cooldown: {told(max(_closing(verdict, request.model, situation), key=lambda each: each.expires))}"
    elif verdict.eligible:
        scoped = [told(each) for each in situation.cooldowns.get(profile.id, ()) if each.scope]
        words = "; ".join([f"{free} of {profile.max_concurrent} free, {verdict.words}", *scoped])
    if free and only and profile.id != only:
        free, words = 0, f"not used beside {only}: accounts.rotation is off"
    return Ceiling(name=profile.id, workers=free, source="accounts", why=words)


def _closing(verdict: Verdict, model: str | None, situation: Situation) -> list[Cooldown]:
    return concerning(situation.cooldowns.get(verdict.profile, ()), model)


def _may_open(verdict: Verdict, request: Request, situation: Situation) -> bool:
    """Whether time alone may open it. A login that was refused waits for a person, whatever its cooldown says."""
    closing = _closing(verdict, request.model, situation) if verdict.code == "cooldown" else ()
    return verdict.is_waiting and not any(each.reason.startswith(AUTH) for each in closing)


def _situation(router: Router, request: Request, look: Look) -> Situation:
    situation = router.situation(request.workspace, request=request)
    due = selection.needing_proof(request, situation)
    if not due:
        return situation
    look(Prober(router.vault, router.port, situation.registry.rules), due)
    return router.situation(request.workspace, request=request)


def _at_once(prober: Prober, due: list[Profile]) -> None:
    prober.prove(due)
