"""Which tasks a start may take, by lane, provider and pool of accounts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from agent_fleet.queue.claim import Wanted
from agent_fleet.queue.share import Share
from agent_fleet.run.outlook import Outlook

Track = tuple[int, str, str, str]
"""The priority, the need, and the wishes for a lane and a provider of the tasks in one part of the inbox."""


class Reach(NamedTuple):
    """Tracks of the inbox, and the wishes for a pool that their tasks must have; None: any wish, and none."""

    wanted: Wanted
    pools: frozenset[str] | None = None


def within(seen: Outlook, provider: str, pools: Iterable[tuple[str, Share]]) -> list[tuple[str, Share]]:
    """Those shares of a provider's crews, by the pool that each is for, whose pool may have a free account now."""
    wishes = _open_to(seen, provider)
    return [(pool, share) for pool, share in pools if wishes is None or pool in wishes]


def _open_to(seen: Outlook, provider: str) -> frozenset[str] | None:
    """The pools that a task for this provider must wish for to find an account now; None where it need wish for none."""
    rooms = seen.rooms.get(provider)
    return None if rooms is None else rooms.wishes


def reaches(seen: Outlook) -> Iterator[Reach]:
    """What may be dispatched, one after the other, best priority first.

    A provider whose accounts of the run's own pool are closed is still open to those tasks that wish for another pool.
    """
    narrow = {name: wishes for name in seen.rooms if (wishes := _open_to(seen, name)) is not None}
    narrow = {name: wishes for name, wishes in narrow.items() if name not in seen.troubles}
    if not narrow:
        yield Reach(_tracks(seen))
        return
    for priority in sorted({group.priority for group in seen.board.waiting}):
        yield Reach(_tracks(seen, priority, but=frozenset(narrow)))
        yield from (Reach(_tracks(seen, priority, only=name), wishes) for name, wishes in narrow.items())


def hindrance(seen: Outlook, tracks: Collection[Track], troubles: Mapping[str, str]) -> str:
    """Why no task of these tracks can start, whoever else ends; empty where one could, or where there are no tracks.

    `troubles` say of which providers nothing can start. A lane that cannot be used is a matter of this machine too.
    """
    found: dict[str, None] = {}
    for _, need, lane_wish, provider_wish in tracks:
        lane = seen.plan.lane(seen.routes.lane(need, lane_wish))
        closed = [each for each in lane.ceilings if each.name == "lane" and each.workers == 0] if lane else []
        provider = seen.routes.provider_for(need, provider_wish)
        if not closed and provider not in troubles:
            return ""
        found[closed[0].why if closed else f"{provider} cannot start: {troubles[provider]}"] = None
    return "; ".join(found)


def _tracks(seen: Outlook, priority: int | None = None, *, only: str = "", but: frozenset[str] = frozenset()) -> Wanted:
    """Only tracks whose lane has room and whose provider can be used, and that are left to no crew."""

    def wanted(its_priority: int, need: str, lane_wish: str, provider_wish: str) -> bool:
        lane = seen.plan.lane(seen.routes.lane(need, lane_wish))
        if lane is None or lane.workers <= lane.running or priority not in (None, its_priority):
            return False
        provider = seen.routes.provider_for(need, provider_wish)
        if provider in but or only not in ("", provider):
            return False
        return provider not in seen.troubles and (lane.lane, provider) not in seen.berths

    return wanted
