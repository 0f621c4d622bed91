"""Watching the crews of a run: what they did, which of them are to end and why, and which wait for a person."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Container
from typing import NamedTuple

from agent_fleet.model import Board
from agent_fleet.queue import board as boards
from agent_fleet.queue.share import parse
from agent_fleet.queue.store import Queue
from agent_fleet.run import turns
from agent_fleet.run.crews import DISMISSED, UNCLAIMED, dismiss, is_dismissed
from agent_fleet.run.deeds import Deed, Deeds
from agent_fleet.run.disband import Disbanded
from agent_fleet.run.pacing import WALLS, Pacing
from agent_fleet.run.roster import Attempt
from agent_fleet.run.spending import Spending
from agent_fleet.run.vetting import Vetting
from agent_fleet.text import duration

_REST = 5.0  # seconds for which a session that would not end by itself may hold nothing, with nothing left to claim
_LOOK = 1.0  # seconds between two looks
_LAST_WORDS = 60.0  # the same for one that ends by itself: what it used is told at its very end


class Notice(NamedTuple):
    """What is to be done about a crew: `stop` says why it is to end, `waits` which tasks it holds while it waits for a person."""

    crew: Attempt
    stop: str = ""
    waits: tuple[str, ...] = ()


class Marshal:
    """One a run. What it remembers of a crew is how long it has been in its present state.

    `met` says what ended the last turn of a session on a terminal, where that is a wall.
    """

    def __init__(
        self,
        queue: Queue,
        vetting: Vetting,
        pacing: Pacing,
        spending: Spending,
        *,
        patience: float,
        asked: bool,
        met: Callable[[Attempt], str] = lambda _: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.deeds = Deeds(queue)
        self._queue = queue
        self._vetting = vetting
        self._pacing = pacing
        self._spending = spending
        self._patience = patience
        self._asked = asked
        self._met = met
        self._clock = clock
        self._next_look = 0.0
        self._providers: dict[str, str] = {}
        self._over: set[str] = set()
        self._since: dict[tuple[str, str], float] = {}
        self._turns: dict[str, int] = {}

    def follow(self, crew: Attempt) -> None:
        """Look after a crew, whether this run has started it or taken it over."""
        self._providers[crew.id] = crew.provider
        self._spending.open_crew(crew.id, parse(crew.share).run)

    def settles(self, provider: str, at_work: Container[str]) -> bool:
        """Whether a crew of this provider has ended and is not settled: what it teaches is not known yet."""
        return any(
            kind == provider and crew not in at_work and crew not in self._over
            for crew, kind in self._providers.items()
        )

    def news(self) -> list[Deed]:
        """What the crews that this run looks after have reported since the last call."""
        found = [deed for deed in self.deeds.new() if deed.worker in self._providers] if self._providers else []
        for provider in {self._providers[deed.worker] for deed in found}:
            self._pacing.got_through(provider)
        return found

    def tend(self, crews: Collection[Attempt], *, draining: bool) -> list[Notice]:
        """Look at the crews that are at work, now and then. While the run drains they get nothing more, and end without a task."""
        if not crews or self._clock() < self._next_look:
            return []
        self._next_look = self._clock() + _LOOK
        holding = self.deeds.holding()
        board = boards.read(self._queue)
        self._vetting.renew(board)
        for share in {crew.share for crew in crews}:
            self._vetting.vet(parse(share), board)  # those at work claim their next task without asking us
        notices = []
        for crew in crews:
            mine = holding.get(crew.id, [])
            if draining and not is_dismissed(crew):
                dismiss(crew)
            turned = self._turn_ended(crew)
            # whoever met a wall would sit there until a person comes, and its tasks with it
            stop = (self._met(crew) if turned else "") or (self._idle(crew, board) if not mine else "")
            if mine:
                self._forget(crew)
            if stop:
                notices.append(Notice(crew, stop=stop))
            elif turned and mine:
                notices.append(Notice(crew, waits=tuple(sorted(mine))))
        return notices

    def disbanded(self, found: Disbanded) -> int:
        """Learn from a crew that is settled; returns how many tasks it has moved."""
        crew = found.attempt
        self._spending.close(crew.id)
        self._over.add(crew.id)
        moved = self.deeds.moved.get(crew.id, 0)
        at_fault = not moved and found.outcome.kind not in WALLS and found.is_its_own_end
        if at_fault:
            # one that found nothing to claim was called for tasks that others were quicker to take
            at_fault = self._vetting.free(parse(crew.share), boards.read(self._queue), 1) > 0
        spent = found.outcome.reason if found.outcome.kind == "budget" and found.exit.cause == "exited" else ""
        said = found.outcome.reason
        self._pacing.note_crew(crew.provider, moved=moved, is_at_fault=at_fault, spent=spent, why=said)
        return moved

    def _idle(self, crew: Attempt, board: Board) -> str:
        """Why a crew that holds nothing is to end now; empty while it may go on."""
        if is_dismissed(crew):
            return self._dismissed(crew)
        if self._vetting.free(parse(crew.share), board, 1):
            return self._unclaimed(crew)
        self._since.pop((crew.id, UNCLAIMED), None)
        if not self._is_asked(crew) and self._has_lasted(crew, DISMISSED, self._rest(crew)):
            # it is asked to end at the next look, unless it has claimed something in this very moment
            dismiss(crew)
        return ""

    def _dismissed(self, crew: Attempt) -> str:
        if self._has_lasted(crew, DISMISSED, self._rest(crew)):
            return f"{DISMISSED}: it holds nothing, and there is nothing more for it"
        return ""

    def _unclaimed(self, crew: Attempt) -> str:
        self._since.pop((crew.id, DISMISSED), None)
        if self._is_asked(crew) or not self._has_lasted(crew, UNCLAIMED, self._patience):
            return ""
        return f"{UNCLAIMED}: it held nothing for {duration(self._patience)} while tasks waited for it"

    def _is_asked(self, crew: Attempt) -> bool:
        """Whether a person sits with it, who may take as long as they like."""
        return self._asked and crew.interactive

    def _rest(self, crew: Attempt) -> float:
        return _REST if crew.interactive else _LAST_WORDS

    def _has_lasted(self, crew: Attempt, state: str, seconds: float) -> bool:
        now = self._clock()
        return now - self._since.setdefault((crew.id, state), now) >= seconds

    def _forget(self, crew: Attempt) -> None:
        for state in (DISMISSED, UNCLAIMED):
            self._since.pop((crew.id, state), None)

    def _turn_ended(self, crew: Attempt) -> bool:
        """Whether the session has ended a turn since the last look, as its own hook told."""
        if not crew.interactive:
            return False
        try:
            size = os.stat(turns.path(crew)).st_size
        except OSError:
            return False
        before = self._turns.get(crew.id, 0)
        self._turns[crew.id] = size
        return size > before
