"""What became of the tasks of a run: counted, told on the console, and told to the person where one waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from agent_fleet.queue import records
from agent_fleet.queue.store import Queue
from agent_fleet.run import wording
from agent_fleet.run.deeds import Deed
from agent_fleet.run.disband import Disbanded
from agent_fleet.run.notice import Notices
from agent_fleet.run.settle import Settled


class Summary(NamedTuple):
    """How a run ended: tasks by the state that their attempts left them in, attempts started, what still waits and why.

    `obstacle` says which lane or provider kept every task from starting; empty if something could start.
    """

    run: str
    states: dict[str, int]
    attempts: int
    waiting: int
    why: str
    seconds: float
    obstacle: str = ""


class Tidings:
    """One a run. `states` has the state that each task was left in by what this run did for it; `ended` are those that have ended
    since somebody took note of them.
    """

    def __init__(self, queue: Queue, notices: Notices, say: Callable[[str], None]) -> None:
        self.states: dict[str, str] = {}
        self.ended: list[str] = []
        self._queue = queue
        self._notices = notices
        self._say = say

    def settled(self, found: Settled) -> None:
        """A dispatched attempt is over."""
        self._tell(found.attempt.task, found.state, *wording.of_task(found))
        if found.work:
            self._say(f"{found.attempt.task}  {found.work}")

    def given_up(self, task: str, state: str) -> None:
        """A task was ended without an attempt."""
        self.states[task] = state
        self.ended.append(task)

    def reported(self, deeds: Iterable[Deed]) -> None:
        """Tasks that a session has reported count for this run like those that were dispatched."""
        for deed in deeds:
            record = records.outcome(self._queue, deed.task, deed.generation) or {}
            self._tell(deed.task, deed.state, *wording.of_deed(deed, record))

    def disbanded(self, found: Disbanded, moved: int) -> None:
        """A session is over that had reported so many tasks."""
        for task in found.returned:
            self.states[task] = place.state if (place := self._queue.find(task)) else "lost"
        self._say(wording.of_crew(found, moved))

    def waits(self, worker: str, tasks: Iterable[str]) -> None:
        """A session has ended its turn with tasks in hand: only a person can make it go on."""
        held = ", ".join(tasks)
        self._say(f"{worker}  waits for you: it ended its turn and still holds {held}")
        self._notices.parked(worker, f"needs human: its session ended its turn and still holds {held}")

    def _tell(self, task: str, state: str, text: str, said: str) -> None:
        self.states[task] = state
        if state in ("done", "failed"):
            self.ended.append(task)
        self._say(text)
        if state == "blocked":
            self._notices.parked(task, said)
