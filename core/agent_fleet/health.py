"""Which worker slots and nodes are fit to be given work, and how accounts do, from what their attempts came to. Pure.

More than three failures in a row, of different tasks, take a slot or a node out: a task that breaks every worker is no fault of
theirs. It rests, longer from time to time, then is on probation with one attempt at a time; a success brings it back. A limit,
an overload or a login wall counts against the account alone, which its cooldown closes at the first one; what is about the
task alone counts against nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from agent_fleet.config import Config
from agent_fleet.model import OutcomeKind

Kind = Literal["slot", "account", "node"]

WINDOW = 50  # attempts that rate and time are taken from
STEADY = 10  # successes in a row after which former rests are forgotten

WORKED = frozenset(("done", "blocked"))
ACCOUNTS = frozenset(("limit", "overload", "auth"))
BROKEN = frozenset(("crashed", "timeout", "unknown"))


class Rules(NamedTuple):
    """More than `failures` in a row take one out, for `rest` seconds, doubled each time up to `longest`."""

    failures: int = 3
    rest: float = 60.0
    longest: float = 3600.0


class Ended(NamedTuple):
    """One attempt that has ended: when, where, whose, what it came to, and how long it took, in seconds.

    A part without a name is not known and is not judged; neither is the response time where `seconds` is None.
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

    `row` are the tasks of its failures in a row, `well` its successes in a row, `last` what the last failure was. Until `rests`
    it gets nothing; it is `out` until a success after that. `times` counts how often it was taken out.
    """

    recent: tuple[tuple[bool, float | None], ...] = ()
    row: tuple[str, ...] = ()
    well: int = 0
    out: bool = False
    rests: float = 0.0
    times: int = 0
    last: str = ""

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


def observed(health: Health, rules: Rules, ended: Ended) -> dict[Part, Fitness]:
    """What is known after one more attempt has ended."""
    found = dict(health)
    for part in (Part("slot", ended.slot), Part("account", ended.account), Part("node", ended.node)):
        went_well = _verdict(part.kind, ended.kind)
        if part.name and went_well is not None:
            found[part] = _judged(part.kind, found.get(part, Fitness()), rules, ended, went_well=went_well)
    return found


def _verdict(part: Kind, kind: OutcomeKind) -> bool | None:
    """Whether the outcome speaks for a part, against it, or says nothing of it."""
    if kind in WORKED or (kind == "failed" and part != "slot"):
        return True  # an agent that reports a failure was served by its account and its node
    if part == "account":
        return False if kind in ACCOUNTS else None
    return False if kind in BROKEN or kind == "failed" else None


def _judged(part: Kind, known: Fitness, rules: Rules, ended: Ended, *, went_well: bool) -> Fitness:
    recent = (*known.recent, (went_well, ended.seconds))[-WINDOW:]
    if went_well:
        well = known.well + 1
        times = 0 if well >= STEADY else known.times
        back = not known.out or ended.at >= known.rests
        return known._replace(recent=recent, row=(), well=well, out=not back, times=times)
    row = known.row if ended.task and ended.task in known.row else (*known.row, ended.task)
    known = known._replace(recent=recent, row=row[-WINDOW:], well=0, last=ended.kind)
    if part == "account":
        return known
    if known.out:
        # one that was on its way when the part was taken out is no news; a failed probation is
        return _taken_out(known, rules, ended.at) if ended.at >= known.rests else known
    return _taken_out(known, rules, ended.at) if len(row) > rules.failures else known


def _taken_out(known: Fitness, rules: Rules, now: float) -> Fitness:
    rest = min(rules.longest, rules.rest * 2.0 ** min(known.times, 60))
    return known._replace(out=True, rests=now + rest, times=known.times + 1, row=())
