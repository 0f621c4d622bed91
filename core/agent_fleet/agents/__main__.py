"""The process of agents: `python -m agent_fleet.agents host` works the queue, `… one FILE` the one prompt on its input.

It is started by a provider that `Speaks`; what it is told comes by the environment (`FLEET_PROVIDER`, `FLEET_SHARE`,
`FLEET_WORKER`) and by the project's configuration, and what it has to say goes to standard output as `report` has it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent_fleet import budget, config, identity, paths, prices
from agent_fleet.agents import report
from agent_fleet.agents.allowance import Allowance
from agent_fleet.agents.desk import Desk
from agent_fleet.agents.dialect import Dialect, Speaks
from agent_fleet.agents.host import Host, Terms
from agent_fleet.agents.loop import Agent, Means, NoTools
from agent_fleet.agents.shortage import Shortage
from agent_fleet.agents.till import Till
from agent_fleet.agents.tools import Servers
from agent_fleet.agents.wire import Wire
from agent_fleet.deploy import orders
from agent_fleet.deploy.assignment import Assignments
from agent_fleet.errors import FleetError
from agent_fleet.model import Budget, Outcome
from agent_fleet.plugins import PROVIDERS, Plugins
from agent_fleet.queue import lease, names
from agent_fleet.queue.share import parse
from agent_fleet.queue.store import Queue
from agent_fleet.run.stakes import Stakes
from agent_fleet.throttle.attempts import PER_CALL, Attempts, cap
from agent_fleet.throttle.endpoint import endpoint
from agent_fleet.throttle.terms import terms as throttle_terms
from agent_fleet.throttle.throttles import Throttles

_COMMIT = 256  # tasks of one commit at most
_NEW_OBJECTS = 20_000  # between two looks for garbage in cycles, of which agents make hardly any
_OWN_FILES = 40  # that a host opens beside the connections of its seats: libraries, locks, records


class Setting:
    """What this process was given: the project, its settings, and how to speak to the model."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        root = paths.find_root(environ, os.getcwd(), None)
        self.queue = Queue(os.path.join(root, paths.queue_name(environ)))
        self.config = config.load(root, queue_dir=self.queue.dir, environ=environ)
        self.provider = environ.get("FLEET_PROVIDER", "")
        self.table = prices.with_own(prices.packaged(), self.config.prices)
        self.mark = environ.get("FLEET_WORKER", "")
        self.run, self.worker = names.parse_mark(self.mark) or ("", "")
        self.deployment = environ.get("FLEET_DEPLOYMENT", "")

    def dialect(self) -> Dialect:
        plugins = Plugins(self.config)
        offer = plugins.offer(PROVIDERS, self.provider)
        if not isinstance(offer.thing, Speaks):
            raise FleetError(
                "unusable", f"the provider {self.provider} is not spoken to over an API", hint="use the lane headless"
            )
        speaks: Speaks = offer.thing
        return plugins.ask(offer, lambda _: speaks.dialect(self.environ))

    def till(self) -> Till:
        """Raises FleetError (`bad_config`) for prices that are none."""
        get = self.config.get
        limits = budget.Limits(
            run_money=get("budget.run_money") or None,
            day_money=get("budget.day_money") or None,
            unknown_price=get("budget.unknown_price"),
        )
        run = self.run or self.deployment  # a question in planning is of no run
        stakes = Stakes(self.queue, self.table, limits, run)
        owner: dict[str, str | int] = {"owner": identity.identity_of(), "run": run}
        task = self.environ.get("FLEET_TASK", "")
        if task:
            owner |= {"task": task, "generation": int(self.environ.get("FLEET_GENERATION") or 0)}
        elif self.worker:
            owner["worker"] = self.worker
        return Till(stakes, self.table, owner, shortage=Shortage(_note))

    def throttles(self, dialect: Dialect) -> Throttles:
        """The limits that all processes of this user share, for the account and the address that this one works with.

        The cap on calls is kept beside the run, so that whoever goes on with it goes on counting.
        """
        chosen = self.config.get("throttle.attempts")
        place = self.queue.path("runs", self.run)
        most = cap(self._planned(), chosen)
        counted = Attempts(place, most, each=0 if chosen else PER_CALL) if self.run else None
        account = self.environ.get("AGENT_FLEET_PROFILE") or self.provider
        where = endpoint(dialect.address)
        return Throttles(
            paths.state_dir(self.environ), account, where, throttle_terms(self.config), counted, tell=_note
        )

    def wire(self, dialect: Dialect) -> Wire:
        return Wire(dialect, silence=self.config.get("api.silence"), shortage=Shortage(_note))

    def _planned(self) -> int:
        """How many tasks the run is for, as far as that is known now."""
        share = parse(self.environ.get("FLEET_SHARE", ""))
        if share.run:
            return len(self.queue.listing(orders.FOLDER, share.run, "orders"))
        return sum(1 for _ in self.queue.waiting()) + len(self.queue.active())

    def means(self, wire: Wire, till: Till, throttles: Throttles, deployment: str = "") -> Means:
        get = self.config.get
        return Means(
            wire, throttles, till.of(deployment), get("api.max_output"), get("api.retries"), get("api.backoff")
        )


