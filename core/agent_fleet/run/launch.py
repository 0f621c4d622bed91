"""Windows that run a command of the person's, for agents that claim by themselves: opened, followed, settled and ended here."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from agent_fleet.config import Config
from agent_fleet.model import Launch, Worker
from agent_fleet.plugins import LANES, Offer, Plugins
from agent_fleet.protocols import Lane
from agent_fleet.queue import names
from agent_fleet.queue.files import BadFileError, read_bytes, write_whole
from agent_fleet.queue.store import Queue
from agent_fleet.run import crews, disband, outlook, roster, tenure, traces, workplace
from agent_fleet.run.console import Console
from agent_fleet.run.deeds import Deeds
from agent_fleet.run.equipment import Unstarted, begin, environment, new_worker, under_keeper
from agent_fleet.run.notice import Notices
from agent_fleet.run.roster import Attempt, Run
from agent_fleet.run.settle import Bench
from agent_fleet.run.signals import Signals
from agent_fleet.run.tidings import Tidings

OPENED: Final = "opened"  # in the directory of such a run: how many windows came to be, once all were tried
_TICK = 0.2


class Opened(NamedTuple):
    """How many windows a launch has opened, and why the next one could not be."""

    number: int
    why: str = ""


class Launcher:
    """One launch: a run that dispatches nothing. It lasts until all of its windows are closed."""

    def __init__(
        self,
        queue: Queue,
        config: Config,
        plugins: Plugins,
        console: Console,
        environ: Mapping[str, str],
        *,
        lane: str,
        argv: Sequence[str],
    ) -> None:
        self.queue = queue
        self.config = config
        self.plugins = plugins
        self.console = console
        self.environ = environ
        self.lane: Offer[Lane] = plugins.offer(LANES, lane)
        self.argv = tuple(argv)
        self.run: Run = roster.new_run(queue, {"lane": lane, "command": self.argv})
        self.tally: dict[str, int] = {}
        about = {"project": os.path.dirname(queue.dir), "run": self.run.id}
        self._notices = Notices(config.get("notify.command"), environ, about, console.say, platform=sys.platform)
        self._tidings = Tidings(queue, self._notices, console.say)
        self._deeds = Deeds(queue)
        self._bench = Bench(queue, config, plugins, environ)
        self._open: list[Attempt] = []
        self._draining = False
        self._stopping = False

    def work(self, number: int) -> Opened:
        """Open so many windows and stay until they are closed; the first signal gives their agents no more tasks, the second
        (or TERM) ends them. Raises OSError or FleetError, with the windows ended or on record for `fleet stop`.
        """
        self.queue.tell("run_started", run=self.run.id, identity=self.run.identity)
        with Signals() as signals:
            try:
                opened = self._open_all(number, signals)
                write_whole(os.path.join(self.run.dir, OPENED), f"{opened.number}\n{opened.why}".encode())
                while self._open:
                    self._step(signals)
                    time.sleep(_TICK)
            finally:
                self._end()
        return opened

    def _open_all(self, number: int, signals: Signals) -> Opened:
        for count in range(number):
            self._obey(signals)
            if self._draining or self._stopping:
                return Opened(count, "it was told to stop")
            found = self._window()
            if isinstance(found, Unstarted):
                self.console.say(f"window {count + 1} could not be opened: {found.error.message}")
                return Opened(count, found.error.message)
            self._open.append(found)
            self.console.say(f"{found.id}  window opened in {found.lane}")
        return Opened(number)

    def _window(self) -> Attempt | Unstarted:
        """Start the command under a keeper in a window of its own, with all that marks a worker and no share: it may claim all."""
        worker, mark, directory = new_worker(self.run)
        lane = self.lane.name
        env = environment(self.queue, self.run, mark, worker, self.environ) | {"FLEET_LANE": lane}
        env |= workplace.own_variables(
            self.queue, self.config, self.run.identity, self.environ, mark=mark, directory=directory
        )
        terminal = outlook.has_terminal(self.plugins, lane)
        attempt = Attempt(
            id=worker,
            dir=directory,
            mark=mark,
            task="",
            generation=0,
            lane=lane,
            provider="",
            log=self.queue.path("logs", f"{worker}.log"),
            nonce="",
            started=time.time(),
            worker=Worker(id=worker, lane=lane, pid=0, identity="", handle=mark),
            seats=1,
            interactive=terminal,
        )
        with open(os.path.join(directory, tenure.CALL), "x", encoding="utf-8"):
            pass
        cwd = os.path.dirname(self.queue.dir)
        launch = Launch(worker=worker, argv=self.argv, cwd=cwd, env=env, log=attempt.log, speaks=False)
        kept = under_keeper(self.config, attempt, launch, {}, total=0.0, terminal=terminal)
        begun = begin(self.queue, self.config, self.plugins, attempt, kept, self.lane)
        if isinstance(begun, Unstarted):
            workplace.leave(self.environ, mark)
            return begun
        self.queue.tell(
            "mustered",
            run=self.run.id,
            worker=worker,
            lane=lane,
            provider="",
            seats=1,
            interactive=terminal,
            pid=begun.worker.pid,
        )
        return begun

    def _step(self, signals: Signals) -> None:
        self._obey(signals)
        self._tidings.reported(deed for deed in self._deeds.new() if deed.worker in self._mine())
        self._notices.step()
        for attempt in [each for each in self._open if roster.has_ended(each)]:
            self._open.remove(attempt)
            found = disband.disband(self._bench, attempt)
            self._tidings.reported(deed for deed in self._deeds.new() if deed.worker in {*self._mine(), attempt.id})
            self._tidings.disbanded(found, self._deeds.moved.get(attempt.id, 0))

    def _mine(self) -> set[str]:
        return {attempt.id for attempt in self._open}

    def _obey(self, signals: Signals) -> None:
        order = roster.read_order(self.run)
        if (order == "stop" or signals.terms or signals.interrupts > 1) and not self._stopping:
            self._stopping = True
            self.console.say("stopping: the windows are closed, the tasks of their agents return to the queue")
        elif (order == "drain" or signals.interrupts) and not self._draining:
            self._draining = True
            self.console.say("their agents get no more tasks; the windows stay until you close them")
            for attempt in self._open:
                crews.dismiss(attempt)
        if self._stopping:
            for attempt in self._open:
                roster.ask_to_stop(attempt, "the run was stopped")

    def _end(self) -> None:
        """Put the end on record, unless windows are left that `fleet stop` has to find."""
        states = self._tidings.states
        counted = {state: found for state in names.STATES if (found := list(states.values()).count(state))}
        self.tally = counted
        self._notices.ended({}, 0, "")
        self.console.close()
        if self._open:
            return
        roster.end_run(self.run, {"states": counted})
        self.queue.notices += traces.take_away(self.plugins, [self.lane.name], self.config.root)
        self.queue.tell("run_ended", run=self.run.id, states=counted, attempts=0)


def opened(run: Run) -> Opened | None:
    """What came of the windows of a launch; None while it still opens some."""
    try:
        number, _, why = read_bytes(os.path.join(run.dir, OPENED)).decode("utf-8", "replace").partition("\n")
        return Opened(int(number), why)
    except (OSError, ValueError, BadFileError):
        return None
