"""Which worker slots, accounts and nodes are fit to be given work, from what their attempts came to. Pure.

More than three failures in a row, of different tasks, take one out: a task that breaks every worker is no fault of theirs. It
rests, longer from time to time, then is on probation with one attempt at a time; a success brings it back. A limit, an
overload or a login wall blames the account alone; what is about the task alone blames nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from agent_fleet.config import Config
from agent_fleet.model import OutcomeKind

Kind = Literal["slot", "account", "node"]

KINDS: tuple[Kind, ...] = ("slot", "account", "node")
WINDOW = 50  # attempts that rate and time are taken from
STEADY = 10  # successes in a row after which former rests are forgotten

WORKED = frozenset(("done", "blocked"))
ACCOUNTS = frozenset(("limit", "overload", "auth"))
WORKERS = frozenset(("failed", "crashed", "timeout", "unknown"))


class Rules(NamedTuple):
    """More than `failures` in a row take one out, for `rest` seconds, doubled each time up to `longest`."""

    failures: int = 3
    rest: float = 60.0
    longest: float = 3600.0


class Attempt(NamedTuple):
    """One attempt that has ended: when, where, whose, what it came to, and how long it took, in seconds.

    A part without a name is not known and is not judged; neither is the response time where `seconds` is None. Moments are
    those of one clock.
    """

    at: float
    kind: OutcomeKind
    task: str = ""
    slot: str = ""
    account: str = ""
    node: str = ""
    seconds: float | None = None


class Part(NamedTuple):
    """A slot, an account or a node, by its name."""

    kind: Kind
    name: str


class Fitness(NamedTuple):
    """What is known of one part. `recent` are its last attempts: whether each went well, and its seconds.

    `row` are the tasks of its failures in a row, `well` its successes in a row. Until `rests` it gets nothing; it is `out`
    until a success after that. `times` counts how often it was taken out.
    """

    recent: tuple[tuple[bool, float | None], ...] = ()
    row: tuple[str, ...] = ()
    well: int = 0
    out: bool = False
    rests: float = 0.0
    times: int = 0

    @property
    def failure_rate(self) -> float | None:
        """The part of its last attempts that failed; None if there were none."""
        return sum(not well for well, _ in self.recent) / len(self.recent) if self.recent else None

    @property
    def response(self) -> float | None:
        """The mean seconds of its last attempts that went well; None if none is known."""
        known = [seconds for well, seconds in self.recent if well and seconds is not None]
        return sum(known) / len(known) if known else None

    def state(self, now: float) -> Literal["in", "out", "probation"]:
        """Whether it is given work: as usual, not at all, or one attempt at a time."""
        if not self.out:
            return "in"
        return "out" if now < self.rests else "probation"


Health = Mapping[Part, Fitness]


def rules(config: Config) -> Rules:
    """The rules that are in force in a project."""
    return Rules(int(config.get("health.failures")), config.get("health.rest"), config.get("health.longest"))


def observed(health: Health, rules: Rules, attempt: Attempt) -> dict[Part, Fitness]:
    """What is known after one more attempt has ended."""
    found = dict(health)
    for part in _parts(attempt):
        verdict = _verdict(part.kind, attempt.kind)
        if verdict is not None:
            found[part] = _judged(found.get(part, Fitness()), rules, attempt, went_well=verdict)
    return found


def observed_all(rules: Rules, attempts: Iterable[Attempt]) -> dict[Part, Fitness]:
    """What is known after all of these, in their order."""
    health: dict[Part, Fitness] = {}
    for attempt in attempts:
        health = observed(health, rules, attempt)
    return health


def may_work(health: Health, now: float, busy: Mapping[Part, int], *, slot: str, account: str, node: str) -> bool:
    """Whether one more attempt may start there. `busy` counts the attempts that run now, by part."""
    for part in (Part("slot", slot), Part("account", account), Part("node", node)):
        state = health[part].state(now) if part.name and part in health else "in"
        if state == "out" or (state == "probation" and busy.get(part, 0) > 0):
            return False
    return True


def _parts(attempt: Attempt) -> list[Part]:
    named = zip(KINDS, (attempt.slot, attempt.account, attempt.node), strict=True)
    return [Part(kind, name) for kind, name in named if name]


def _verdict(part: Kind, kind: OutcomeKind) -> bool | None:
    """Whether the outcome speaks for a part, against it, or says nothing of it."""
    if kind in WORKED:
        return True
    if kind in ACCOUNTS:
        return False if part == "account" else None
    if kind in WORKERS:
        return None if part == "account" else False
    return None


def _judged(known: Fitness, rules: Rules, attempt: Attempt, *, went_well: bool) -> Fitness:
    recent = (*known.recent, (went_well, attempt.seconds))[-WINDOW:]
    if went_well:
        well = known.well + 1
        times = 0 if well >= STEADY else known.times
        back = not known.out or attempt.at >= known.rests
        return known._replace(recent=recent, row=(), well=well, out=not back, times=times)
    row = known.row if attempt.task and attempt.task in known.row else (*known.row, attempt.task)
    known = known._replace(recent=recent, row=row, well=0)
    if known.out:
        # one that was on its way when the part was taken out is no news; a failed probation is
        return _taken_out(known, rules, attempt.at) if attempt.at >= known.rests else known
    return _taken_out(known, rules, attempt.at) if len(row) > rules.failures else known


def _taken_out(known: Fitness, rules: Rules, now: float) -> Fitness:
    rest = min(rules.longest, rules.rest * 2.0 ** min(known.times, 60))
    return known._replace(out=True, rests=now + rest, times=known.times + 1, row=())
