"""Looking before acting: the board, the machine and the policies folded into one plan. `fleet plan` and `fleet run` share it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent_fleet.config import Config
from agent_fleet.cost import CostBook
from agent_fleet.errors import FleetError
from agent_fleet.machine import Machine, measure
from agent_fleet.model import Board, Ceiling
from agent_fleet.plan import Exclusion, LaneFacts, Plan, Routes, make
from agent_fleet.plugins import LANES, POLICIES, PROVIDERS, Plugins
from agent_fleet.protocols import Formed, Lane, Visible
from agent_fleet.queue import board as boards
from agent_fleet.queue import holds, names, touches
from agent_fleet.queue.claim import Only, Rules, Wanted
from agent_fleet.queue.store import Queue
from agent_fleet.queue.task import gate_of
from agent_fleet.run import fitness, roster
from agent_fleet.run.accounts import Rooms
from agent_fleet.run.caps import caps
from agent_fleet.run.crews import Berth, Kind, berth, empty_seats
from agent_fleet.run.gates import gates_of
from agent_fleet.run.pools import Pools
from agent_fleet.run.roster import Attempt, Run
from agent_fleet.text import count

AUTO = "auto"  # as the lane of browser tasks: the terminal lane where that can be used
TERMINAL = "terminal"
HEADLESS = "headless"

AskRooms = Callable[[str, bool, str], Rooms | None]
"""How the accounts of a provider stand, for crews or not, in a pool: the run's own where none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What one invocation asks for: at most `cap` workers (None: no cap), one lane or provider for all, no machine limit,
    a git worktree for each task, accounts of one pool.

    `ask` says that the person is there: workers at a terminal may ask, and are not ended for being idle. `only` is the one
    deployment whose tasks are worked on.
    """

    cap: int | None = None
    lane: str = ""
    provider: str = ""
    force: bool = False
    worktree: bool = False
    ask: bool = False
    pool: str = ""
    only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """One look: what there is, what the machine can take, and the plan that follows.

    `troubles` say why a provider cannot be used now; `gated` are those of them that end by themselves or with a new run.
    `berths` are the lanes and providers whose tasks crews work; `vacant` of their seats have a task in sight already.
    `rooms` are the accounts of those providers whose workers need one.
    """

    board: Board
    machine: Machine
    plan: Plan
    routes: Routes
    troubles: Mapping[str, str]
    gated: Mapping[str, str]
    warnings: tuple[str, ...]
    berths: Mapping[Kind, Berth] = field(default_factory=dict)
    vacant: Mapping[Kind, int] = field(default_factory=dict)
    rooms: Mapping[str, Rooms] = field(default_factory=dict)


class Known(NamedTuple):
    """Why providers and lanes cannot be used, as far as a run has found out; an empty text means that one can."""

    providers: Mapping[str, str]
    lanes: Mapping[str, str]


def wishes_of(run: Run) -> Wishes:
    """What a run that is at work was asked for, by its own record."""
    told = roster.options(run)
    cap = told.get("cap")
    return Wishes(
        cap=cap if isinstance(cap, int) else None,
        lane=str(told.get("lane") or ""),
        provider=str(told.get("provider") or ""),
        force=told.get("force") is True,
        worktree=told.get("worktree") is True,
        ask=told.get("ask") is True,
        pool=str(told.get("pool") or ""),
        only=str(told.get("only") or ""),
    )


def routes_of(config: Config, plugins: Plugins, wishes: Wishes) -> Routes:
    return Routes(
        lanes={need: lane_of(config, plugins, need) for need in names.NEEDS},
        provider=config.get("providers.default"),
        lane_override=wishes.lane,
        provider_override=wishes.provider,
    )


def lane_of(config: Config, plugins: Plugins, need: str) -> str:
    """The lane that a need is mapped to on this machine; auto is looked at now, as a display can come and go."""
    name = str(config.get(f"lanes.{need}"))
    if name != AUTO:
        return name
    return HEADLESS if lane_facts(plugins, TERMINAL).unusable else TERMINAL


def forms(config: Config, plugins: Plugins, lanes: Iterable[str]) -> list[str]:
    """What a person should know about where these lanes put their workers on this machine."""
    found = []
    for name in lanes:
        try:
            told = plugins.ask(plugins.offer(LANES, name), _form_of)
        except FleetError:
            continue  # it cannot be used, which the plan says
        found += [f"lane {name}: {told}"] if told else []
        if name == HEADLESS and config.get("lanes.browser") == AUTO:
            why = lane_facts(plugins, TERMINAL).unusable
            found += [f"browser tasks go to {name}, as the terminal lane cannot be used: {why}"] if why else []
    return found


def _form_of(lane: Lane) -> str:
    return lane.form() if isinstance(lane, Formed) else ""


def rules_of(queue: Queue, config: Config) -> Rules:
    return Rules(config.hosts_max, holds.reasons(queue))


def look(
    queue: Queue,
    config: Config,
    plugins: Plugins,
    wishes: Wishes,
    *,
    at_work: Collection[Attempt],
    owed_memory: float = 0.0,
    book: CostBook | None = None,
    known: Known | None = None,
    gated: Mapping[str, str] | None = None,
    rooms: AskRooms | None = None,
    pools: Pools | None = None,
    run: str = "",
    only: Only | None = None,
) -> Outlook:
    """Read everything once and make the plan.

    `at_work` are this project's workers; `owed_memory` is what they were let in for and have not taken yet; `known` is
    what needs not be found out again; `gated` says which providers must wait, where a run knows more of that than the
    gates of the project tell; `rooms` tells how a provider's accounts stand, for crews or for single tasks, in the
    run's own pool or a named one; `pools` remembers what tasks wish for. `run` is whose look it is, if it is a run's, and `only`
    remembers which tasks are of the deployment that the run is for.
    """
    known = known or Known({}, {})
    gated = gates_of(queue, config).obstacles("") if gated is None else gated
    routes = routes_of(config, plugins, wishes)
    board = whole = boards.read(queue)
    if wishes.only:
        only = only or Only(wishes.only)
        board = boards.narrowed(queue, whole, only)
    # a session that works many tasks cannot be in a worktree for each
    berths = {} if wishes.worktree else _berths(plugins, board, routes)
    accounts = _rooms(board, routes, berths, rooms, pools or Pools(queue))
    gated = {**{name: found.why for name, found in accounts.items() if found.total < 1}, **gated}
    running = roster.counted(at_work)
    vacant = empty_seats(at_work, board)
    lane, provider = _next(board, routes)
    machine = measure(
        plugins, config, provider=provider, lane=lane, running=len(at_work), owed_memory=owed_memory, book=book
    )
    warnings = list(machine.warnings)
    room = _machine_ceiling(machine, wishes)
    seats = berths[lane, provider].seats if (lane, provider) in berths else 1
    room = in_seats(room, running=sum(running.values()), sessions=len(at_work), seats=seats)
    node = fitness.ceiling(queue, at_work)
    overall = [*caps(config, wishes.cap, at_work, run), room]
    overall += [*([node] if node else []), *_policies(plugins, whole, warnings)]
    troubles = _troubles(plugins, board, routes, {**known.providers, **gated})
    plan = make(
        board,
        routes,
        _all_facts(plugins, board, routes, known.lanes, berths, vacant),
        overall,
        exclusion=_exclusion(queue, config, board),
        running=running,
        unknown_workers=config.get("capacity.unknown_workers"),
        troubles=troubles,
        held=_held(queue, holds.read(queue), only),
        rooms={name: found.ceiling() for name, found in accounts.items()},
    )
    return Outlook(
        board=board,
        machine=machine,
        plan=plan,
        routes=routes,
        troubles=troubles,
        gated={name: why for name, why in gated.items() if name in troubles},
        warnings=tuple(warnings),
        berths=berths,
        vacant=vacant,
        rooms=accounts,
    )


def _rooms(
    board: Board, routes: Routes, berths: Iterable[Kind], ask: AskRooms | None, pools: Pools
) -> dict[str, Rooms]:
    """The accounts of each provider; where none of the run's own pool is free, those of the pools that tasks wish for too."""
    if ask is None:
        return {}
    crewed = {provider for _, provider in berths}
    found: dict[str, Rooms] = {}
    for name in sorted({routes.provider_for(group.need, group.provider) for group in board.waiting}):
        own = ask(name, name in crewed, "")
        if own is not None and not own.free:
            wished = sorted(pools.wished(_of_provider(routes, name)) - {"", own.pool})
            others = [ask(name, name in crewed, pool) for pool in wished]
            own = replace(own, others=tuple(each for each in others if each is not None))
        found |= {} if own is None else {name: own}
    return found


