"""`fleet claim`: an agent takes the next task that may start now. The hot path: no plugin is loaded here."""

from __future__ import annotations

import os
import time
from typing import Any

from agent_fleet import fence
from agent_fleet.commands import Shared
from agent_fleet.commands.spec import Option, Spec
from agent_fleet.errors import FleetError
from agent_fleet.queue import finish, holds, lease, names, records, texts
from agent_fleet.queue.claim import Claim, Claimed, Only, Rules, Wanted, anything
from agent_fleet.queue.store import Queue

_FOREVER = 1e9


def claim(shared: Shared, agent: str, lane: str | None, provider: str | None, wait: float, owner: int | None) -> None:
    if not agent.strip() or len(agent) > 200 or not agent.isprintable():
        raise FleetError(
            "bad_input",
            "the agent's name must be one printable line of at most 200 characters",
            hint="fleet claim worker-1",
        )
    if not 0 <= wait < _FOREVER:
        raise FleetError("bad_input", f"--wait cannot be {wait}", hint="use seconds, such as --wait 60")
    from agent_fleet import identity

    queue = shared.queue
    who = identity.identity_of(owner) if owner else shared.identity
    mark = shared.environ.get("FLEET_WORKER", "")
    holder = lease.enlist(queue, who, agent=agent, lane=lane or shared.environ.get("FLEET_LANE", ""), mark=mark)
    wanted, only = _of_its_share(shared, _wanted(shared, lane, provider))
    rules = Rules(shared.config.hosts_max, holds.reasons(queue), only)
    deadline = time.monotonic() + wait
    while True:
        _refuse_the_dismissed(queue, holder)
        lease.reclaim(queue, lapse=shared.config.get("queue.lapse"))
        search = Claim(queue, holder, rules)
        claimed = search.take(wanted)
        if claimed or time.monotonic() >= deadline:
            break
        time.sleep(min(0.25, max(0.0, deadline - time.monotonic())))
    if claimed is None:
        raise FleetError("nothing_to_claim", "no task can be claimed now", hint=_hint(search), details=_details(search))
    answers = records.answers(queue, claimed.task)
    text = _text(queue, claimed, answers)
    file = "" if texts.fits(text) else _file(queue, claimed, text)
    shared.emit(_payload(claimed, answers, file), lambda: _told(claimed, text, file))


def _wanted(shared: Shared, lane: str | None, provider: str | None) -> Wanted:
    """Which tracks a worker of this lane and provider may serve."""
    if not lane and not provider:
        return anything
    served = (
        {need for need in names.NEEDS if lane == need or lane in _lanes(shared.config.get(f"lanes.{need}"))}
        if lane
        else set(names.NEEDS)
    )

    def wanted(_priority: int, need: str, lane_wish: str, provider_wish: str) -> bool:
        fits_lane = lane_wish == lane if lane and lane_wish else need in served
        return fits_lane and (not provider or not provider_wish or provider_wish == provider)

    return wanted


def _lanes(name: str) -> tuple[str, ...]:
    """The lanes that a need may be mapped to; which one auto means here is not worth finding out for a claim."""
    return ("terminal", "headless") if name == "auto" else (name,)


def _of_its_share(shared: Shared, wanted: Wanted) -> tuple[Wanted, Only | None]:
    """Only what the run that started this agent has it work on: another kind of agent, or lane, has the rest."""
    told = shared.environ.get("FLEET_SHARE")
    if told is None:
        return wanted, None
    from agent_fleet.queue import share

    mine = share.parse(told)
    return (lambda *track: mine.wanted(*track) and wanted(*track)), Only(
        mine.run, mine.pools
    ) if mine.is_narrow else None


def _refuse_the_dismissed(queue: Queue, holder: lease.Owner) -> None:
    """A session that is to end gets no more tasks, whoever in it asks."""
    run, worker = holder.worker
    if worker and os.path.exists(queue.path("runs", run, "workers", worker.rpartition("-")[2], names.ENOUGH)):
        raise FleetError(
            "nothing_to_claim", "this run gives out no more tasks", hint="report what you hold, then end your session"
        )


def _payload(claimed: Claimed, answers: list[str], file: str) -> dict[str, Any]:
    more = {"text_file": file} if file else {}
    return {
        "id": claimed.task,
        "generation": claimed.generation,
        "task": claimed.body,
        "answers": answers,
        "env": {"FLEET_TASK": claimed.task, "FLEET_GENERATION": str(claimed.generation)},
        **more,
    }


def _text(queue: Queue, claimed: Claimed, answers: list[str]) -> str:
    """All that the agent is told of the task, as a dispatched worker would be."""
    body = claimed.body
    return fence.sections(
        title=body.get("title", ""),
        target=body["target"],
        notes=body.get("notes", ""),
        answers=answers,
        attempts=records.earlier(queue, claimed.task) if claimed.generation > 1 else (),
        touches=body.get("touches", ()),
        check=body.get("check", ""),
    )


def _file(queue: Queue, claimed: Claimed, text: str) -> str:
    """The file that holds the text. A task whose text cannot be handed over goes back untouched."""
    try:
        return texts.write(queue, claimed.task, claimed.generation, text)
    except OSError:
        mine = finish.Proof(generation=claimed.generation)
        finish.hand_back(queue, claimed.task, mine, "its text could not be written for the agent")
        raise


def _told(claimed: Claimed, text: str, file: str) -> str:
    mine = f"{claimed.task} --generation {claimed.generation}"
    if file:
        size = len(text.encode("utf-8", "surrogatepass"))
        shown = f"its text is not shown here; read this file ({size:,} bytes) to its end:\n{file}"
    else:
        shown = fence.fenced(text, fence.draw(text))
    parts = [
        f"{claimed.task} is yours (lease {claimed.generation})",
        fence.TRUST["person" if claimed.body.get("trust", "person") == "person" else "outside"],
        shown,
        f"report with: fleet done {mine} --result '…', or fleet block or fleet fail {mine} --reason '…'",
    ]
    return "\n".join(parts)


def _details(search: Claim) -> tuple[str, ...]:
    shown = [f"{_name(gate)}: {why}" for gate, why in search.refusals.items()]
    return tuple(shown[:10] + ([f"and {len(shown) - 10} more"] if len(shown) > 10 else []))


def _name(gate: str) -> str:
    return gate if names.is_id(gate) else names.host_of_gate(gate) or names.awaited(gate) or "touched paths"


def _hint(search: Claim) -> str:
    if search.refusals:
        return "`fleet why ID` tells what a task waits for"
    return (
        "`fleet list` shows what there is; `fleet add` adds a task" if os.path.isdir(search.queue.path("inbox")) else ""
    )


command_line = Spec(
    "claim",
    "Claim the next task that may start now, for an agent called AGENT.",
    "agent",
    "AGENT",
    (
        Option("--lane", "Only tasks that this lane (or this need) runs."),
        Option("--provider", "What kind of agent this is: tasks that wish for another are left alone."),
        Option("--wait", "Wait up to S seconds for a task.", "float", default=0.0, metavar="S"),
        Option(
            "--owner",
            "The process that holds the task; found from the process tree if not given.",
            "int",
            metavar="PID",
        ),
    ),
    claim,
)
