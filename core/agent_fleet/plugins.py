"""Finds plugins by name, loads them late, and says what broke without losing the rest.

Built-in plugins are modules listed in their package's `NAMES`; finding them reads no package metadata. Those of other
distributions are entry points in the family's group, scanned once, when a name is not built in or all are wanted.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import pluggy

from agent_fleet import __version__, hookspecs
from agent_fleet.errors import FleetError
from agent_fleet.protocols import Check, Decomposer, Embedder, Lane, Policy, Probe, Provider

if TYPE_CHECKING:
    from agent_fleet.config import Config

T = TypeVar("T")
R = TypeVar("R")

DEADLINE = 10.0
MOST = 1000
MEND = "mend or remove that plugin; `fleet plugins` lists what is usable"


@dataclass(frozen=True, slots=True)
class Family(Generic[T]):
    """One kind of plugin: its hook, the package of the built-in ones, and what every thing of this kind must have."""

    name: str
    hook: str
    package: str
    protocol: type

    @property
    def group(self) -> str:
        """The entry-point group in which other distributions name theirs."""
        return f"agent_fleet.{self.name}"

    @property
    def members(self) -> Mapping[str, bool]:
        """What the protocol asks for, by name; True for what is called, False for what is only read."""
        return {name: callable(member) for name, member in vars(self.protocol).items() if not name.startswith("_")}


CAPACITY: Final[Family[Probe]] = Family("capacity", "fleet_probes", "agent_fleet_capacity", Probe)
LANES: Final[Family[Lane]] = Family("lanes", "fleet_lanes", "agent_fleet_lanes", Lane)
PROVIDERS: Final[Family[Provider]] = Family("providers", "fleet_providers", "agent_fleet_providers", Provider)
POLICIES: Final[Family[Policy]] = Family("policies", "fleet_policies", "agent_fleet_policies", Policy)
CHECKS: Final[Family[Check]] = Family("checks", "fleet_checks", "agent_fleet_checks", Check)
DECOMPOSERS: Final[Family[Decomposer]] = Family(
    "decomposers", "fleet_decomposers", "agent_fleet_decomposers", Decomposer
)
EMBEDDERS: Final[Family[Embedder]] = Family("embedders", "fleet_embedders", "agent_fleet_embedders", Embedder)
FAMILIES: Final[tuple[Family[Any], ...]] = (CAPACITY, CHECKS, DECOMPOSERS, EMBEDDERS, LANES, POLICIES, PROVIDERS)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a plugin comes from: the module or entry point `name` of a family, and the distribution that brings it."""

    family: str
    name: str
    distribution: str = "agent-fleet"
    version: str = __version__
    builtin: bool = True

    def __str__(self) -> str:
        return f"{self.family}.{self.name} from {self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class Offer(Generic[T]):
    """One thing that a plugin offers, under the name by which it is asked for."""

    name: str
    thing: T
    origin: Origin


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a plugin, or with the one `name` of those that it offers; `error` if it said so itself."""

    origin: Origin
    what: str
    name: str = ""
    error: FleetError | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.origin}: {self.what}"


class Plugins:
    """The plugins of one configuration. `broken` grows as plugins are asked for; nothing is loaded before that.

    `third_party` overrides the key `plugins`: False leaves out every other distribution, True lets all of them in.
    """

    def __init__(self, config: Config, *, third_party: bool | None = None) -> None:
        self._config = config
        chosen = config.get("plugins") if third_party is None else "all" if third_party else "off"
        self._admitted = None if chosen == "all" else frozenset(_normal(name) for name in chosen if chosen != "off")
        self._entries: list[_Entry] | None = None
        self._loaded: dict[Origin, list[Offer[Any]]] = {}
        self._problems: dict[Problem, None] = {}

    @property
    def broken(self) -> list[Problem]:
        """All that was found wrong so far, in the order in which it was found."""
        return list(self._problems)

    def get(self, family: Family[T], name: str) -> T:
        """The thing of that name. Raises `unknown_plugin`, or `plugin_broken` if that one cannot be used."""
        return self.offer(family, name).thing

    def offer(self, family: Family[T], name: str) -> Offer[T]:
        """The thing of that name and where it comes from; raises like `get`."""
        for candidates in (self._builtin, self._third):
            for narrow in (True, False):
                entries = [entry for entry in candidates(family) if not narrow or entry.origin.name == name]
                found = self._fold(family, entries).get(name)
                if found is not None:
                    return found
                for problem in self._problems:
                    if problem.origin.family == family.name and name == (problem.name or problem.origin.name):
                        raise problem.error or FleetError("plugin_broken", str(problem), hint=MEND)
        there = ", ".join(each.name for each in self.all(family)) or "none"
        broken = tuple(str(problem) for problem in self._problems if problem.origin.family == family.name)
        what = f"no {family.name} plugin '{name}'"
        raise FleetError("unknown_plugin", what, hint=f"there are: {there}", details=broken)

    def all(self, family: Family[T]) -> list[Offer[T]]:
        """Every usable offer of the family, by name; what could not be loaded is in `broken`."""
        folded = self._fold(family, [*self._builtin(family), *self._third(family)])
        return [folded[name] for name in sorted(folded)]

    def names(self, family: Family[Any]) -> list[str]:
        """The names under which modules and entry points are listed; none of them is imported."""
        return sorted({entry.origin.name for entry in (*self._builtin(family), *self._third(family))})

    def ask(self, offer: Offer[T], question: Callable[[T], R]) -> R:
        """Put a question to a thing; another distribution's has `DEADLINE` seconds. Its own FleetError passes.

        Raises `plugin_broken`, and remembers it in `broken`, for any other exception and for a missed deadline.
        """
        try:
            return _contained(lambda: question(offer.thing), builtin=offer.origin.builtin)
        except _Broke as broke:
            if isinstance(broke.__cause__, FleetError):
                raise broke.__cause__ from None
            problem = Problem(offer.origin, str(broke), offer.name)
            self._problems[problem] = None
            raise FleetError("plugin_broken", str(problem), hint=MEND) from broke.__cause__

    def _builtin(self, family: Family[Any]) -> list[_Entry]:
        package = family.package
        try:
            names = _contained(lambda: tuple(importlib.import_module(package).NAMES), builtin=True)
        except _Broke as broke:
            self._problems[Problem(Origin(family.name, "NAMES"), str(broke))] = None
            return []
        return [
            _Entry(Origin(family.name, name), partial(importlib.import_module, f"{package}.{name}")) for name in names
        ]

    def _third(self, family: Family[Any]) -> list[_Entry]:
        if self._entries is None:
            nobody = self._admitted is not None and not self._admitted
            entries, problems = ([], []) if nobody else _installed()
            self._entries = [entry for entry in entries if self._admits(entry.origin)]
            self._problems.update(dict.fromkeys(problem for problem in problems if self._admits(problem.origin)))
        return [entry for entry in self._entries if entry.origin.family == family.name]

    def _admits(self, origin: Origin) -> bool:
        return self._admitted is None or _normal(origin.distribution) in self._admitted

    def _fold(self, family: Family[Any], entries: Iterable[_Entry]) -> dict[str, Offer[Any]]:
        """One offer a name. A built-in one wins, first of all the module of that name; of equals none does."""
        claims: dict[str, list[Offer[Any]]] = {}
        for entry in entries:
            for offer in self._load(family, entry):
                claims.setdefault(offer.name, []).append(offer)
        folded = {}
        for name, offers in claims.items():
            best = min(_rank(offer) for offer in offers)
            winners = [offer for offer in offers if _rank(offer) == best]
            if len(winners) == 1:
                folded[name] = winners[0]
            for offer in offers:
                others = [str(other.origin) for other in offers if other is not offer and _rank(other) <= _rank(offer)]
                if others:
                    what = f"the name '{name}' is taken by {', '.join(others)}"
                    self._problems[Problem(offer.origin, what, name)] = None
        return folded

    def _load(self, family: Family[Any], entry: _Entry) -> list[Offer[Any]]:
        if entry.origin not in self._loaded:
            try:
                offers, problems = _contained(
                    partial(_offers, family, entry, self._config), builtin=entry.origin.builtin
                )
            except _Broke as broke:
                error = broke.__cause__ if isinstance(broke.__cause__, FleetError) else None
                offers, problems = [], [Problem(entry.origin, str(broke), error=error)]
            self._loaded[entry.origin] = offers
            self._problems.update(dict.fromkeys(problems))
        return self._loaded[entry.origin]


@dataclass(frozen=True, slots=True)
class _Entry:
    origin: Origin
    load: Callable[[], object]


class _Broke(Exception):  # noqa: N818 - never leaves this module
    """What a plugin did, in words; its cause is the plugin's own exception."""