def _of_provider(routes: Routes, name: str) -> Wanted:
    return lambda _priority, need, _lane, wish: routes.provider_for(need, wish) == name


def in_seats(room: Ceiling, *, running: int, sessions: int, seats: int) -> Ceiling:
    """What the machine can take, in workers where it was measured in process trees: one tree of a crew is several workers.

    `running` workers are `sessions` trees now; what still fits is trees like the next one, each of which has its seats.
    """
    if room.workers is None or (seats == 1 and running == sessions) or room.source == "--force":
        return room
    more = max(0, room.workers - sessions)
    each = f", {count(seats, 'seat')} in each" if seats > 1 else ""
    why = f"room for {more} more {'session' if more == 1 else 'sessions'}{each}: {room.why}"
    return replace(room, workers=running + more * seats, why=why)


def _berths(plugins: Plugins, board: Board, routes: Routes) -> dict[Kind, Berth]:
    kinds = {
        (routes.lane(group.need, group.lane), routes.provider_for(group.need, group.provider))
        for group in board.waiting
    }
    return {kind: found for kind in kinds if (found := berth(plugins, *kind)) is not None}


def _all_facts(
    plugins: Plugins,
    board: Board,
    routes: Routes,
    known: Mapping[str, str],
    berths: Mapping[Kind, Berth],
    vacant: Mapping[Kind, int],
) -> list[LaneFacts]:
    """What is known of each lane that something waits for, with its seats."""
    empty: dict[str, int] = {}
    for (lane, _), number in vacant.items():
        empty[lane] = empty.get(lane, 0) + number
    found = []
    for name in sorted(_lanes(board, routes)):
        here = {provider: each.seats for (lane, provider), each in berths.items() if lane == name}
        facts = _facts(plugins, name, known)
        seats = max(here.values(), default=0)
        found.append(replace(facts, seats=seats, empty=empty.get(name, 0), crews=frozenset(here)))
    return found


