"""Asking the policies about the tasks that would be claimed next, and leaving their holds where every claim reads them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Container

from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.model import Board, Hold, Task
from agent_fleet.plugins import POLICIES, Plugins
from agent_fleet.protocols import Policy
from agent_fleet.queue import holds
from agent_fleet.queue.claim import Claim, Claimed, Only, Wanted
from agent_fleet.queue.lease import Owner
from agent_fleet.queue.share import Share
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import outlook
from agent_fleet.run.pools import Pools
from agent_fleet.run.reach import Track

_VETTED = 50  # tasks that the policies are asked about before one is claimed
_AHEAD = 5.0  # seconds before a hold is over at which the policies are asked again; a driver looks more often than that
_SEEN = 20 * _VETTED  # tasks of the inbox that one look goes through

Keep = Callable[[Task], Hold | None]
"""Why a task that is to be dispatched waits, beside what policies say of it."""


class Vetting:
    """The policies' word on single tasks, on behalf of one owner. `say_once` takes a topic and a warning."""

    def __init__(
        self,
        queue: Queue,
        config: Config,
        plugins: Plugins,
        owner: Owner,
        say_once: Callable[[str, str], None],
        *,
        only: str = "",
        keep: Keep = lambda _: None,
    ) -> None:
        self.queue = queue
        self.config = config
        self.plugins = plugins
        self._owner = owner
        self._say_once = say_once
        self._run = only
        self.only = Only(only) if only else None
        self._keep = keep
        self.wishes = Pools(queue)
        self._narrow: dict[tuple[str, frozenset[str] | None], Only] = {}

    def waiting(self) -> int:
        """How many tasks wait that are any business of this run."""
        only = self.only
        return sum(
            1 for task, _, _, path in self.queue.waiting() if only is None or only.passes(self.queue, task, path)
        )

    def tracks(self) -> list[Track]:
        """The tracks of the inbox in which tasks wait that are any business of this run."""
        only = self.only
        return [
            parsed
            for parsed, name in self.queue.tracks()
            if any(
                only is None or only.passes(self.queue, task, path) for task, _, _, path in self.queue.in_track(name)
            )
        ]

    def search(self, share: Share | None = None) -> Claim:
        """A fresh search of the inbox, by the holds that are in force now, for what the run or a crew with this share is for."""
        is_narrow = share is not None and share.is_narrow
        return self._search(self._within(share.run, share.pools) if share is not None and is_narrow else self.only)

    def _search(self, only: Only | None) -> Claim:
        return Claim(self.queue, self._owner, outlook.rules_of(self.queue, self.config)._replace(only=only))

    def _within(self, run: str, pools: frozenset[str] | None) -> Only:
        """One for each narrower part of the queue: it remembers what it has read."""
        return self._narrow.setdefault((run, pools), Only(run, pools))

    def claim(
        self,
        wanted: Wanted,
        board: Board,
        hand_back: Callable[[Claimed, str], None],
        pools: frozenset[str] | None = None,
    ) -> Claimed | None:
        """Claim the first task that may be dispatched now: no policy holds it back, and nothing else that keeps it.

        With `pools` only one that wishes for one of these.
        """
        only = self.only if pools is None else self._within(self._run, pools)
        asked: set[str] = set()
        while True:
            asked |= self._vet(self._search(only), wanted, board, asked, self._keep)
            claimed = self._search(only).take(wanted)
            if claimed is None or claimed.task in asked:
                return claimed
            if not self._ask([task_from(claimed.body)], board, self._keep):
                return claimed
            # it was not among the first when the policies were asked, and they hold it
            hand_back(claimed, "a policy holds it")
            asked.add(claimed.task)

    def claim_one(self, share: Share) -> Claimed | None:
        """Claim the first task of a share that may start, without asking anybody again."""
        return self.search(share).take(share.wanted)

    def hold(self, share: Share, why: Hold) -> None:
        """Hold what a crew with this share would claim."""
        found = itertools.islice(self.search(share).candidates(share.wanted), _SEEN)
        holds.put(self.queue, {candidate.task: _note(why) for candidate in found if candidate.path})

    def pools(self, share: Share) -> set[str]:
        """Which pools of accounts the first tasks of a share wish for; an empty name where one wishes for none."""
        found = set()
        for candidate in itertools.islice(self.search(share).candidates(share.wanted), _SEEN):
            wish = self.wishes.of(candidate.task, candidate.path) if candidate.path else None
            found |= set() if wish is None else {wish}
        return found

    def free(self, share: Share, board: Board, most: int) -> int:
        """How many tasks a crew with this share could claim now, as far as each by itself can tell; at most `most`."""
        self.vet(share, board)
        search = self.search(share)
        found = 0
        for candidate in itertools.islice(search.candidates(share.wanted), _SEEN):
            if candidate.path and candidate.task not in search.rules.holds:
                body = self.queue.body(candidate.path, candidate.task)
                found += body is not None and not search.obstacle(body)
            if found >= most:
                break
        return found

    def vet(self, share: Share, board: Board) -> None:
        """Ask about the tasks that a crew with this share would claim next."""
        self._vet(self.search(share), share.wanted, board, ())

    def renew(self, board: Board) -> None:
        """Ask again about what is on hold for a moment more: those who claim for themselves must not find it free in between."""
        soon = time.time() + _AHEAD
        tasks: list[Task] = []
        for task, hold in holds.read(self.queue).items():
            until, place = hold.get("until"), None
            if isinstance(until, int | float) and until <= soon and len(tasks) < _VETTED:
                place = self.queue.find(task)
            body = self.queue.body(place.path, task) if place and place.state == "inbox" else None
            tasks += [] if body is None else [task_from(body)]
        self._ask(tasks, board)

    def _vet(
        self, search: Claim, wanted: Wanted, board: Board, asked: Container[str], keep: Keep | None = None
    ) -> set[str]:
        """Ask about the tasks that would be claimed next, but for those that were `asked` about; returns which they are."""
        tasks = []
        for candidate in itertools.islice(search.candidates(wanted), _SEEN):
            body = None
            if candidate.task not in search.rules.holds and candidate.task not in asked:
                body = self.queue.body(candidate.path, candidate.task)
            if body is not None and not search.obstacle(body):
                tasks.append(task_from(body))
            if len(tasks) >= _VETTED:
                break
        self._ask(tasks, board, keep)
        return {task.id for task in tasks}

    def _ask(self, tasks: list[Task], board: Board, keep: Keep | None = None) -> bool:
        """Put the holds of the policies, and those of `keep`, in force; True if there are any."""
        changes: dict[str, dict[str, object] | None] = {}
        for offer in self.plugins.all(POLICIES):
            try:
                found = self.plugins.ask(offer, lambda policy: _holds_of(policy, tasks, board))
            except FleetError as error:
                self._say_once(offer.name, f"warning: the policy {offer.name} could not be asked: {error.message}")
                continue
            for task, hold in found:
                changes[task] = _note(hold)
        if keep is not None:
            kept = [(task.id, keep(task)) for task in tasks]
            changes |= {task: _note(hold) for task, hold in kept if hold is not None}
        holds.put(self.queue, changes)
        return bool(changes)


def _note(hold: Hold) -> dict[str, object]:
    until = hold.until if hold.until is not None else time.time() + 60
    return {"why": hold.why, "until": until, "source": hold.source}


def _holds_of(policy: Policy, tasks: list[Task], board: Board) -> list[tuple[str, Hold]]:
    found = []
    for task in tasks:
        hold = policy.hold(task, board)
        if hold is not None:
            found.append((task.id, hold))
    return found