def main(arguments: list[str]) -> int:
    """Work, and say how it ended; the exit status is 0 unless something is wrong with the settings."""
    _many_files()
    try:
        setting = Setting(dict(os.environ))
        work_it = _one(setting, arguments[1]) if arguments[:1] == ["one"] else _host(setting)
        outcome = asyncio.run(work_it)
    except FleetError as error:
        kind: Any = "auth" if error.code == "unavailable" else "failed"
        outcome = Outcome(kind=kind, reason=f"{error.message} ({error.hint})" if error.hint else error.message)
        _say(report.ended(outcome))
        return 1
    _say(report.ended(outcome))
    return 0


async def _host(setting: Setting) -> Outcome:
    gc.set_threshold(_NEW_OBJECTS)
    agent = setting.environ.get("FLEET_AGENT") or setting.worker or "api"
    lane = setting.environ.get("FLEET_LANE", "api")
    owner = lease.enlist(setting.queue, identity.identity_of(), agent=agent, lane=lane, mark=setting.mark)
    share = parse(setting.environ.get("FLEET_SHARE", ""))
    desk = Desk(setting.queue, setting.config, owner, share, setting.table, setting.provider)
    dialect = setting.dialect()
    wanted, files = int(setting.environ.get("FLEET_SEATS") or setting.config.get("api.seats")), _files()
    seats = seats_of(wanted, files)
    terms = Terms(seats, dialect.model, setting.config.get("api.tokens"), commit_of(seats, files))
    _say(report.line("started", text=f"{seats} seats"))
    if seats < wanted:
        _note(f"{seats} of {wanted} seats are used, as no more than {files} files may be open (`ulimit -n`)")
    servers = Servers(setting.environ)
    throttles, till = setting.throttles(dialect), setting.till()
    async with setting.wire(dialect) as wire:
        host = Host(desk, setting.means(wire, till, throttles), servers, Assignments(setting.queue), terms, _say)
        _on_term(lambda: host.stop("the run stopped it"))
        try:
            return await host.run()
        finally:
            throttles.close()
            await till.close()
            await servers.close()


async def _one(setting: Setting, path: str) -> Outcome:
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    dialect = setting.dialect()
    own = Budget(tokens=told.get("tokens"), turns=told.get("turns"))
    throttles, till = setting.throttles(dialect), setting.till()
    _say(report.line("started", text=""))
    async with setting.wire(dialect) as wire:
        agent = Agent(
            setting.means(wire, till, throttles, setting.deployment),
            Allowance(own.tokens or setting.config.get("api.tokens") or None, own.turns),
            model=told.get("model") or dialect.model,
            system="",
            kit=NoTools(),
            told=lambda usage: _say(report.used("", usage)),
        )
        working = asyncio.ensure_future(agent.work(prompt))
        _on_term(working.cancel)
        try:
            end = await working
        except asyncio.CancelledError:
            return Outcome(kind="unknown", reason="it was stopped", usage=agent.usage)
        finally:
            throttles.close()
            await till.close()
            _say(report.used("", agent.usage))
    kind: Any = {"suspended": "budget", "broke": "budget", "unable": "failed"}.get(end.kind, end.kind)
    return Outcome(kind=kind, reason=end.reason, result=end.text, session=end.session)


def _on_term(act: Any) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, act)


def _many_files() -> None:
    """A connection is a file: take as many as this user may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _files() -> int:
    """How many files this process may have open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if most == resource.RLIM_INFINITY else most


def seats_of(wanted: int, files: int) -> int:
    """How many seats a process may have that may have so many files open: each has a connection."""
    return max(1, min(wanted, files - _OWN_FILES))


def commit_of(seats: int, files: int) -> int:
    """How many tasks are put on record at once by a process that may have so many files open, of which each seat needs one."""
    return max(1, min(_COMMIT, (files - seats) // 4))


def _note(text: str) -> None:
    _say(report.line("retry", text=text))


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
