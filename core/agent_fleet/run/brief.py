"""What a crew is told: who it is, and how it works the queue by itself. All of it is our own text; no task's text is in it."""

from __future__ import annotations

from typing import Final, NamedTuple

from agent_fleet.skill import protocol

NAMED: Final = "Beside the number of your lease, add `--agent {name}` to every report and heartbeat."
WATCHED: Final = "Nobody is watching: nobody can answer a question or confirm anything while you work."
ASKED: Final = "A person sits at this terminal. Ask there what you need to know, and wait for the answer."


class Brief(NamedTuple):
    """What a session is told, and what each of its subagents is."""

    session: str
    member: str = ""


def brief(name: str, seats: int, *, kind: str, asked: bool = False) -> Brief:
    """What a crew called `name` with so many seats is told; its subagents are of the type `kind`."""
    return Brief(solo(name, asked=asked)) if seats == 1 else Brief(host(name, seats, kind), member())


def solo(name: str, *, asked: bool = False) -> str:
    """For a session that works one task at a time."""
    head = (
        f"You are a worker of Agent Fleet, called {name}. Begin now: run `fleet claim {name}`, and go on by the protocol below"
        f" until nothing can be claimed. {NAMED.format(name=name)}"
    )
    return f"{head}\n{ASKED if asked else WATCHED}\n\n{protocol()}"


def member() -> str:
    """For one subagent of a session, which learns its own name from whoever starts it."""
    head = (
        "You are a worker of Agent Fleet. Your NAME is the one that you were started with. Begin now: run `fleet claim NAME`,"
        f" and go on by the protocol below until nothing can be claimed. {NAMED.format(name='NAME')} Other workers in this"
        " session do the same under other names: their tasks are not yours."
    )
    return f"{head}\n{WATCHED}\n\n{protocol()}"


def host(name: str, seats: int, kind: str) -> str:
    """For a session that does nothing but start `seats` subagents of a kind and wait for them."""
    names = ", ".join(f"{name}-{number}" for number in range(1, seats + 1))
    return (
        f"You are the host of {seats} workers of Agent Fleet. {WATCHED}\n\n"
        f"Start exactly {seats} subagents of the type {kind}, all at once in one message. Their names are {names}: each"
        f' gets one of these, and the prompt of each is only: "Your name is <its name>. Begin."\n'
        "Do no task yourself and claim none. Wait until all of them have ended; start none again. Then say in one line for"
        " each what it reported, and end.\n"
    )
