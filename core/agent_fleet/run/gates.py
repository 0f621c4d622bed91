"""Gates: a limit that one worker meets closes the starts of its kind for all, until there is reason to try again.

A gate is closed until a time; then exactly one worker probes; a success opens it, another limit closes it for longer. The rules
are pure; `Gates` keeps them in one small file that every driver of the project shares.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from agent_fleet import identity
from agent_fleet.config import Config
from agent_fleet.model import Outcome
from agent_fleet.queue.lock import DirLock
from agent_fleet.queue.store import BadFileError, Queue, read_json, write_whole

# first and longest wait where nobody says when to come back, in units of `run.backoff` (30 s)
BACKOFF: Final = {"limit": (1.0, 30.0), "overload": (1 / 6, 10.0)}
STRIKES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One closed gate. `until` is when to probe, None once only a person can help; `strikes` counts closings in a row."""

    name: str
    kind: str
    why: str
    since: float
    until: float | None
    strikes: int = 1
    reset_known: bool = False
    prober: str = ""

    def is_shut(self, now: float) -> bool:
        return self.until is None or now < self.until

    @property
    def ends(self) -> str:
        """When it is tried again, for people."""
        if self.until is None:
            return "until a new run tries again"
        return f"until {time.strftime('%H:%M:%S', time.localtime(self.until))}"


def closed_by(
    before: Gate | None, name: str, outcome: Outcome, now: float, *, longest: float, unit: float, jitter: float
) -> Gate:
    """The gate after one more limit, overload or login wall. `jitter` is a random number from 0 to 1.

    A reset that the other side named is kept to, but never for longer than `longest` seconds: hints are often wrong, and a
    probe costs one call. Without one the wait doubles from strike to strike, with full jitter over its second half.
    """
    closed = before if before is not None and before.until is not None and now < before.until else None
    # another worker that was already on its way meets the same wall: that is no news, unless it knows the reset
    if closed and closed.kind == outcome.kind and (outcome.resets_at is None or closed.reset_known):
        return closed
    strikes = (before.strikes if before else 0) + (0 if closed else 1)
    if outcome.kind not in BACKOFF or strikes > STRIKES:
        until = None
    elif outcome.resets_at is not None:
        until = min(max(outcome.resets_at, now + 1.0), now + longest)
    else:
        first, last = BACKOFF[outcome.kind]
        wait = unit * min(last, first * 2.0 ** (strikes - 1))
        until = now + wait * (0.5 + 0.5 * jitter)
    reason = outcome.reason or outcome.kind
    return Gate(
        name=name,
        kind=outcome.kind,
        why=f"{outcome.kind}{' ' + outcome.limit if outcome.limit else ''}: {reason}",
        since=before.since if before is not None else now,
        until=until,
        strikes=strikes,
        reset_known=outcome.resets_at is not None,
    )


class Gates:
    """The gates of one project. Each has the name of what it holds back: a provider."""

    def __init__(
        self,
        queue: Queue,
        longest: float,
        unit: float,
        *,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._queue = queue
        self._path = queue.path("gates.json")
        self._longest = longest
        self._unit = unit
        self._clock = clock
        self._chance = chance

    def read(self) -> dict[str, Gate]:
        """Every gate that is not open."""
        try:
            found = read_json(self._path)
        except FileNotFoundError:
            return {}
        except BadFileError as error:
            self._queue.quarantine(self._path, str(error))
            return {}
        gates = {}
        for name, fields in found.items():
            gate = _gate_from(name, fields)
            if gate is not None:
                gates[name] = gate
        return gates

    def obstacles(self, me: str) -> dict[str, str]:
        """What must not start now, and why and until when. A gate whose time has come lets one prober through."""
        return {name: why for name, gate in self.read().items() if (why := self._obstacle(gate, me))}

    def _obstacle(self, gate: Gate, me: str) -> str:
        if gate.is_shut(self._clock()):
            return f"{gate.why}; {gate.ends}"
        if gate.prober and gate.prober != me and identity.is_alive(gate.prober) is not False:
            return f"{gate.why} (somebody tries already whether it is over)"
        return ""

    def probe(self, name: str, me: str) -> bool:
        """Take the right to try whether a closed gate's reason is over; True also where no gate is closed."""
        with DirLock(self._queue.dir):
            gates = self.read()
            gate = gates.get(name)
            if gate is None:
                return True
            if gate.is_shut(self._clock()):
                return False
            if gate.prober and gate.prober != me and identity.is_alive(gate.prober) is not False:
                return False
            self._write({**gates, name: replace(gate, prober=me)})
            return True

    def close(self, name: str, outcome: Outcome) -> Gate:
        """Close a gate because of what a worker met."""
        with DirLock(self._queue.dir):
            gates = self.read()
            gate = closed_by(
                gates.get(name),
                name,
                outcome,
                self._clock(),
                longest=self._longest,
                unit=self._unit,
                jitter=self._chance(),
            )
            self._write({**gates, name: gate})
        return gate

    def open(self, name: str) -> Gate | None:
        """Open a gate because a worker got through; returns the gate that was closed, if one was."""
        if name not in self.read():
            return None
        with DirLock(self._queue.dir):
            gates = self.read()
            gone = gates.pop(name, None)
            self._write(gates)
        return gone

    def retry_walls(self) -> None:
        """Let one worker probe what only a person could mend: a new run begins because the person thinks that it is."""
        if any(gate.until is None for gate in self.read().values()):
            with DirLock(self._queue.dir):
                now = self._clock()
                gates = self.read()
                self._write(
                    {
                        name: replace(gate, until=now, strikes=1) if gate.until is None else gate
                        for name, gate in gates.items()
                    }
                )

    def _write(self, gates: dict[str, Gate]) -> None:
        data = {name: asdict(gate) for name, gate in gates.items()}
        write_whole(self._path, json.dumps(data, sort_keys=True).encode() + b"\n", durable=False)


def gates_of(queue: Queue, config: Config) -> Gates:
    """The gates of a project, with the waits that its configuration sets."""
    return Gates(queue, config.get("run.max_wait"), config.get("run.backoff"))


def _gate_from(name: str, fields: Any) -> Gate | None:
    """A gate from its record; None for one that says nothing that can be used."""
    if not isinstance(fields, dict):
        return None
    until, since, strikes = fields.get("until"), fields.get("since"), fields.get("strikes")
    if not (until is None or isinstance(until, int | float)) or not isinstance(since, int | float):
        return None
    if not isinstance(strikes, int):
        return None
    return Gate(
        name=name,
        kind=str(fields.get("kind", "limit")),
        why=str(fields.get("why", "limit")),
        since=since,
        until=until,
        strikes=strikes,
        reset_known=bool(fields.get("reset_known")),
        prober=str(fields.get("prober", "")),
    )
