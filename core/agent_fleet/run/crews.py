"""Crews as a plan sees them: where sessions claim for themselves, with how many seats, and how many of those are empty."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent_fleet.errors import FleetError
from agent_fleet.model import Board
from agent_fleet.plan import Routes
from agent_fleet.plugins import LANES, PROVIDERS, Plugins
from agent_fleet.protocols import Musters, Provider, Seated, Visible
from agent_fleet.queue import names
from agent_fleet.queue.share import ANY, Share, parse
from agent_fleet.run.roster import Attempt

DISMISSED = "dismissed"  # how the note of a crew begins that was asked to end because nothing was left for it
UNCLAIMED = "unclaimed"  # the same for one that held nothing for too long although there was something for it

Kind = tuple[str, str]
"""A lane and a provider: crews of one kind claim from the same share of the queue."""


class Berth(NamedTuple):
    """How a lane takes a provider's crews: so many seats each, on a terminal or not."""

    seats: int
    interactive: bool


def berth(plugins: Plugins, lane: str, provider: str) -> Berth | None:
    """How crews of this provider work in this lane; None where its tasks are dispatched one by one."""
    try:
        seats, interactive = plugins.ask(
            plugins.offer(LANES, lane),
            lambda found: (
                int(found.seats) if isinstance(found, Seated) else 0,
                isinstance(found, Visible) and bool(found.terminal),
            ),
        )
        if seats < 1:
            return None
        most = plugins.ask(
            plugins.offer(PROVIDERS, provider),
            lambda found: _most(found, seats),
        )
    except FleetError:
        return None  # whoever plans with them says what is wrong
    return Berth(most, interactive) if most > 0 else None


def _most(provider: Provider, seats: int) -> int:
    """How many of so many seats a session of this provider can have."""
    if not isinstance(provider, Musters):
        return 0
    most = provider.most_seats
    return seats if most is None else min(seats, most)


def share_of(routes: Routes, lane: str, provider: str) -> Share:
    """What a crew of this kind may claim: what this run would send through its lane to its provider, but no shell command."""
    tracks = set()
    for need in names.NEEDS:
        if need == "command":
            continue
        lanes = [ANY] if routes.lane_override else [lane, *([""] if routes.lanes[need] == lane else [])]
        wishes = [provider, *([""] if routes.provider_for(need, "") == provider else [])]
        tracks |= {(need, wish, kind) for wish in lanes for kind in wishes}
    return Share(frozenset(tracks))


def by_pool(share: Share, wishes: Iterable[str], own: str) -> list[tuple[str, Share]]:
    """The share of a kind of crew, taken apart by the pools whose accounts its tasks are for.

    `wishes` are those of the tasks, `own` is the run's pool, which is theirs that wish for none; both are empty for no accounts.
    """
    pools = {wish or own for wish in wishes}
    return [
        (pool, share._replace(pools=frozenset({pool, ""} if pool == own else {pool})))
        for pool in sorted(pools, key=lambda pool: (pool != own, pool))
    ]


def held(board: Board) -> Mapping[str, int]:
    """How many tasks each worker holds, as far as the owners of the leases tell."""
    found: dict[str, int] = {}
    for lease in board.active:
        if lease.worker:
            found[lease.worker] = found.get(lease.worker, 0) + 1
    return found


def vacant(crews: Iterable[Attempt], board: Board, share: Share) -> int:
    """How many seats are empty of the crews with exactly this share."""
    busy, told = held(board), str(share)
    mine = [crew for crew in crews if crew.is_crew and crew.share == told and not is_dismissed(crew)]
    return sum(max(0, crew.seats - busy.get(crew.id, 0)) for crew in mine)


def empty_seats(crews: Iterable[Attempt], board: Board) -> dict[Kind, int]:
    """How many tasks that wait are as good as taken, by lane and provider: crews have empty seats for them."""
    busy = held(board)
    empty: dict[tuple[Kind, str], int] = {}
    for crew in crews:
        if crew.is_crew and not is_dismissed(crew):
            each = (crew.lane, crew.provider), crew.share
            empty[each] = empty.get(each, 0) + max(0, crew.seats - busy.get(crew.id, 0))
    found: dict[Kind, int] = {}
    for (kind, text), seats in empty.items():
        share = parse(text)
        waiting = sum(
            group.count
            for group in board.waiting
            if share.wanted(group.priority, group.need, group.lane, group.provider)
        )
        found[kind] = found.get(kind, 0) + min(seats, waiting)
    return found


def dismiss(crew: Attempt) -> None:
    """Give a crew no more tasks: whatever in it asks for one is told to end. Raises OSError."""
    with open(os.path.join(crew.dir, names.ENOUGH), "w", encoding="utf-8"):
        pass


def is_dismissed(crew: Attempt) -> bool:
    return os.path.exists(os.path.join(crew.dir, names.ENOUGH))
