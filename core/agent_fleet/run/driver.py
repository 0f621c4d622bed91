"""The loop of one run: settle what ended, watch what runs, start at most one more, and again. The disk holds all it knows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from typing import cast

from agent_fleet import paths
from agent_fleet.config import Config
from agent_fleet.errors import FleetError, from_os_error
from agent_fleet.plugins import LANES, PROVIDERS, Plugins
from agent_fleet.protocols import Musters, Reader
from agent_fleet.queue import intake, names
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import checkout, logs, roster, traces
from agent_fleet.run.admission import Admission
from agent_fleet.run.adoption import Adoption
from agent_fleet.run.console import Console
from agent_fleet.run.disband import Disbanded, close
from agent_fleet.run.jobs import job_of
from agent_fleet.run.muster import crew_of
from agent_fleet.run.notice import Notices
from agent_fleet.run.outlook import Wishes
from agent_fleet.run.restraint import Restraint
from agent_fleet.run.roster import Attempt, Run
from agent_fleet.run.settle import Bench, Settled
from agent_fleet.run.signals import Signals
from agent_fleet.run.silence import Silence
from agent_fleet.run.tidings import Summary, Tidings
from agent_fleet.run.watcher import Watcher
from agent_fleet.text import line

_TICK = 0.1  # seconds between two rounds
_LOOK_AGAIN = 2.0  # seconds between two looks where nothing has changed
_MEASURE = 0.25  # seconds between two measurements of a worker, at least
_SHARE = 100.0  # a measurement may take one part in so many of a core's time
_PATIENCE = 15.0  # seconds that keepers get beyond the grace, where the driver itself cannot go on


class Driver:
    """One run. `step` does one round and says whether there is anything left to do. `follow` hears which tasks have ended, and
    gives the new ones that follow from that.
    """

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
        follow: Callable[[Collection[str]], Collection[str]] = lambda _: (),
    ) -> None:
        self._follow_up = follow
        self.queue = queue
        self.config = config
        self.plugins = plugins
        self.console = console
        self.draining = drain
        self.stopping = False
        self.run: Run = roster.new_run(queue, asdict(wishes) | {"stagger": stagger, "drain": drain})
        self.admission = Admission(queue, config, plugins, self.run, wishes, environ, console.say, stagger=stagger)
        patience = float(config.get("run.idle"))
        spending = self.admission.spending
        self._restraint = Restraint(queue, self.run, spending, console.say, patience=patience)
        about = {"project": os.path.dirname(queue.dir), "run": self.run.id}
        self._notices = Notices(config.get("notify.command"), environ, about, console.say, platform=sys.platform)
        self.tidings = Tidings(queue, self._notices, console.say)
        self._adoption = Adoption()
        self._silence = Silence(queue, config, paths.state_dir(environ), console.say)
        self._bench = Bench(queue, config, plugins, environ, lambda: self.stopping)
        self._begun = time.monotonic()
        self._watchers: dict[str, Watcher] = {}
        self._settling: dict[str, Future[Settled | Disbanded]] = {}
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="settle")
        self._failure: FleetError | None = None
        self._next_look = 0.0
        self._next_measurement = 0.0
        self._exhausted = False

    # ------------------------------------------------------------------------------------------------------- the loop

    def work(self) -> Summary:
        """Run until nothing is left to do, or until stopped. Signals: the first Ctrl-C drains, the second (or TERM) stops.

        Raises FleetError for what made it impossible to go on; the workers have ended then, or are on record for the next run.
        """
        with Signals() as signals:
            try:
                self.queue.tell("run_started", run=self.run.id, identity=self.run.identity)
                intake.recover(self.queue)
                checkout.recover(self.queue, self._bench.environ)
                logs.prune(self.queue, self.config.get("run.keep_logs"))
                if self.draining:
                    self._adopt()
                while self.step(signals):
                    time.sleep(_TICK)
            except BaseException:
                self._abandon()
                raise
            finally:
                self._pool.shutdown(wait=True)
                summary = self._end()
        if self._failure is not None:
            raise self._failure
        return summary

    def step(self, signals: Signals) -> bool:
        """One round: settle, watch, start at most one. False when the run is over."""
        self._obey(signals)
        self._collect()
        self._notices.step()
        if self._watchers:
            self._silence.step()
        self._watch()
        self._tend()
        self._hear()
        if self.stopping:
            for watcher in self._watchers.values():
                roster.ask_to_stop(watcher.attempt, "the run was stopped")
        elif not self.draining and time.monotonic() >= self._next_look:
            self._admit()
        running = len(self._watchers)
        ended = sum(1 for state in self.tidings.states.values() if state != "inbox")
        self.console.progress(ended, ended + running + len(self._settling), running)
        busy = bool(self._watchers or self._settling)
        return busy or not (self.stopping or self.draining or self._exhausted)

    def drain(self, more: str) -> None:
        """Start nothing more; those at work come to their end. `more` ends the sentence that says so."""
        if not self.draining and not self.stopping:
            self.draining = True
            self.console.say(f"finishing {len(self._watchers)} workers, starting no more{more}")

    def _obey(self, signals: Signals) -> None:
        order = roster.read_order(self.run)
        stop = order == "stop" or signals.terms or signals.interrupts > 1
        if stop and not self.stopping:
            self.stopping = True
            self.console.say("stopping: the workers are ended, their tasks return to the queue")
        elif order == "drain" or signals.interrupts:
            self.drain("; Ctrl-C again stops them and returns their tasks" if signals.interrupts else "")

    def _fail(self, error: FleetError) -> None:
        """Start nothing more, let the workers end, and report the first thing that went wrong."""
        if self._failure is None:
            self._failure = error
            self.console.say(f"cannot go on, finishing {len(self._watchers)} workers: {error.message}")
        self.draining = True

    def _abandon(self) -> None:
        """After a fault in this program: end the workers as far as they end in time; the next run settles them."""
        self.stopping = True
        attempts = [watcher.attempt for watcher in self._watchers.values()]
        for attempt in attempts:
            roster.ask_to_stop(attempt, "the run broke off")
        deadline = time.monotonic() + self.config.get("run.grace") + _PATIENCE
        while time.monotonic() < deadline and not all(map(roster.has_ended, attempts)):
            time.sleep(_TICK)

    def _end(self) -> Summary:
        """Put the end of the run on record. One that leaves unsettled attempts has not ended: the next run takes it over."""
        states = {state: found for state in names.STATES if (found := list(self.tidings.states.values()).count(state))}
        waiting = self.admission.waiting()
        summary = Summary(
            run=self.run.id,
            states=states,
            attempts=self.admission.started,
            waiting=waiting,
            why=self.admission.reasons.why if waiting else "",
            seconds=time.monotonic() - self._begun,
            obstacle=self.admission.reasons.obstacle if not states else "",
        )
        # whoever stopped it knows that tasks are left
        self._notices.ended(states, 0 if self.stopping else waiting, summary.why)
        self.console.close()
        try:
            self._adoption.close(self.queue, self.run.id)
            if not any(True for _ in roster.attempts(self.queue, self.run)):
                roster.end_run(self.run, summary._asdict())
        except OSError as error:
            self.queue.notices.append(f"the end of {self.run.id} could not be written down: {error.strerror}")
        self.queue.notices += traces.take_away(self.plugins, self.admission.lanes, self.config.root)
        untouched = max(0, waiting - states.get("inbox", 0))
        self.queue.tell(
            "run_ended", run=self.run.id, states=states, attempts=self.admission.started, untouched=untouched
        )
        return summary

    # ------------------------------------------------------------------------------------------------ one more start

    def _adopt(self) -> None:
        for run, attempts in self._adoption.take(self.queue, lapse=self.config.get("queue.lapse")):
            if attempts:
                self.console.say(f"taking over {len(attempts)} workers of {run.id}, whose driver is gone")
            for attempt in attempts:
                self.admission.adopt(attempt)
                self._follow(attempt)

    def _admit(self) -> None:
        returned = [task for task, state in self.tidings.states.items() if state == "inbox"]
        try:
            self._adopt()
            answer = self.admission.next(self._watchers.values(), returned)
        except FleetError as error:
            return self._fail(error)
        except OSError as error:
            return self._fail(from_os_error(error, "cannot start a worker"))
        if answer.shed:
            self._restraint.shed(self._watchers.values(), answer.shed)
        self._exhausted = answer.exhausted
        self._next_look = now = time.monotonic()
        if answer.ended:
            self.tidings.given_up(*answer.ended)
        if answer.attempt is not None:
            self._follow(answer.attempt)
        elif not answer.ended:
            self._next_look += _LOOK_AGAIN
            if self.admission.reasons.waits_for is not None and not self._watchers:
                self._notices.waits(*self.admission.reasons.waits_for)
        if self.admission.next_start > now:
            self._next_look = min(now + _LOOK_AGAIN, self.admission.next_start)
        return None

    # --------------------------------------------------------------------------------------------- what runs already

    def _follow(self, attempt: Attempt) -> None:
        reader, shown = None, False
        try:
            reader = self._reader(attempt)
            lane = self.plugins.offer(LANES, attempt.lane)
            shown = self.plugins.ask(lane, lambda found: bool(found.foreground))
        except FleetError as error:
            self.console.say(f"{attempt.label}: its output is not shown: {error.message}")
        self._watchers[attempt.id] = Watcher(attempt, reader, shown=shown)
        self._exhausted = False

    def _reader(self, attempt: Attempt) -> Reader | None:
        if attempt.is_launched:
            return None
        offer = self.plugins.offer(PROVIDERS, attempt.provider)
        if attempt.is_crew:
            self.admission.marshal.follow(attempt)
            crew = crew_of(self.queue, attempt)
            return self.plugins.ask(offer, lambda provider: cast(Musters, provider).crew_reader(crew))
        place = self.queue.find(attempt.task)
        body = self.queue.body(place.path, attempt.task) if place else None
        if body is None:
            return None
        task = task_from(body)
        self.admission.spending.open(attempt.id, task, f"{attempt.task}.g{attempt.generation}")
        job = job_of(self.queue, attempt, task)
        return self.plugins.ask(offer, lambda provider: provider.reader(job))

    def _watch(self) -> None:
        for watcher in list(self._watchers.values()):
            self._show(watcher)
            self.draining |= self._restraint.hold(watcher, self._watchers.values())
            if watcher.has_ended():
                self._show(watcher)
                del self._watchers[watcher.attempt.id]
                self._remember_cost(watcher)
                if not watcher.attempt.is_crew:
                    self.admission.pacing.judging(watcher.attempt.provider)
                self._settling[watcher.attempt.id] = self._pool.submit(close, self._bench, watcher.attempt)
        now = time.monotonic()
        if self._watchers and now >= self._next_measurement:
            took = min(self._watchers.values(), key=lambda watcher: watcher.measured).measure()
            self._next_measurement = now + max(_MEASURE, _SHARE * took)

    def _show(self, watcher: Watcher) -> None:
        """Say what a worker has said since, as far as a person should know."""
        piece = watcher.news() if watcher.reader is not None else b""
        if not piece:
            return
        attempt = watcher.attempt
        try:
            offer = self.plugins.offer(PROVIDERS, attempt.provider)
            purse = self.admission.spending.purse(attempt.id)
            told = self.plugins.ask(offer, lambda _: watcher.worth_telling(piece, purse))
        except FleetError as error:
            watcher.reader = None
            self.console.say(f"{attempt.label}: its output is not shown any more: {error.message}")
            return
        for event in told:
            self.console.say(f"{attempt.label}  {event.kind}: {line(event.text, 120)}")

    def _remember_cost(self, watcher: Watcher) -> None:
        found = roster.read_exit(watcher.attempt)
        if found is None or found[0].cause != "exited":
            return
        exit, told = found
        cost = watcher.cost(exit.seconds, float(told.get("cpu") or 0.0), float(told.get("max_rss") or 0.0))
        try:
            if cost is not None:
                self.admission.book.record(watcher.attempt.provider, watcher.attempt.lane, cost.memory, cost.cores)
        except OSError as error:
            self.queue.notices.append(f"the cost of a worker is not remembered: {error.strerror}")

    def _collect(self) -> None:
        for worker, future in list(self._settling.items()):
            if not future.done():
                continue
            del self._settling[worker]
            try:
                found = future.result()
            except FleetError as error:
                self._fail(error)
            except OSError as error:
                self._fail(from_os_error(error, f"cannot settle {worker}"))
            else:
                self._learn(found)

    def _tend(self) -> None:
        """Take in what crews have reported, and look after those that hold nothing or wait for a person."""
        self.tidings.reported(self.admission.marshal.news())
        if self.stopping:
            return
        crews = [watcher.attempt for watcher in self._watchers.values() if watcher.attempt.is_crew]
        for found in self.admission.marshal.tend(crews, draining=self.draining):
            crew = found.crew
            if found.stop and not roster.is_asked_to_stop(crew):
                self.console.say(f"{crew.id}  is asked to end: {found.stop}")
                roster.ask_to_stop(crew, found.stop)
            elif found.waits:
                self.tidings.waits(crew.id, found.waits)

    def _hear(self) -> None:
        """Let what follows from the ends of tasks be added, while the others go on."""
        ended, self.tidings.ended = self.tidings.ended, []
        if not ended or self.stopping or self.draining:
            return
        try:
            if self._follow_up(ended):
                self._exhausted, self._next_look = False, 0.0
        except FleetError as error:
            self._fail(error)
        except OSError as error:
            self._fail(from_os_error(error, "cannot add what follows"))

    def _learn(self, found: Settled | Disbanded) -> None:
        """Take in that an attempt is settled: what was waited for may be free now."""
        self._exhausted, self._next_look = False, 0.0
        if isinstance(found, Disbanded):
            self.tidings.reported(self.admission.marshal.news())
            self.tidings.disbanded(found, self.admission.marshal.disbanded(found))
            return
        self.admission.spending.close(found.attempt.id)
        self.admission.pacing.note(found.attempt.provider, found.outcome, ended_by_us=found.ended_by_us)
        self.tidings.settled(found)
