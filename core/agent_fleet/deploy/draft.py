"""From what is asked for to a deployment that could be worked: taken apart, proved, with tools for each part."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from agent_fleet import paths, routing
from agent_fleet.config import Config
from agent_fleet.deploy import difficulty, dispatch, registry, second, toolbox
from agent_fleet.deploy.balance import balanced
from agent_fleet.deploy.contract import Contract
from agent_fleet.deploy.decompose import Parts, decompose
from agent_fleet.deploy.inputs import Input
from agent_fleet.deploy.question import Asked, Unasked, added
from agent_fleet.deploy.record import Deployment, Second, Settings
from agent_fleet.deploy.toolbox import Toolbox
from agent_fleet.deploy.values import Goal, Item, Scope, Split
from agent_fleet.errors import FleetError
from agent_fleet.plugins import Plugins
from agent_fleet.protocols import Decomposer
from agent_fleet.queue.task import Habits
from agent_fleet.run.accounts import Access
from agent_fleet.run.outlook import lane_of
from agent_fleet.text import count, line

NO_INPUT = Input((), {})
_FIGURES: Mapping[str, tuple[type[int] | type[float], float, float, str]] = {
    "agents": (int, 1, sys.maxsize, "give a whole number, 1 or more"),
    "tokens": (int, 0, sys.maxsize, "give a whole number, 0 for no limit"),
    "turns": (int, 0, sys.maxsize, "give a whole number, 0 for no limit"),
    "seconds": (float, 0, sys.float_info.max, "give a number of seconds, 0 for no limit"),
    "money": (float, 0, sys.float_info.max, "give an amount in US dollars, 0 for no limit"),
    "redispatch": (int, 0, 20, "give a whole number up to 20"),
    "escalate": (int, 0, 10, "give a whole number up to 10"),
    "coverage": (float, 0, 1, "give a part of the items, from 0 to 1"),
    "parts": (int, 0, sys.maxsize, "give a whole number, 0 for one for each agent"),
    "depth": (int, 1, 5, "give a whole number up to 5"),
}
"""What a program may give for each figure: its type, the least and the most, and what to say of any other."""
_CONFIGURED = ("agents", "tokens", "redispatch", "coverage", "escalate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for. `by` is a decomposer or its name (empty: what fits the input); `parts` 0 is one for each agent.

    `settings` are those of `Settings` by name; what is left out or None is as configured. `tools` are given to every part;
    `tiers` say which `provider` and `model` a part of each tier gets, the cheapest first (none: as configured),
    where the settings name none; `second` who should check a sample of the answers.
    """

    instruction: str
    input: Input = NO_INPUT
    source: str = "a goal"
    by: str | Decomposer = ""
    parts: int = 0
    depth: int = 1
    contract: Contract = field(default_factory=Contract)
    tools: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    tiers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    second: Second | None = None


class Guess:
    """What a model's split may come to, where none is asked: as many parts as were wanted, of the same size."""

    name = "llm"

    def usable(self) -> str | None:
        return None

    def decompose(self, goal: Goal) -> Split:
        notes = (f"no model was asked: {count(goal.parts, 'part')} of the same size are assumed",)
        if not goal.items:
            items = tuple(Item(id=f"i{number}", value=goal.instruction) for number in range(1, goal.parts + 1))
            return Split(scopes=tuple(Scope(items=(item.id,)) for item in items), items=items, notes=notes)
        pieces = balanced([item.weight for item in goal.items], goal.parts)
        scopes = tuple(Scope(items=tuple(goal.items[at].id for at in piece)) for piece in pieces)
        return Split(scopes=scopes, notes=notes)


