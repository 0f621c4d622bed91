"""Admission: whether one more worker may start now, which task it takes, and what to say if none can."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from agent_fleet import machine
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.model import Hold, Task
from agent_fleet.plugins import LANES, PROVIDERS, Plugins
from agent_fleet.queue import finish, holds, lease
from agent_fleet.queue.claim import Claimed
from agent_fleet.queue.finish import Proof
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import crews, outlook, roster, turns
from agent_fleet.run.accounts import Access
from agent_fleet.run.clerk import Clerk, Lodging, Refused
from agent_fleet.run.equipment import Unstarted
from agent_fleet.run.gates import gates_of
from agent_fleet.run.marshal import Marshal
from agent_fleet.run.muster import Call, muster
from agent_fleet.run.outlook import Known, Outlook, Wishes
from agent_fleet.run.pacing import Pacing
from agent_fleet.run.reach import reaches, within
from agent_fleet.run.reasons import Reasons
from agent_fleet.run.roster import Attempt, Run
from agent_fleet.run.spending import Spending
from agent_fleet.run.stakes import Reply
from agent_fleet.run.start import Route, start
from agent_fleet.run.vetting import Vetting
from agent_fleet.run.watcher import Watcher
from agent_fleet.text import count, line

_BACKOFF = 5.0  # seconds until a machine that had no room for a process is tried again
_PATIENCE = 3  # times in a row that it may have had none
_PRESSED = 3  # looks in a row that show real pressure, before it is believed
_OF_THE_MACHINE = ("unavailable", "disk_full", "read_only", "permission", "io_error")


class Answer(NamedTuple):
    """What came of one look: an attempt that was started, a task that cannot be run at all and the state that it is in
    therefore, whether nothing is left that could start by waiting; `shed` says why one worker should give way.
    """

    attempt: Attempt | None = None
    ended: tuple[str, str] | None = None
    exhausted: bool = False
    shed: str = ""


class Admission:
    """Measures before each start and starts at most one worker a time, `stagger` seconds apart.

    What it learns in a run (which provider or lane cannot be used, what was said already) is all the state that it has.
    """

    def __init__(
        self,
        queue: Queue,
        config: Config,
        plugins: Plugins,
        run: Run,
        wishes: Wishes,
        environ: Mapping[str, str],
        say: Callable[[str], None],
        *,
        stagger: float,
    ) -> None:
        self.queue = queue
        self.config = config
        self.plugins = plugins
        self.run = run
        self.wishes = wishes
        self.environ = environ
        self.stagger = stagger
        self.book = machine.cost_book(environ)
        self.pacing = Pacing(gates_of(queue, config), run.identity)
        self.spending = Spending(queue, config, run.id, owner=run.identity)
        access = Access(os.path.dirname(queue.dir), config, plugins, environ, wishes.pool)
        self.clerk = Clerk(queue, access, run.mark)
        self.started = 0
        self.lanes: set[str] = set()
        self.next_start = 0.0
        self._say = say
        self.reasons = Reasons(queue, self.pacing, say, force=wishes.force, longest=float(config.get("run.max_wait")))
        owner = lease.enlist(queue, run.identity, agent=f"{run.id}-driver", lane="")
        self._routes = outlook.routes_of(config, plugins, wishes)
        self._vetting = Vetting(queue, config, plugins, owner, self.reasons.say_once, only=wishes.only, keep=self._keep)
        self.marshal = Marshal(
            *(queue, self._vetting, self.pacing, self.spending),
            patience=config.get("run.first_claim"),
            asked=wishes.ask,
            met=lambda crew: turns.wall(queue, plugins, crew),
        )
        self._known = Known({}, {})
        self._tasks: set[str] = set()
        self._price = 0.0
        self._misses = 0
        self._pressed = 0

    def next(self, at_work: Collection[Watcher], returned: Collection[str]) -> Answer:
        """Look, and start one worker if there is room. `at_work` are the run's workers, `returned` the tasks that came back."""
        lease.reclaim(self.queue, lapse=self.config.get("queue.lapse"))
        seen = self._look(at_work)
        pressure = self._pressure(seen, len(at_work))
        if pressure:
            return Answer(shed=pressure)
        if not seen.board.counts["inbox"] or self._attempts_are_used_up(seen, returned):
            return Answer(exhausted=True)
        spent = self.spending.refusal(None, self.wishes.only)
        if spent is not None:
            self.reasons.explain(f"nothing more is started: {spent.why}")
            return Answer(exhausted=True)
        if wait := self.spending.waits():
            self.reasons.explain(f"waiting: {wait}", key="money")
            return Answer()
        self.reasons.tell_troubles(seen)
        if seen.plan.starts == 0:
            return Answer(exhausted=not self.reasons.may_change(seen, at_work, self._vetting.tracks))
        if time.monotonic() < self.next_start:
            return Answer()
        started = self._muster(seen, at_work) or self._dispatch(seen, len(at_work))
        return started or Answer(exhausted=not self.reasons.may_change(seen, at_work, self._vetting.tracks))

    def waiting(self) -> int:
        """How many tasks wait that this run is for."""
        return self._vetting.waiting()

    # ------------------------------------------------------------------------------------------------------- looking

    def _look(self, at_work: Collection[Watcher]) -> Outlook:
        others = roster.at_work(self.queue, but={watcher.attempt.id for watcher in at_work})
        # a worker that has just started has not taken the memory yet that it was let in for
        owed = sum(max(0.0, self._price - watcher.memory) for watcher in at_work)
        seen = outlook.look(
            self.queue,
            self.config,
            self.plugins,
            self.wishes,
            at_work=[*others, *(watcher.attempt for watcher in at_work)],
            owed_memory=owed,
            book=self.book,
            known=self._known,
            gated=self.pacing.obstacles(),
            rooms=self.clerk.rooms,
            pools=self._vetting.wishes,
            run=self.run.id,
            only=self._vetting.only,
        )
        self._price = seen.machine.cost.memory
        providers = {name: seen.troubles.get(name, "") for lane in seen.plan.lanes for name in lane.providers}
        providers = {name: trouble for name, trouble in providers.items() if name not in seen.gated}
        self._known = Known({**providers, **self._known.providers}, self._known.lanes)
        for warning in seen.warnings:
            self.reasons.say_once(warning, f"warning: {warning}")
        return seen

    def _attempts_are_used_up(self, seen: Outlook, returned: Collection[str]) -> bool:
        """Whether the run-wide cap on attempts is reached, so that retries can never storm."""
        self._tasks |= self.marshal.deeds.tasks
        fresh = max(0, seen.board.counts["inbox"] - len(returned))
        cap = self.config.get("run.attempts") or 3 * (len(self._tasks) + fresh)
        if self.started < cap:
            return False
        self.reasons.explain(f"{self.started} attempts were started, the cap of this run is {cap}: no more are started")
        return True

    # ------------------------------------------------------------------------------------------------------- starting

    def _muster(self, seen: Outlook, at_work: Collection[Watcher]) -> Answer | None:
        """Start a crew where one is due: while more tasks that it may claim are free than seats are empty."""
        for (lane, provider), berth in sorted(seen.berths.items()):
            planned = seen.plan.lane(lane)
            room = planned.workers - planned.running if planned else 0
            if room < 1 or provider in seen.troubles:
                continue
            if self.marshal.settles(provider, {watcher.attempt.id for watcher in at_work}):
                return Answer()
            whole = crews.share_of(seen.routes, lane, provider)._replace(run=self.wishes.only)
            route = Route(self.plugins.offer(LANES, lane), self.plugins.offer(PROVIDERS, provider))
            asked = self.wishes.ask and berth.interactive
            pools = crews.by_pool(whole, self._vetting.pools(whole), self.clerk.access.pool())
            for pool, share in within(seen, provider, pools):
                call = Call(route, min(berth.seats, room), berth.interactive, share, asked)
                if answer := self._muster_one(call, pool, seen, at_work):
                    return answer
        return None

    def _muster_one(self, call: Call, pool: str, seen: Outlook, at_work: Collection[Watcher]) -> Answer | None:
        """Start a crew for the tasks of one pool, where one is due and an account of that pool takes it."""
        provider = call.route.provider.name
        vacant = crews.vacant((watcher.attempt for watcher in at_work), seen.board, call.share)
        if self._vetting.free(call.share, seen.board, vacant + 1) <= vacant or not self.pacing.may_start(provider):
            return None
        if not pool:
            return self._call(call, seen, len(at_work))
        found = self.clerk.call(provider, pool, self.clerk.name(f"{provider}-{self.started}"))
        if isinstance(found, Lodging):
            return self._call(call._replace(lodging=found), seen, len(at_work))
        self.pacing.not_started(provider)
        self.reasons.say_once(f"account {provider} {pool}", f"no session of {provider} was started: {found.why}")
        if pool == self.clerk.access.pool() or vacant:
            return None
        if isinstance(found, Hold):
            self._vetting.hold(call.share, found)
            return None
        claimed = self._vetting.claim_one(call.share)
        return None if claimed is None else self._without_account(claimed, found)

    def _without_money(self, short: Reply) -> Answer:
        """What is left of the money is not enough for a start: until others leave some of it, or for good."""
        self.reasons.explain(f"{'waiting' if short.waits else 'nothing more is started'}: {short.why}", key="money")
        return Answer(exhausted=not short.waits)

    def _call(self, call: Call, seen: Outlook, at_work: int) -> Answer:
        provider = call.route.provider.name
        advance = f"crew {self.run.id} {time.time_ns()}"
        short = self.spending.advance_crew(advance, call.share.run, call.route.provider)
        if not short.granted:
            self._undo(provider, call.lodging, advance)
            return self._without_money(short)
        self._use(call.route.lane.name)
        try:
            begun = muster(self.queue, self.config, self.plugins, self.run, call, self.environ)
        except OSError:
            self._undo(provider, call.lodging, advance)
            raise
        if isinstance(begun, Unstarted):
            self._undo(provider, call.lodging, advance)
            self._say(f"no session of {provider} was started: {begun.error.message}")
            self._leave_alone(begun, call.route)
            return Answer()
        self.spending.open_crew(begun.id, call.share.run, advance)
        self._has_started(begun)
        self._note_admission(seen, at_work, task=None, gen=0, worker=begun.id)
        why = seen.plan.binding
        self._say(
            f"{begun.id}  session of {count(begun.seats, 'seat')} started in {begun.lane} by {provider}"
            f"  [{at_work + 1} at work, bound by {why.name}: {line(why.why, 90)}]"
        )
        return Answer(begun)

    def _use(self, lane: str) -> None:
        """Remember that the lane was used, and say once where its workers are."""
        for text in outlook.forms(self.config, self.plugins, [lane]):
            self.reasons.say_once(f"form {lane}", text)
        self.lanes.add(lane)

    def _note_admission(self, seen: Outlook, at_work: int, **who: object) -> None:
        """Put on record what the start of a worker was decided by."""
        why = seen.plan.binding
        self.queue.tell(
            "admitted",
            run=self.run.id,
            at_work=at_work + 1,
            planned=seen.plan.workers,
            bound_by=why.name,
            why=why.why,
            readings={name: reading.value for name, reading in sorted(seen.machine.folded.items())},
            **who,
        )

    def _undo(self, provider: str, lodging: Lodging | None, advance: str) -> None:
        """A start that was to be did not happen."""
        self.pacing.not_started(provider)
        self.spending.call_off(advance)
        if lodging is not None:
            self.clerk.release(lodging)

    def adopt(self, attempt: Attempt) -> None:
        """Know of a worker that another driver had started, and see that its account is leased to it."""
        self.lanes.add(attempt.lane)
        # if it comes back it is a task of this run, which may try it as often as any
        self._tasks |= {attempt.task} - {""}
        self.clerk.bind(attempt)

    def _has_started(self, attempt: Attempt) -> None:
        self.clerk.bind(attempt)
        self.reasons.vigil.over()
        self.started += 1
        self._misses = 0
        self.next_start = time.monotonic() + self.stagger

    def _keep(self, task: Task) -> Hold | None:
        """Why a task that would be dispatched waits for an account."""
        return self.clerk.keep(task, self._routes.provider_for(task.need, task.provider))

    def _dispatch(self, seen: Outlook, at_work: int) -> Answer | None:
        for reach in reaches(seen):
            claimed = self._vetting.claim(reach.wanted, seen.board, self._hand_back, reach.pools)
            if claimed is not None:
                return self._begin(claimed, seen, at_work)
        return None

    def _begin(self, claimed: Claimed, seen: Outlook, at_work: int) -> Answer:
        task = task_from(claimed.body)
        lane = seen.routes.lane(task.need, task.lane)
        provider = seen.routes.provider_for(task.need, task.provider)
        route = Route(self.plugins.offer(LANES, lane), self.plugins.offer(PROVIDERS, provider))
        self._use(lane)
        spent = self.spending.refusal(task)
        if spent is not None and spent.is_of_the_task:
            return self._give_up(claimed, "budget", spent.why)
        if not self.pacing.may_start(provider):
            self._hand_back(claimed, "somebody else tries whether the limit is over")
            return Answer()
        lodging = self.clerk.assign(task, provider, self.clerk.name(f"{task.id}.g{claimed.generation}"))
        if isinstance(lodging, (Hold, Refused)):
            self.pacing.not_started(provider)
            return self._without_account(claimed, lodging)
        advance = f"{task.id}.g{claimed.generation}"
        short = self.spending.advance(advance, task, claimed.generation, route.provider)
        if not short.granted:
            self._undo(provider, lodging, advance)
            self._hand_back(claimed, short.why)
            return self._without_money(short)
        try:
            begun = start(
                *(self.queue, self.config, self.plugins, self.run, claimed, route, self.environ),
                worktree=self.wishes.worktree,
                lodging=lodging,
            )
        except OSError as error:
            self._undo(provider, lodging, advance)
            self._hand_back(claimed, f"could not be started: {error.strerror}")
            raise
        if isinstance(begun, Unstarted):
            self._undo(provider, lodging, advance)
            return self._refuse(claimed, begun, route)
        self._has_started(begun)
        self._tasks.add(task.id)
        self._note_admission(seen, at_work, task=task.id, gen=claimed.generation)
        why = seen.plan.binding
        self._say(
            f"{task.id}  started in {lane} by {begun.account or provider} as {begun.id}: {line(task.title or task.target, 70)}"
            f"  [{at_work + 1} of {seen.plan.workers}, bound by {why.name}: {line(why.why, 90)}]"
        )
        return Answer(begun)

    def _refuse(self, claimed: Claimed, found: Unstarted, route: Route) -> Answer:
        """Hand a task back that could not be started, and leave what cannot be used alone until the end of the run."""
        error = found.error
        self._say(f"{claimed.task}  not started: {error.message}")
        if found.culprit == "task":
            return self._give_up(claimed, "refused", error.message)
        self._hand_back(claimed, f"could not be started: {error.message}")
        self._leave_alone(found, route)
        return Answer()

    def _leave_alone(self, found: Unstarted, route: Route) -> None:
        """Wait for a machine without room; start no more of a lane or a provider that cannot be used."""
        error = found.error
        if found.culprit == "machine" or error.code in _OF_THE_MACHINE:
            self._misses += 1
            if self._misses >= _PATIENCE:
                raise error
            self.next_start = time.monotonic() + _BACKOFF
        elif found.culprit == "lane":
            self._known = Known(self._known.providers, {**self._known.lanes, route.lane.name: error.message})
        else:
            self._known = Known({**self._known.providers, route.provider.name: error.message}, self._known.lanes)

    def _without_account(self, claimed: Claimed, found: Hold | Refused) -> Answer:
        """Hold a task whose account opens later; park one that no account can take before a person has mended something."""
        self._say(f"{claimed.task}  not started: {found.why}")
        if isinstance(found, Refused):
            return self._give_up(claimed, "blocked", found.why)
        holds.put(self.queue, {claimed.task: {"why": found.why, "until": found.until, "source": found.source}})
        self._hand_back(claimed, found.why)
        return Answer()

    def _give_up(self, claimed: Claimed, outcome: str, reason: str) -> Answer:
        """Fail a task that no attempt can help, or park it."""
        state = "blocked" if outcome == "blocked" else "failed"
        record = {"outcome": outcome, "reason": reason, "result": "", "charged": state == "failed", "by": "fleet"}
        self._tasks.add(claimed.task)
        finish.finish(self.queue, claimed.task, Proof(generation=claimed.generation), state, record)
        return Answer(ended=(claimed.task, state))

    def _hand_back(self, claimed: Claimed, why: str) -> None:
        try:
            finish.hand_back(self.queue, claimed.task, Proof(generation=claimed.generation), why)
        except FleetError as error:
            if error.code != "lease_lost":
                raise

    def _pressure(self, seen: Outlook, at_work: int) -> str:
        """Why one worker should give way: real pressure, seen several times in a row. One bad reading ends nobody."""
        wait = seen.machine.capacity.wait
        self._pressed = self._pressed + 1 if wait and at_work > 1 else 0
        if self._pressed < _PRESSED:
            return ""
        self._pressed = 0
        return wait