def _facts(plugins: Plugins, name: str, known: Mapping[str, str]) -> LaneFacts:
    if known.get(name):
        return LaneFacts(name=name, limit=None, unusable=known[name])
    return lane_facts(plugins, name)


def lane_facts(plugins: Plugins, name: str) -> LaneFacts:
    """A lane's own limit and whether it can be used; one that is missing or broken cannot, and says why."""
    try:
        offer = plugins.offer(LANES, name)
        limit, reason = plugins.ask(offer, lambda lane: (lane.limit, lane.usable()))
    except FleetError as error:
        return LaneFacts(name=name, limit=None, unusable=error.message)
    return LaneFacts(name=name, limit=limit, unusable=reason or "")


def has_terminal(plugins: Plugins, name: str) -> bool:
    """Whether a lane's workers sit at a terminal that a person can type into. A lane that cannot be asked has none."""
    try:
        offer = plugins.offer(LANES, name)
        return plugins.ask(offer, lambda lane: isinstance(lane, Visible) and bool(lane.terminal))
    except FleetError:
        return False


def provider_trouble(plugins: Plugins, name: str) -> str:
    """Why a provider cannot be used on this machine, or an empty string."""
    try:
        offer = plugins.offer(PROVIDERS, name)
        return plugins.ask(offer, lambda provider: provider.usable()) or ""
    except FleetError as error:
        return error.message


def _next(board: Board, routes: Routes) -> tuple[str, str]:
    """The lane and provider of what would start next: the cost that the machine is measured for."""
    for group in sorted(board.waiting, key=lambda group: group.priority):
        return routes.lane(group.need, group.lane), routes.provider_for(group.need, group.provider)
    return routes.lane("agent", ""), routes.provider_for("agent", "")


def _lanes(board: Board, routes: Routes) -> set[str]:
    return {routes.lane(group.need, group.lane) for group in board.waiting}


def _machine_ceiling(machine: Machine, wishes: Wishes) -> Ceiling:
    measured = machine.capacity.ceiling()
    if not wishes.force:
        return measured
    return Ceiling(
        name="machine",
        workers=1_000_000,
        source="--force",
        why=f"not counted, because you said --force (measured: {measured.workers}, {measured.why})",
        at=measured.at,
    )


def _policies(plugins: Plugins, board: Board, warnings: list[str]) -> list[Ceiling]:
    found = []
    for offer in plugins.all(POLICIES):
        try:
            ceiling = plugins.ask(offer, lambda policy: policy.ceiling(board))
        except FleetError as error:
            warnings.append(f"the policy {offer.name} could not be asked: {error.message}")
            continue
        if ceiling is not None:
            found.append(ceiling)
    return found


def _exclusion(queue: Queue, config: Config, board: Board) -> Exclusion:
    """What the active tasks shut out, as far as their names tell."""
    busy: dict[str, int] = {}
    for held in board.active:
        host = names.host_of_gate(held.gate)
        busy[host] = busy.get(host, 0) + 1
    done: dict[str, bool] = {}

    def is_done(task: str) -> bool:
        if task not in done:
            done[task] = queue.is_done(task)
        return done[task]

    return Exclusion(
        hosts_max=config.hosts_max,
        is_done=is_done,
        busy=busy,
        taken=frozenset(names.touches_of_gate(held.gate) for held in board.active) - {""},
        everything=names.touches_of_gate(gate_of("", [touches.EVERYTHING])),
    )


def _held(queue: Queue, holds_in_force: Iterable[str], only: Only | None) -> int:
    """How many of the held tasks wait, of those that count: a hold may outlive the wait of its task."""
    places = [(task, place) for task in holds_in_force if (place := queue.find(task)) is not None]
    return sum(
        1 for task, place in places if place.state == "inbox" and (only is None or only.passes(queue, task, place.path))
    )


def _troubles(plugins: Plugins, board: Board, routes: Routes, known: Mapping[str, str]) -> dict[str, str]:
    """Why the providers of what waits cannot be used; those in `known` are not asked again."""
    wanted = {routes.provider_for(group.need, group.provider) for group in board.waiting}
    found = {name: known[name] if name in known else provider_trouble(plugins, name) for name in wanted}
    return {name: trouble for name, trouble in found.items() if trouble}
