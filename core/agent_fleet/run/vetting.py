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
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import outlook

_VETTED = 50  # tasks that the policies are asked about before one is claimed


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
    ) -> None:
        self.queue = queue
        self.config = config
        self.plugins = plugins
        self._owner = owner
        self._say_once = say_once
        self._only = Only(only) if only else None

    def waiting(self) -> int:
        """How many tasks wait that are any business of this run."""
        only = self._only
        return sum(
            1 for task, _, _, path in self.queue.waiting() if only is None or only.passes(self.queue, task, path)
        )

    def search(self) -> Claim:
        """A fresh search of the inbox, by the holds that are in force now."""
        return Claim(self.queue, self._owner, outlook.rules_of(self.queue, self.config)._replace(only=self._only))

    def claim(self, wanted: Wanted, board: Board, hand_back: Callable[[Claimed, str], None]) -> Claimed | None:
        """Claim the first task that may start and that no policy holds back."""
        asked: set[str] = set()
        while True:
            asked |= self.vet(wanted, board, asked)
            claimed = self.search().take(wanted)
            if claimed is None or claimed.task in asked or not self._ask([task_from(claimed.body)], board):
                return claimed
            # it was not among the first when the policies were asked, and they hold it
            hand_back(claimed, "a policy holds it")
            asked.add(claimed.task)

    def free(self, wanted: Wanted, board: Board, most: int) -> int:
        """How many tasks could be claimed now by somebody else, as far as each by itself can tell; at most `most`."""
        self.vet(wanted, board)
        search = self.search()
        found = 0
        for candidate in itertools.islice(search.candidates(wanted), 20 * _VETTED):
            if candidate.path and candidate.task not in search.rules.holds:
                body = self.queue.body(candidate.path, candidate.task)
                found += body is not None and not search.obstacle(body)
            if found >= most:
                break
        return found

    def vet(self, wanted: Wanted, board: Board, asked: Container[str] = ()) -> set[str]:
        """Ask about the tasks that would be claimed next, but for those that were `asked` about; returns which they are."""
        search = self.search()
        tasks = []
        for candidate in itertools.islice(search.candidates(wanted), 20 * _VETTED):
            body = None
            if candidate.task not in search.rules.holds and candidate.task not in asked:
                body = self.queue.body(candidate.path, candidate.task)
            if body is not None and not search.obstacle(body):
                tasks.append(task_from(body))
            if len(tasks) >= _VETTED:
                break
        self._ask(tasks, board)
        return {task.id for task in tasks}

    def _ask(self, tasks: list[Task], board: Board) -> bool:
        """Put the holds of the policies in force; True if there are any."""
        changes: dict[str, dict[str, object] | None] = {}
        for offer in self.plugins.all(POLICIES):
            try:
                found = self.plugins.ask(offer, lambda policy: _holds_of(policy, tasks, board))
            except FleetError as error:
                self._say_once(offer.name, f"warning: the policy {offer.name} could not be asked: {error.message}")
                continue
            for task, hold in found:
                until = hold.until if hold.until is not None else time.time() + 60
                changes[task] = {"why": hold.why, "until": until, "source": hold.source}
        holds.put(self.queue, changes)
        return bool(changes)


def _holds_of(policy: Policy, tasks: list[Task], board: Board) -> list[tuple[str, Hold]]:
    found = []
    for task in tasks:
        hold = policy.hold(task, board)
        if hold is not None:
            found.append((task.id, hold))
    return found
