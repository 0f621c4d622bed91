"""The values that cross between the rooms.

Values are frozen dataclasses; times are seconds since the epoch (UTC) unless a name says otherwise; sizes are bytes.
`None` in a measured value always means "unknown", never zero and never plenty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["inbox", "active", "done", "blocked", "failed"]
Need = Literal["browser", "agent", "serial", "command"]
Trust = Literal["person", "outside"]

# ---------------------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one task may use; None is no limit of its own. `money` is in US dollars, `seconds` is wall time."""

    tokens: int | None = None
    money: float | None = None
    turns: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be done and what it needs. Immutable once added."""

    id: str
    target: str
    title: str = ""
    notes: str = ""
    kind: str = ""
    need: Need = "agent"
    lane: str = ""
    host: str = ""
    priority: int = 5
    touches: tuple[str, ...] = ()
    writes: bool = False
    needs: tuple[str, ...] = ()
    check: str = ""
    budget: Budget = field(default_factory=Budget)
    provider: str = ""
    pool: str = ""
    model: str = ""
    source: str = "person"
    trust: Trust = "person"
    created: float = 0.0
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why one task cannot start now; `until` is when to look again, None if that is not known."""

    source: str
    why: str
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A read-only picture of the queue: counts a state, and what waits, by need, lane and host."""

    root: str
    now: float
    counts: Mapping[str, int]
    waiting: tuple[Waiting, ...] = ()
    active: tuple[Active, ...] = ()
    quarantined: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many tasks wait in the inbox with the same priority, need, wishes and gate (host or touched paths)."""

    priority: int
    need: Need
    lane: str
    provider: str
    gate: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """One task that somebody holds: the lease generation and who its owner is, as far as the files tell.

    `worker` is the worker of a run that the owner belongs to, empty if no run started it.
    """

    task: str
    generation: int
    owner: str
    gate: str
    agent: str
    lane: str
    alive: bool | None
    beat: float
    worker: str = ""


# -------------------------------------------------------------------------------------------------- capacity

Quantity = Literal[
    "cores",
    "load1",
    "cpu_idle",
    "cpu_pressure",
    "memory_total",
    "memory_available",
    "memory_limit",
    "memory_pressure_some",
    "memory_pressure_full",
    "swap_total",
    "swap_free",
    "commit_free",
    "pids_free",
    "fds_free",
    "ptys_free",
    "inotify_free",
    "disk_free",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One measured quantity: memory and disk in bytes, pressure and idle in percent, the rest in counts.

    `value` is None where the probe should know and could not tell; `note` then says why. `at` is when it was read.
    """

    quantity: Quantity
    value: float | None
    source: str
    at: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """How many workers something allows, who says so, why, and when it was read (None: not a measurement).

    `workers` is None where it is unknown; the plan shows that and counts it conservatively.
    """

    name: str
    workers: int | None
    source: str
    why: str
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one worker costs: `memory` is the PSS of its whole process tree, `cores` its mean CPU use.

    `basis` says where the figures come from: measured in this run, remembered from earlier ones, or the default.
    """

    provider: str
    lane: str
    memory: float
    cores: float
    basis: Literal["measured", "remembered", "default"]
    samples: int = 0
    at: float | None = None


# ---------------------------------------------------------------------------------- launches, workers, outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt at one task, as a provider sees it. `session` names a conversation to go on with, if any.

    `account` is the label of the account whose home `env` names; empty: it works under the person's own login.
    `servers` are the MCP servers that it may use, by name, as clients take their settings, with `${NAME}` for a variable: these
    and no others. None: what the person has set up.
    """

    task: Task
    worker: str
    prompt: str
    nonce: str
    cwd: str
    env: Mapping[str, str]
    scratch: str
    session: str = ""
    account: str = ""
    servers: Mapping[str, Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """A session that claims, works and reports by itself, as a provider sees it.

    `seats` is how many tasks it works at once: one by itself, more by subagents. `interactive` says that a person sits at
    its terminal and can type; otherwise its output is read as events. `brief` is all that it is told, and `member` what each
    of its subagents is, whose type it calls `kind`; both are our own text, with no task's text in them. An interactive one
    has the path in `$FLEET_TURNS` get one more line when a turn of it has ended, and its reader is fed these lines: what it
    prints is a picture for the person. `account` is as in a job.
    """

    worker: str
    lane: str
    seats: int
    interactive: bool
    brief: str
    model: str
    cwd: str
    env: Mapping[str, str]
    scratch: str
    member: str = ""
    kind: str = "fleet-worker"
    account: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A process to start. `env` is its whole environment; `stdin` is what it reads there (empty: /dev/null, or the terminal
    that its keeper gives it).

    `speaks` says whether silence means that something is wrong: an agent streams events, a shell command need not.
    """

    worker: str
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    log: str
    stdin: bytes = b""
    speaks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A started process and how to find it again: `identity` is `process.Identity` as text."""

    id: str
    lane: str
    pid: int
    identity: str
    handle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one attempt in every class, turns, and the money that the agent itself reported (US dollars)."""

    input: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0
    reasoning: int = 0
    turns: int = 0
    money: float | None = None
    models: tuple[str, ...] = ()
    partial: bool = False

    @property
    def tokens(self) -> int:
        return self.input + self.cache_write + self.cache_read + self.output + self.reasoning


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a running agent said: `text` is for people, `usage` is the total of this attempt so far."""

    kind: Literal["started", "text", "tool", "retry", "limit", "denied", "result", "other"]
    text: str = ""
    session: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the process of an attempt ended. `cause` is who ended it; `code` is None when a signal did."""

    code: int | None
    signal: int | None = None
    cause: Literal[
        "exited",
        "first_byte",
        "idle",
        "timeout",
        "log_limit",
        "memory",
        "processes",
        "stopped",
        "shed",
        "lost",
        "unstarted",
    ] = "exited"
    seconds: float = 0.0
    note: str = ""


OutcomeKind = Literal[
    "done", "blocked", "failed", "limit", "auth", "overload", "budget", "timeout", "crashed", "refused", "unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an attempt came to. `result` is what the agent said it observed; `resets_at` is known for some limits.

    `limit` is the kind of a limit in the provider's words; `model` the one model that it holds for, empty where it holds for
    all work of the account, or where that is not known.
    """

    kind: OutcomeKind
    reason: str = ""
    result: str = ""
    session: str = ""
    usage: Usage = field(default_factory=Usage)
    limit: str = ""
    model: str = ""
    resets_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a health check saw. `hint` says how to mend it."""

    level: Literal["ok", "warning", "fault", "unknown"]
    text: str
    hint: str = ""