def draft(
    plugins: Plugins,
    config: Config,
    habits: Habits,
    request: Request,
    mind: Asked | Unasked,
    *,
    environ: Mapping[str, str],
    judge: Asked | Unasked | None = None,
) -> Deployment:
    """The deployment. `judge` says how difficult each part is that names no tier (None: nobody).

    Raises FleetError for what cannot be taken apart, or not worked as it is asked for.
    """
    settings = _settings(config, request.settings)
    _hold({"parts": request.parts, "depth": request.depth})
    box, told = _box(config, environ)
    box.servers(request.tools)
    tiers = request.tiers or {
        tier.name: {"provider": tier.provider, "model": tier.model} for tier in routing.tiers(config.tiers)
    }
    by = request.by or ("items" if request.input.items else "llm")
    if by == "llm" and isinstance(mind, Unasked):
        by = Guess()
    goal = Goal(
        instruction=request.instruction,
        items=request.input.items,
        parts=request.parts or settings.agents,
        depth=request.depth,
        tools=box.names,
        tiers=tuple(tiers),
        mind=mind,
    )
    parts = decompose(plugins, by, goal)
    scopes = tuple(replace(scope, tools=tuple(dict.fromkeys((*scope.tools, *request.tools)))) for scope in parts.scopes)
    default = _default_tier(config, tiers)
    scopes, judgement = _judged(config, judge, request.instruction, scopes, parts, default)
    found = Deployment(
        id=mind.deployment or "d0",
        instruction=request.instruction,
        decomposer=by if isinstance(by, str) else by.name,
        source=request.source,
        digest="",
        items=parts.items,
        scopes=scopes,
        settings=settings,
        contract=request.contract.schema,
        repeated=request.input.repeated,
        notes=(*told, *_notes(parts, request.input), *judgement),
        planning=asdict(added(mind.usage, judge.usage) if judge else mind.usage),
        tiers=tiers,
        servers={str(number): chosen for number, scope in enumerate(scopes, 1) if (chosen := box.servers(scope.tools))},
    )
    if request.second is not None:
        lane = lane_of(config, plugins, settings.need)
        found = second.appointed(found, request.second, Access(config.root, config, plugins, environ), lane)
    for order in found.orders():
        dispatch.body(found, order, habits)  # what no task can be is refused now, not half-way
    return found


def _default_tier(config: Config, tiers: Collection[str]) -> str:
    default = str(config.get("deploy.tier"))
    if default and default not in tiers:
        raise FleetError(
            "bad_config", f"deploy.tier names no tier: {default!r}", hint=f"use one of {', '.join(tiers) or 'none yet'}"
        )
    return default


def _settings(config: Config, asked: Mapping[str, Any]) -> Settings:
    known = {each.name for each in fields(Settings)}
    strange = sorted(set(asked) - known)
    if strange:
        raise FleetError(
            "bad_input", f"there is no setting {strange[0]!r}", hint=f"there are: {', '.join(sorted(known))}"
        )
    told = {name: value for name, value in asked.items() if value is not None}
    _hold(told)
    return Settings(**{name: config.get(f"deploy.{name}") for name in _CONFIGURED} | told)


def _hold(told: Mapping[str, Any]) -> None:
    """Raise `bad_input` for a figure that is no number, or out of bounds."""
    for name, (kind, least, most, hint) in _FIGURES.items():
        figure = told.get(name, least)
        is_number = isinstance(figure, int | kind) and not isinstance(figure, bool)
        if not is_number or not least <= figure <= most:
            raise FleetError("bad_input", f"{name} cannot be {line(repr(figure), 60)}", hint=hint)


def _judged(
    config: Config,
    judge: Asked | Unasked | None,
    instruction: str,
    scopes: tuple[Scope, ...],
    parts: Parts,
    default: str,
) -> tuple[tuple[Scope, ...], tuple[str, ...]]:
    """The scopes with their tiers: declared, else judged, else the default."""
    if judge is not None and config.tiers:
        return difficulty.judged(judge, routing.tiers(config.tiers), instruction, scopes, parts.items, default)
    return tuple(replace(scope, tier=scope.tier or default) for scope in scopes), ()


def _box(config: Config, environ: Mapping[str, str]) -> tuple[Toolbox, tuple[str, ...]]:
    """The tools that there are, and what a person should know of where they come from."""
    place = config.get("deploy.registry")
    if registry.is_address(place):
        found = registry.mirror(place, paths.state_dir(environ))
        return toolbox.listing(found.servers), found.notes
    return toolbox.read(os.path.join(config.root, os.path.expanduser(place)) if place else ""), ()


def _notes(parts: Parts, given: Input) -> tuple[str, ...]:
    again = sum(given.repeated.values())
    same = f"{count(again, 'input')} equal to others: each is worked once"
    return (*given.notes, *parts.notes, *([same] if again else []))
