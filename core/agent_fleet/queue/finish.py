"""What the holder of a lease may do: show life, finish, park, give up, hand back. Everything is fenced by the lease generation."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from agent_fleet.errors import FleetError
from agent_fleet.queue import lease, records
from agent_fleet.queue.conclusion import Ending, conclude
from agent_fleet.queue.store import Place, Queue


class Proof(NamedTuple):
    """How a caller shows that a task is its own: the generation it holds, its agent name, or the process that it is.

    A generation decides if there is one; else the name; else the identity. With `both` a name that was given beside a
    generation must be right too: subagents of one session all know low numbers. `force` is a person's override, on record.
    """

    generation: int | None = None
    agent: str = ""
    identity: str = ""
    force: bool = False
    both: bool = False


def proof_from(
    environ: dict[str, str], task: str, *, generation: int | None, agent: str, identity: str, force: bool
) -> Proof:
    """The proof that a command line and its environment (`FLEET_TASK`, `FLEET_GENERATION`, `FLEET_AGENT`) give."""
    if generation is None and environ.get("FLEET_TASK") == task:
        text = environ.get("FLEET_GENERATION", "")
        if text.isascii() and text.isdigit():
            generation = int(text)
    both = bool(agent) and generation is not None
    return Proof(generation, agent or environ.get("FLEET_AGENT", ""), identity, force, both)


def holding(queue: Queue, task: str, proof: Proof) -> Place:
    """The caller's own active task. Raises FleetError: `lease_lost`, `not_active`, `not_holder`, `not_found`."""
    place = queue.find_active(task) or queue.require(task)
    if place.state != "active":
        if proof.generation is not None or (proof.agent and _held_before(queue, task, place, proof.agent)):
            raise lease.lost(task, f"it is in {place.state} now")
        raise FleetError(
            "not_active",
            f"{task} is in {place.state}: nobody holds it",
            hint=f"claim it first (`fleet claim AGENT`), or look at it with `fleet show {task}`",
        )
    if proof.force:
        return place
    if proof.generation is not None:
        if proof.generation != place.generation:
            raise lease.lost(task, f"lease {proof.generation} is over; lease {place.generation} holds it")
        if not proof.both:
            return place
    holder = lease.owner(queue, place.owner)
    if proof.agent:
        if holder is None or holder.agent != proof.agent:
            name = holder.agent if holder else "an owner whose record cannot be read"
            raise lease.lost(task, f"it is held by {name}, not by {proof.agent}")
        return place
    if holder is not None and holder.identity == proof.identity:
        return place
    raise FleetError(
        "not_holder",
        f"{task} is held by {holder.agent if holder else 'somebody else'}",
        hint="name your lease with --generation N or --agent NAME; a person may use --force, which is recorded",
    )


def heartbeat(queue: Queue, task: str, proof: Proof) -> Place:
    """Show that the holder lives. Raises FleetError if the lease is lost."""
    place = holding(queue, task, proof)
    try:
        os.utime(place.path)
    except FileNotFoundError:
        raise lease.lost(task, "it moved while this command ran") from None
    return place


def finish(queue: Queue, task: str, proof: Proof, state: str, record: dict[str, Any]) -> Place:
    """Put an outcome on record and move the task to `state` (`done`, `blocked`, `failed`, or `inbox` for another attempt).

    The record is durable before the task moves; a lost lease leaves it beside the truth as `*.late.json`.
    """
    place = holding(queue, task, proof)
    more = {"forced": True} if proof.force else {}
    ending = Ending(task, place, state, record | more, lease.owner(queue, place.owner))
    (fate,) = conclude(queue, [ending])
    if not isinstance(fate, Place):
        raise fate
    return fate


def park(queue: Queue, task: str, proof: Proof, reason: str) -> str:
    """Park a task for a person, uncharged; returns the reason in the words that blocked tasks are grouped by.

    What the holder said is kept beside it if that was more.
    """
    from agent_fleet import walls

    wall = walls.parse(reason)
    if wall.kind == walls.OTHER:
        place = holding(queue, task, proof)
        body = queue.body(place.path, task) or {}
        wall = walls.parse(reason, str(body.get("host") or ""))
    record = {"outcome": "blocked", "reason": str(wall), "charged": False, "by": "agent"}
    if str(wall).casefold() != reason.strip().casefold():
        record["said"] = reason.strip()
    finish(queue, task, proof, "blocked", record)
    return str(wall)


def hand_back(queue: Queue, task: str, proof: Proof, why: str) -> str:
    """Return a task to the inbox untouched: no attempt is charged and no outcome recorded. Returns the state it is in.

    That is another one only where its holder died between reporting an outcome and moving the task.
    """
    place = holding(queue, task, proof)
    state = lease.give_back(
        queue, task, place.generation, place.gate, place.path, event="returned", why=why, owner=place.owner
    )
    if not state:
        raise lease.lost(task, "it moved while this command ran")
    return state


def reopen(queue: Queue, task: str, *, event: str, why: str, states: tuple[str, ...]) -> Place:
    """Move a settled task back to the inbox. Raises FleetError (`wrong_state`) if it is in none of `states`."""
    place = queue.require(task)
    if place.state not in states:
        raise FleetError(
            "wrong_state",
            f"{task} is in {place.state}, not in {' or '.join(states)}",
            hint=f"`fleet show {task}` tells more",
        )
    body = queue.body(place.path, task)
    if body is None:
        raise FleetError(
            "not_found", f"the file of {task} is gone or unreadable", hint="`fleet status` names what was set aside"
        )
    target = queue.inbox_path(body, place.generation, body.get("gate", "_"))
    if not queue.move(place.path, target):
        raise FleetError("busy", f"{task} moved while this command ran", hint="run the same command again")
    queue.tell(event, task=task, gen=place.generation, to="inbox", why=why)
    return Place("inbox", target, place.generation)


def _held_before(queue: Queue, task: str, place: Place, agent: str) -> bool:
    """Whether this agent could have held the task: it was given out at least once, and the agent does not hold it now."""
    return (
        bool(agent)
        and place.generation > 0
        and not any(
            record.get("generation") == place.generation and record.get("agent") == agent
            for record in records.outcomes(queue, task)
        )
    )
