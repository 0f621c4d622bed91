"""Money that is set aside before it is spent, for all processes that work on a project: one file beside the journal, in
`.agents/money/`, under a kernel lock.

Under that lock the journal is read to its end, so a sum is what is on record and what anybody holds beside it: what leaves the file
is in the journal by then. It fails closed: what a killed process held stays counted, but for what the journal tells of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from agent_fleet import identity
from agent_fleet.budget import Limits, dollars
from agent_fleet.deploy.belonging import Belonging, ceiling
from agent_fleet.errors import FleetError
from agent_fleet.ledger import Account, Tally, day_of, entry_from
from agent_fleet.prices import Table
from agent_fleet.queue import records
from agent_fleet.queue.files import BadFileError, make_directory, read_json, write_whole
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import Queue
from agent_fleet.run import holdings, roster
from agent_fleet.run.holdings import Fund, Holding, Room, bury, room
from agent_fleet.run.roster import Run

PLACE: Final = "money"
_SWEEP = 1.0  # seconds between two looks at whether others live


class Ask(NamedTuple):
    """What a holder has, and would have beside it. `holding` tells all that it has now; `wants` are amounts in US dollars, granted
    in their order as far as they fit. One that is `alone` may also take all that is left, if nobody else has staked anything.
    """

    name: str
    holding: Holding
    wants: tuple[float, ...] = ()
    alone: bool = False


class Reply(NamedTuple):
    """The amounts that were granted, and `why` the next one was not; `waits` says that what is on its way, calls of the asker's own
    too, may yet leave enough for it."""

    granted: tuple[float, ...]
    why: str = ""
    waits: bool = False
    fund: Fund | None = None


class Stakes:
    """What one process sees of the money of a project. `limits` are those of the run and of the day."""

    def __init__(
        self, queue: Queue, table: Table, limits: Limits, run: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.limits = limits
        self._queue = queue
        self._table = table
        self._run = run
        self._clock = clock
        self._account = Account(queue, table, run)
        self._deployments: dict[str, tuple[float, Account | None]] = {}
        self._directory = queue.path(PLACE)
        self._path = os.path.join(self._directory, "held.json")
        self._swept = 0.0

    @property
    def run(self) -> Tally:
        """What the run has cost by what is on record."""
        return self._account.run

    @property
    def day(self) -> Tally:
        """The same of this day."""
        return self._account.day

    def is_bounded(self, deployment: str) -> bool:
        """Whether a ceiling of money holds for work on this deployment (empty: on none)."""
        has_own = self.limits.run_money is not None or self.limits.day_money is not None
        return has_own or self._deployment(deployment)[0] > 0

    def account(self, deployment: str) -> Account | None:
        """What a deployment that has a ceiling of its own has cost by what is on record; None for any other."""
        return self._deployment(deployment)[1]

    def money_of(self, deployment: str) -> float | None:
        """The ceiling of a deployment; None if it has none."""
        return self._deployment(deployment)[0] or None

    def exchange(self, asks: Sequence[Ask]) -> list[Reply]:
        """Tell what holders have and get more. Raises FleetError: `corrupt` for a file that cannot be read, `busy`; OSError."""
        return self._exchange(asks)

    def would(self, ask: Ask) -> Reply:
        """What would come of an ask now; nothing is changed. Raises as `exchange` does."""
        return self._exchange([ask], dry=True)[0]

    def refresh(self, deployment: str = "") -> None:
        """Take in what any process has written to the journal."""
        self._account.refresh(self._clock())
        own = self.account(deployment)
        if own is not None:
            own.refresh(self._clock())

    # ------------------------------------------------------------------------------------------------------- serving

    def _exchange(self, asks: Sequence[Ask], *, dry: bool = False) -> list[Reply]:
        deployments = {ask.holding.deployment for ask in asks}
        for deployment in deployments:  # most of a long journal is read before others have to wait for it
            self.refresh(deployment)
        make_directory(self._directory)
        with DirLock(self._directory):
            for deployment in deployments:
                self.refresh(deployment)
            held = self._read()
            self._reconcile(held)
            replies = [self._serve(held, ask) for ask in asks]
            if not dry:
                write_whole(self._path, holdings.written(held), durable=False, mode=0o600)
        return replies

    def _serve(self, held: dict[str, Holding], ask: Ask) -> Reply:
        mine = ask.holding
        mine.at, mine.lives = self._clock(), True
        held[ask.name] = mine
        granted: list[float] = []
        reply = Reply(())
        for amount in ask.wants:
            reply = self._grant(held, ask, amount)
            if not reply.granted:
                break
            mine.staked += reply.granted[0]
            granted += reply.granted
        if mine.is_nothing:
            del held[ask.name]
        return reply._replace(granted=tuple(granted))

    def _grant(self, held: dict[str, Holding], ask: Ask, amount: float) -> Reply:
        left = amount
        for fund, sums in self._funds(ask.holding.deployment):
            if sums.money.unknown and self.limits.unknown_price == "stop":
                reasons = "; ".join(sums.money.unknown)
                return Reply((), f"money of the {fund.name}: what was used has no known price ({reasons})", fund=fund)
            found = room(fund, sums.money.known, held.values())
            if amount <= found.now:
                continue
            pending = [name for name, each in held.items() if each.staked > 0 and each.lives and fund.covers(each)]
            others = any(name != ask.name for name in pending)
            if ask.alone and not others and found.now > 0:
                left = min(left, found.now)
                continue
            # calls of its own come to an end like those of others; what an attempt was given ends only with the attempt
            may_end = bool(pending) if ask.holding.kind == "calls" else others
            waits = may_end and (found.later > 0 if ask.alone else amount <= found.later)
            return Reply((), _short(found, amount, waits=waits), waits, fund)
        return Reply((left,))

    def _funds(self, deployment: str) -> list[tuple[Fund, Tally]]:
        money, own = self._deployment(deployment)
        found: list[tuple[Fund, Tally]] = []
        if self.limits.run_money is not None:
            found.append((Fund("run", self._run, self.limits.run_money), self._account.run))
        if own is not None:
            found.append((Fund("deployment", deployment, money), own.run))
        if self.limits.day_money is not None:
            found.append((Fund("day", day_of(self._clock()), self.limits.day_money), self._account.day))
        return found

    # ---------------------------------------------------------------------------------------------- what became of it

    def _reconcile(self, held: dict[str, Holding]) -> None:
        """Take out what the journal tells by now, and count what the dead had as spent."""
        look = self._clock() >= self._swept + _SWEEP or self._clock() < self._swept
        if look:
            self._swept = self._clock()
        for name, each in list(held.items()):
            if each.kind == "lost":
                continue
            if each.kind == "attempt" and self._is_over(name, each):
                del held[name]
            elif look and each.owner and identity.is_alive(each.owner) is False:
                self._settle_dead(held, name, each)

    def _is_over(self, name: str, each: Holding) -> bool:
        if each.task:
            key = each.task, each.generation
            # one that was lost has used what is in its log: that is told when somebody settles it
            return self._account.has(key) or (self._account.is_over(key) and not self._is_unsettled(each))
        if each.worker:
            return each.worker in self._account.sessions
        return name in self._account.questions

    def _settle_dead(self, held: dict[str, Holding], name: str, each: Holding) -> None:
        """What a process left that is gone. One that its driver has not settled yet lives on, as far as money goes."""
        if each.kind == "attempt" and not each.task and not each.worker:
            bury(held, name)  # a question in planning: nothing else will ever tell what it has cost
            return
        if each.kind == "attempt":
            place = self._queue.find_active(each.task) if each.task else None
            is_held = place is not None and place.generation == each.generation
            if each.worker or is_held or self._is_unsettled(each):
                return  # whoever takes its run over will settle it
            record = records.outcome(self._queue, each.task, each.generation) if each.task else None
            each.staked, each.spent = 0.0, self._told(each, record)
            bury(held, name)
            return
        told = self._account.sessions.get(each.worker)
        if each.worker and told is None and os.path.isdir(self._worker_directory(each.worker)):
            each.lives = False  # what its session used is told when that is settled
            return
        if each.task and self._account.has((each.task, each.generation)):
            each.spent = 0.0
        elif told is not None:
            share = min(each.spent, told)
            each.spent -= share
            self._account.sessions[each.worker] = told - share
        bury(held, name)

    def _is_unsettled(self, each: Holding) -> bool:
        """Whether what an attempt left on disk waits to be settled. Its record is there before its process, so without any it
        never began.
        """
        run = Run(each.run, self._queue.path("runs", each.run), mark="", identity="")
        mine = (each.task, each.generation)
        return any((found.task, found.generation) == mine for found in roster.attempts(self._queue, run))

    def _told(self, each: Holding, record: dict[str, object] | None) -> float:
        return entry_from((each.task, each.generation), record, self._table).money.known if record else 0.0

    def _worker_directory(self, worker: str) -> str:
        run, _, number = worker.partition("-")
        return self._queue.path("runs", run, "workers", number)

    # ------------------------------------------------------------------------------------------------------- the rest

    def _deployment(self, name: str) -> tuple[float, Account | None]:
        """(its ceiling, what it has cost) of a deployment; 0 and None where it has none."""
        if name not in self._deployments:
            money = ceiling(self._queue, name)
            own = Account(self._queue, self._table, Belonging(self._queue, name)) if money else None
            self._deployments[name] = money, own
        return self._deployments[name]

    def _read(self) -> dict[str, Holding]:
        try:
            return holdings.parsed(read_json(self._path, private=True))
        except FileNotFoundError:
            return {}
        except (BadFileError, ValueError) as error:
            raise FleetError(
                "corrupt",
                f"what is set aside of the money cannot be read from {self._path}: {error}",
                hint="remove the file when nothing is at work; what was on its way then counts no more",
            ) from None


def _short(found: Room, amount: float, *, waits: bool) -> str:
    """Why an amount does not fit, for people."""
    what = "the next step" if amount == holdings.EVERYTHING else f"the next call may cost {dollars(amount)}"
    set_aside = f", {dollars(found.later - found.now)} set aside" if waits else ""
    return (
        f"money of the {found.fund.name}: {dollars(max(0.0, found.used))} used{set_aside},"
        f" {dollars(found.fund.limit)} allowed, and {what}"
    )
