"""The loop of one run: settle what ended, look, start at most one more, and again. It holds nothing that the disk does not."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from types import FrameType
from typing import Any, NamedTuple

from agent_fleet import machine
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.plugins import LANES, PROVIDERS, Plugins
from agent_fleet.queue import holds, intake, lease, names
from agent_fleet.queue.claim import Claim, Claimed
from agent_fleet.queue.finish import Proof, hand_back
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import adoption, outlook, roster
from agent_fleet.run.console import Console
from agent_fleet.run.outlook import Outlook, Wishes
from agent_fleet.run.roster import Attempt, Run
from agent_fleet.run.settle import Settled, settle
from agent_fleet.run.start import Route, job_of, start
from agent_fleet.run.watcher import Watcher
from agent_fleet.text import duration, line

_TICK = 0.1
_LOOK_AGAIN = 2.0


class Summary(NamedTuple):
    """How a run ended: tasks by the state that their attempts left them in, attempts started, what still waits and why."""

    run: str
    states: dict[str, int]
    attempts: int
    waiting: int
    why: str
    seconds: float


class Driver:
    """One run. `step` does one round and says whether there is anything left to do."""

    def __init__(
        self,
        queue: Queue,
        config: Config,
        plugins: Plugins,
        wishes: Wishes,
        console: Console,
        environ: Mapping[str, str],
        *,
        stagger: float,
        drain: bool = False,
    ) -> None:
        self.queue = queue
        self.config = config
        self.plugins = plugins
        self.wishes = wishes
        self.console = console
        self.environ = environ
        self.stagger = stagger
        self.draining = drain
        self.stopping = False
        self.run: Run = roster.new_run(queue, asdict(wishes) | {"stagger": stagger, "drain": drain})
        self.settled: list[Settled] = []
        self.started = 0
        self._begun = time.monotonic()
        self._watchers: dict[str, Watcher] = {}
        self._settling: dict[str, Future[Settled]] = {}
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="settle")
        self._owner = lease.enlist(queue, self.run.identity, agent=f"{self.run.id}-driver", lane="")
        self._book = machine.cost_book(environ)
        self._price = 0.0
        self._next_start = 0.0
        self._next_look = 0.0
        self._said: dict[str, str] = {}
        self._unusable: dict[str, str] = {}
        self._nothing_left = False

    # ------------------------------------------------------------------------------------------------------- the loop

    def work(self) -> Summary:
        """Run until nothing is left to do, or until stopped. Signals: the first Ctrl-C drains, the second (or TERM) stops."""
        with _Signals(self._on_signal):
            try:
                self.queue.journal.append("run_started", run=self.run.id, identity=self.run.identity)
                intake.recover(self.queue)
                for attempt in adoption.adopt(self.queue, self.run, self.config.get("run.grace"), self.console.say):
                    self._follow(attempt)
                while self.step():
                    time.sleep(_TICK)
            except BaseException:
                self.stopping = True
                self._stop_workers()
                raise
            finally:
                self._pool.shutdown(wait=True)
                summary = self._summary()
                roster.end_run(self.run, summary._asdict())
                self.queue.journal.append("run_ended", run=self.run.id, states=summary.states, attempts=self.started)
                self.console.close()
        return summary

    def step(self) -> bool:
        """One round: settle, watch, start at most one. False when the run is over."""
        self._obey_orders()
        self._collect()
        self._watch()
        if self.stopping:
            self._stop_workers()
        elif not self.draining and time.monotonic() >= max(self._next_start, self._next_look):
            self._start_one()
        self._show()
        busy = bool(self._watchers or self._settling)
        return busy or not (self.stopping or self.draining or self._nothing_left)

    def _obey_orders(self) -> None:
        order = roster.read_order(self.run)
        if order == "stop" and not self.stopping:
            self.stopping = True
            self.console.say("asked to stop: ending the workers, their tasks return to the queue")
        elif order == "drain" and not self.draining:
            self.draining = True
            self.console.say("asked to drain: no new starts, the running workers finish")

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGINT and not self.draining:
            self.draining = True
            self.console.say(
                f"finishing {len(self._watchers)} workers, starting no more; Ctrl-C again stops them and returns their tasks"
            )
        else:
            self.stopping = True

    # --------------------------------------------------------------------------------------------- what runs already

    def _follow(self, attempt: Attempt) -> None:
        place = self.queue.find(attempt.task)
        body = self.queue.body(place.path, attempt.task) if place else None
        reader = None
        if body is not None:
            job = job_of(self.queue, attempt, task_from(body))
            try:
                offer = self.plugins.offer(PROVIDERS, attempt.provider)
                reader = self.plugins.ask(offer, lambda provider: provider.reader(job))
            except FleetError as error:
                self._say_once(
                    f"reader {attempt.provider}", f"{attempt.task}: its output is not followed: {error.message}"
                )
        self._watchers[attempt.id] = Watcher(attempt, reader)
        self._nothing_left = False

    def _watch(self) -> None:
        for watcher in list(self._watchers.values()):
            attempt = watcher.attempt
            self._read_events(watcher)
            if roster.read_exit(attempt) is not None or adoption.is_over(attempt, self.config.get("run.grace")):
                self._read_events(watcher)
                del self._watchers[attempt.id]
                self._remember_cost(watcher)
                self._settling[attempt.id] = self._pool.submit(
                    settle, self.queue, self.config, self.plugins, attempt, self.environ
                )
            else:
                watcher.measure()

    def _read_events(self, watcher: Watcher) -> None:
        attempt = watcher.attempt
        try:
            offer = self.plugins.offer(PROVIDERS, attempt.provider)
            events = self.plugins.ask(offer, lambda _: list(watcher.events()))
            lane = self.plugins.offer(LANES, attempt.lane)
            shown = self.plugins.ask(lane, lambda found: found.foreground)
        except FleetError as error:
            watcher.reader = None
            self._say_once(f"events {attempt.provider}", f"{attempt.task}: its output is not followed: {error.message}")
            return
        for event in events:
            if event.kind in ("limit", "retry", "denied") or (shown and event.text):
                self.console.say(f"{attempt.task}  {event.kind}: {line(event.text, 120)}")

    def _remember_cost(self, watcher: Watcher) -> None:
        found = roster.read_exit(watcher.attempt)
        told = found[1] if found else {}
        cost = watcher.cost(told.get("cpu"), told.get("max_rss"))
        if cost is not None and found is not None and found[0].cause == "exited":
            try:
                self._book.record(watcher.attempt.provider, watcher.attempt.lane, cost.memory, cost.cores)
            except OSError as error:
                self._say_once("costs", f"the cost of workers is not remembered: {error.strerror}")

    def _collect(self) -> None:
        for worker, future in list(self._settling.items()):
            if future.done():
                del self._settling[worker]
                self._tell(future.result())

    def _tell(self, found: Settled) -> None:
        self.settled.append(found)
        self._nothing_left = False
        self._next_look = 0.0
        outcome = found.outcome
        what = outcome.result if outcome.kind == "done" else outcome.reason
        cost = "" if found.state in ("done", "blocked") else ", charged" if found.charged else ", not charged"
        kind = "" if outcome.kind == found.state else f" ({outcome.kind}{cost})"
        self.console.say(
            f"{found.attempt.task}  {found.state}{kind} after {duration(found.seconds)}: {line(what, 140)}"
        )

    def _stop_workers(self) -> None:
        """Ask every lane to end its workers; the keepers write how, and settling hands the tasks back."""
        for watcher in self._watchers.values():
            attempt = watcher.attempt
            adoption.ask_to_stop(attempt, "the run was stopped")

    # ------------------------------------------------------------------------------------------------ one more start

    def _start_one(self) -> None:
        """Look, and start one worker if the plan has room. What cannot start now is said once, with its reason."""
        lease.reclaim(self.queue, lapse=self.config.get("queue.lapse"))
        seen = self._look()
        self._next_look = time.monotonic() + _LOOK_AGAIN
        if self._attempts_are_used_up(seen):
            self._nothing_left = True
            return
        if seen.plan.starts == 0:
            self._explain(seen)
            return
        warnings: list[str] = []
        outlook.vet(self.queue, self.plugins, seen.board, warnings)
        search = Claim(self.queue, self._owner, outlook.rules_of(self.queue, self.config))
        claimed = search.take(self._wanted(seen))
        for warning in warnings:
            self._say_once(warning, f"warning: {warning}")
        if claimed is None:
            self._nothing_left = not self._is_worth_waiting(seen)
            return
        if self._begin(claimed, seen):
            self._next_start = time.monotonic() + self.stagger
        self._next_look = 0.0

    def _look(self) -> Outlook:
        running: dict[str, int] = {}
        for watcher in self._watchers.values():
            running[watcher.attempt.lane] = running.get(watcher.attempt.lane, 0) + 1
        # a worker that has just started has not taken the memory yet that it was let in for
        owed = sum(max(0.0, self._price - watcher.memory) for watcher in self._watchers.values())
        seen = outlook.look(
            self.queue, self.config, self.plugins, self.wishes, running=running, owed_memory=owed, book=self._book
        )
        self._price = seen.machine.cost.memory
        for warning in seen.warnings:
            self._say_once(warning, f"warning: {warning}")
        return seen

    def _wanted(self, seen: Outlook) -> Callable[[int, str, str, str], bool]:
        """Only tracks whose lane has room and whose provider can be used."""

        def wanted(_priority: int, need: str, lane_wish: str, provider_wish: str) -> bool:
            name = seen.routes.lane(need, lane_wish)
            lane = seen.plan.lane(name)
            if lane is None or lane.workers <= lane.running:
                return False
            return not self._provider_trouble(seen.routes.provider_for(need, provider_wish))

        return wanted

    def _provider_trouble(self, name: str) -> str:
        if name not in self._unusable:
            self._unusable[name] = outlook.provider_trouble(self.plugins, name)
            if self._unusable[name]:
                self.console.say(f"provider {name} cannot be used: {self._unusable[name]}; its tasks wait")
        return self._unusable[name]

    def _begin(self, claimed: Claimed, seen: Outlook) -> bool:
        task = task_from(claimed.body)
        lane = seen.routes.lane(task.need, task.lane)
        provider = seen.routes.provider_for(task.need, task.provider)
        try:
            route = Route(self.plugins.offer(LANES, lane), self.plugins.offer(PROVIDERS, provider))
            attempt = start(self.queue, self.config, self.plugins, self.run, claimed, route, self.environ)
        except FleetError as error:
            # the same would happen to the next task of this kind: leave them all until a person has looked
            self._unusable[provider] = error.message
            self.console.say(f"{task.id}  not started: {error.message}")
            hand_back(
                self.queue, task.id, Proof(generation=claimed.generation), f"could not be started: {error.message}"
            )
            return False
        self.started += 1
        self._follow(attempt)
        why = seen.plan.binding
        self.console.say(
            f"{task.id}  started in {lane} by {provider} as {attempt.id}: {line(task.title or task.target, 70)}"
            f"  [{len(self._watchers)} of {seen.plan.workers}, bound by {why.name}: {line(why.why, 90)}]"
        )
        return True

    # ------------------------------------------------------------------------------------------- why nothing starts

    def _attempts_are_used_up(self, seen: Outlook) -> bool:
        """Whether the run-wide cap on attempts is reached, so that retries can never storm."""
        cap = self.config.get("run.attempts") or 3 * max(
            1, seen.board.counts["inbox"] + len(self.settled) + len(self._watchers)
        )
        if self.started < cap:
            return False
        self._say_once(
            "attempts", f"{self.started} attempts were started, the cap of this run is {cap}: no more are started"
        )
        return True

    def _is_worth_waiting(self, seen: Outlook) -> bool:
        """Whether what waits can become free by itself: a hold that ends, or somebody else who is at work."""
        if not seen.board.counts["inbox"]:
            return False
        held = [hold for hold in holds.read(self.queue).values() if isinstance(hold.get("until"), int | float)]
        if held:
            first = min(held, key=lambda hold: float(hold["until"]))
            wait = duration(max(0.0, float(first["until"]) - time.time()))
            self._say_once(
                str(first["why"]),
                f"waiting {wait} for the first of {len(held)} held tasks: {line(str(first['why']), 120)}",
            )
            return True
        return bool(self._watchers or self._settling)

    def _explain(self, seen: Outlook) -> None:
        if self._watchers or self._settling:
            return
        why = seen.plan.binding
        if seen.machine.capacity.wait and not self.wishes.force:
            self._say_once("pressure", f"waiting: {seen.machine.capacity.wait}")
        elif seen.board.counts["inbox"]:
            self._nothing_left = True
            self._say_once("nothing", f"nothing can start: {why.name}: {why.why}")
        else:
            self._nothing_left = True

    def _say_once(self, key: str, text: str) -> None:
        if self._said.get(key) != text:
            self._said[key] = text
            self.console.say(text)

    def _show(self) -> None:
        ended = sum(1 for found in self.settled if found.state != "inbox")
        self.console.progress(ended, ended + len(self._watchers) + len(self._settling), len(self._watchers))

    def _summary(self) -> Summary:
        last: dict[str, str] = {found.attempt.task: found.state for found in self.settled}
        states = {state: list(last.values()).count(state) for state in names.STATES if state in last.values()}
        waiting = sum(1 for _ in self.queue.waiting())
        return Summary(
            run=self.run.id,
            states=states,
            attempts=self.started,
            waiting=waiting,
            why="; ".join(self._said.values()) if waiting else "",
            seconds=time.monotonic() - self._begun,
        )


class _Signals:
    """Routes SIGINT and SIGTERM to the driver for the time of a run."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._tell(number)
