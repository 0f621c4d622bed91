"""Starting a crew: a session that claims for itself becomes a process under a keeper, in its lane."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple, cast

from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.model import Crew, Worker
from agent_fleet.plugins import Plugins
from agent_fleet.protocols import Musters
from agent_fleet.queue.share import Share
from agent_fleet.queue.store import Queue
from agent_fleet.run import roster, tenure, workplace
from agent_fleet.run.brief import brief
from agent_fleet.run.clerk import Lodging
from agent_fleet.run.equipment import (
    Unstarted,
    armed,
    begin,
    ceilings,
    environment,
    lodged,
    new_worker,
    under_keeper,
)
from agent_fleet.run.roster import Attempt, Run
from agent_fleet.run.start import Route

TURNS: Final = "turns.jsonl"  # in a crew's directory: its session's hook adds one line when a turn of it ends


class Call(NamedTuple):
    """What kind of crew is wanted: through which lane and provider, how many seats, and what it may claim.

    `asked` says that a person sits with it and may take as long as they like; `lodging` is the account of the session.
    """

    route: Route
    seats: int
    interactive: bool
    share: Share
    asked: bool = False
    lodging: Lodging | None = None


def muster(
    queue: Queue, config: Config, plugins: Plugins, run: Run, call: Call, environ: Mapping[str, str]
) -> Attempt | Unstarted:
    """Start a crew. If it could not be started nothing of it runs. Raises OSError if its directory cannot be written."""
    worker, mark, directory = new_worker(run)
    route = call.route
    env = _environment(queue, config, run, call, environ, worker=worker, mark=mark, directory=directory)
    attempt = _attempt(queue, call, worker, mark, directory)
    crew = crew_of(queue, attempt)
    told = brief(worker, call.seats, kind=crew.kind, asked=call.asked)
    try:
        worn = call.lodging.outfit(crew.cwd, env) if call.lodging else None
        crew = replace(crew, env=worn.environ if worn else env, brief=told.session, member=told.member)
        launch = armed(plugins.ask(route.provider, lambda provider: cast(Musters, provider).crew(crew)), worn)
    except FleetError as error:
        workplace.leave(environ, mark)
        roster.mark_settled(attempt)
        return Unstarted("provider", error)
    if call.asked:
        launch = replace(launch, speaks=False)  # whoever waits for a person may be silent for as long as that takes
    with open(os.path.join(directory, tenure.CALL), "x", encoding="utf-8"):
        pass
    kept = under_keeper(
        config,
        attempt,
        launch,
        {},
        total=0.0 if call.asked else float(config.get("run.timeout")),
        terminal=call.interactive,
    )
    begun = begin(queue, config, plugins, attempt, kept, route.lane)
    if isinstance(begun, Unstarted):
        workplace.leave(environ, mark)
        return begun
    queue.tell(
        "mustered",
        run=run.id,
        worker=worker,
        lane=begun.lane,
        provider=begun.provider,
        seats=begun.seats,
        interactive=begun.interactive,
        pid=begun.worker.pid,
        **({"account": begun.account} if begun.account else {}),
    )
    return begun


def _environment(
    queue: Queue,
    config: Config,
    run: Run,
    call: Call,
    environ: Mapping[str, str],
    *,
    worker: str,
    mark: str,
    directory: str,
) -> dict[str, str]:
    """What every worker has, and what its members claim by."""
    lane, provider = call.route.lane.name, call.route.provider.name
    env = environment(queue, run, mark, worker, environ)
    env |= {"FLEET_LANE": lane, "FLEET_PROVIDER": provider, "FLEET_SHARE": str(call.share)}
    env |= ceilings(config)
    env |= workplace.own_variables(queue, config, run.identity, environ, mark=mark, directory=directory)
    if call.interactive:
        env["FLEET_TURNS"] = os.path.join(directory, TURNS)
    return env


def _attempt(queue: Queue, call: Call, worker: str, mark: str, directory: str) -> Attempt:
    return Attempt(
        id=worker,
        dir=directory,
        mark=mark,
        task="",
        generation=0,
        lane=call.route.lane.name,
        provider=call.route.provider.name,
        log=queue.path("logs", f"{worker}.log"),
        nonce="",
        started=time.time(),
        worker=Worker(id=worker, lane=call.route.lane.name, pid=0, identity="", handle=mark),
        seats=call.seats,
        interactive=call.interactive,
        share=str(call.share),
        **lodged(call.lodging),
    )


def crew_of(queue: Queue, attempt: Attempt) -> Crew:
    """An attempt as a provider sees it, without what is needed only for its start."""
    return Crew(
        worker=attempt.id,
        lane=attempt.lane,
        seats=attempt.seats,
        interactive=attempt.interactive,
        brief="",
        model="",
        cwd=os.path.dirname(queue.dir),
        env={},
        scratch=attempt.dir,
        account=attempt.account,
    )