def _offers(family: Family[Any], entry: _Entry, config: Config) -> tuple[list[Offer[Any]], list[Problem]]:
    """Import one plugin, read what it offers, and look at each thing by itself."""
    function, arguments = _implementation(family, entry.load())
    given = function(*(config for argument in arguments if argument == "config"))
    things = list(islice(given, MOST + 1))
    if len(things) > MOST:
        raise _Broke(f"{family.hook} offers more than {MOST} things")
    offers: list[Offer[Any]] = []
    problems: list[Problem] = []
    for thing in things:
        name = _name(thing)
        fault = _fault(family, thing, name)
        if fault:
            problems.append(Problem(entry.origin, fault, name))
        else:
            offers.append(Offer(name, thing, entry.origin))
    return offers, problems


def _implementation(family: Family[Any], plugin: object) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The plugin's function for the family's hook and its argument names. pluggy checks the arguments."""
    manager = pluggy.PluginManager("agent_fleet")  # one a plugin: a misspelt hook then spoils nobody else's
    manager.add_hookspecs(hookspecs.Offers)
    manager.register(plugin)
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec() and not all(each.optionalhook for each in caller.get_hookimpls()):
            hooks = ", ".join(each.hook for each in FAMILIES)
            raise _Broke(f"there is no hook {caller.name}; the hooks are {hooks}")
    found: list[pluggy.HookImpl] = getattr(manager.hook, family.hook).get_hookimpls()
    if not found:
        raise _Broke(f"it has no {family.hook} marked by hookimpl")
    if found[0].wrapper or found[0].hookwrapper:
        raise _Broke(f"{family.hook} is a wrapper; a hook of fleet only offers things")
    return found[0].function, tuple(found[0].argnames)


def _name(thing: object) -> str:
    """The thing's name, empty if it has none that could be typed."""
    name = getattr(thing, "name", None)
    return name if isinstance(name, str) and name.isprintable() and len(name.split()) == 1 else ""


def _fault(family: Family[Any], thing: object, name: str) -> str:
    """Why this is not a thing of the family, in words; empty if it is."""
    kind = type(thing).__name__
    if isinstance(thing, type):
        return f"{family.hook} offers the class {thing.__name__}, wanted an object of it"
    if not name:
        return f"{family.hook} offers a {kind} without a name of one printable word"
    for member, called in family.members.items():
        if not hasattr(thing, member):
            return f"'{name}' has no {member}, which a {family.protocol.__name__} must have"
        if called and not callable(getattr(thing, member)):
            return f"{member} of '{name}' cannot be called"
    return ""


def _contained(call: Callable[[], R], *, builtin: bool) -> R:
    """Make a call. Raises `_Broke` for all that it raises but an interrupt; only the built in may take longer."""
    if builtin:
        return _settled(_outcome(call))
    outcomes: list[tuple[R | None, BaseException | None]] = []
    if not isinstance(sys.stdout, _Answers):
        sys.stdout = cast(Any, _Answers(sys.stdout))
    thread = _Guest(target=lambda: outcomes.append(_outcome(call)), daemon=True)
    thread.start()
    thread.join(DEADLINE)
    if not outcomes:
        raise _Broke(f"it took longer than {DEADLINE:g} s")
    return _settled(outcomes[0])


class _Guest(threading.Thread):
    """The thread in which another distribution's code runs."""


class _Answers:
    """Standard output for a command's answer alone: what a guest prints goes to standard error.

    It is told apart by thread, not by a switch around the call: several threads ask plugins at once, and a late guest still prints
    after its time.
    """

    def __init__(self, stream: object) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        guest = isinstance(threading.current_thread(), _Guest)
        return getattr(sys.stderr if guest else self._stream, name)


def _outcome(call: Callable[[], R]) -> tuple[R | None, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, even SystemExit; `_settled` judges it
        return None, error


def _settled(outcome: tuple[R | None, BaseException | None]) -> R:
    result, error = outcome
    if isinstance(error, KeyboardInterrupt):
        raise error
    if error is not None:
        raise _Broke(_sentence(error)) from error
    return cast(R, result)


def _sentence(error: BaseException) -> str:
    """An exception in one printable line of at most 300 characters."""
    try:
        text = " ".join((error.message if isinstance(error, FleetError) else str(error)).split())
    except Exception:  # noqa: BLE001 - even its text is the plugin's own code
        text = ""
    line = text if isinstance(error, (_Broke, FleetError)) else f"{type(error).__name__}: {text}".removesuffix(": ")
    return "".join(sign if sign.isprintable() else "?" for sign in line[:300])


def _rank(offer: Offer[Any]) -> int:
    return 2 if not offer.origin.builtin else 0 if offer.origin.name == offer.name else 1


def _normal(distribution: str) -> str:
    """A distribution's name as the packaging specifications compare names."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _installed() -> tuple[list[_Entry], list[Problem]]:
    """The entry points of every distribution on the path; a damaged distribution costs only its own."""
    import importlib_metadata  # the standard module takes about twice as long to import on Python 3.11 and 3.12

    families = {family.group: family.name for family in FAMILIES}
    entries: list[_Entry] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for found in importlib_metadata.distributions():
        name, version = "a distribution without a name", "of unknown version"
        try:
            if "agent_fleet." not in (found.read_text("entry_points.txt") or ""):
                continue
            name, version = found.metadata["Name"] or name, found.metadata["Version"] or version
            if _normal(name) in seen:  # an earlier entry of the path hides it, as it does for imports
                continue
            seen.add(_normal(name))
            for point in found.entry_points:
                if point.group in families:
                    origin = Origin(families[point.group], point.name, name, version, builtin=False)
                    entries.append(_Entry(origin, point.load))
        except Exception as error:  # noqa: BLE001 - a damaged distribution may fail in any way
            origin = Origin("plugins", "entry_points", name, version, builtin=False)
            problems.append(Problem(origin, f"its metadata cannot be read: {_sentence(error)}"))
    return entries, problems
