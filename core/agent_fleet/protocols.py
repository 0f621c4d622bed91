"""What a plugin implements: small protocols, one for each kind of thing that it may offer, and what those things hand out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agent_fleet.accounts.spec import Account, AccountSpec, HookSaid
from agent_fleet.accounts.values import QuotaReading
from agent_fleet.deploy.values import Goal, Split
from agent_fleet.model import (
    Board,
    Ceiling,
    Crew,
    Event,
    Exit,
    Finding,
    Hold,
    Job,
    Launch,
    Outcome,
    Reading,
    Task,
    Worker,
)

if TYPE_CHECKING:
    import numpy


class Probe(Protocol):
    """A way to read what this machine can spare."""

    @property
    def name(self) -> str: ...

    def usable(self) -> str | None:
        """None, or the reason in words why this probe cannot be used on this machine."""
        ...

    def read(self) -> Iterable[Reading]:
        """All that this probe can tell now. A quantity it has no business with is left out, not unknown."""
        ...


class Reader(Protocol):
    """Follows one attempt's output, line by line, and judges it at the end. Pure: it opens nothing."""

    def feed(self, line: str) -> Iterable[Event]:
        """The events in one line of output; none for a line that says nothing. Not each of very many empty lines is given."""
        ...

    def outcome(self, exit: Exit) -> Outcome:
        """Judge the attempt: structured events first, text second."""
        ...


class Provider(Protocol):
    """A kind of agent: how one is started for a task, and how its output is read."""

    @property
    def name(self) -> str: ...

    def usable(self) -> str | None:
        """None, or the reason in words why this provider cannot be used on this machine."""
        ...

    def launch(self, job: Job) -> Launch:
        """The process that makes this attempt. Text reaches it by stdin or a file, never through a shell."""
        ...

    def reader(self, job: Job) -> Reader:
        """A fresh reader for the output of that process."""
        ...


@runtime_checkable
class Musters(Protocol):
    """A provider that can also start a crew: a session that claims, works and reports by itself. Optional."""

    @property
    def most_seats(self) -> int | None:
        """The most tasks that one session of it can work at once; None: no limit, 0: it can have none as it is set up."""
        ...

    def crew(self, crew: Crew) -> Launch:
        """The process of that session. Its brief reaches it as a dispatched worker's prompt does, never through a shell."""
        ...

    def crew_reader(self, crew: Crew) -> Reader:
        """A fresh reader for the session's output; its outcome says how the session as a whole ended.

        On a terminal it is fed what the session's hooks told, as a person looks at its output. There it is asked after each
        turn too, while the session is there: a limit, a refused login or an overload that ended the last turn ends the session.
        """
        ...


@runtime_checkable
class Resumes(Protocol):
    """A provider whose conversations a person can go on with. Optional."""

    def resume(self, session: str) -> tuple[str, ...]:
        """The command that a person types in the project to go on with that conversation; empty if there is none.

        It is shown, never run. A text that is no name of a conversation gives nothing.
        """
        ...


@runtime_checkable
class Accounts(Protocol):
    """A provider whose logins fleet can keep apart. Optional; with this alone an account can be launched, without numbers."""

    def account_spec(self) -> AccountSpec:
        """What there is to know of its accounts. The same each time, and cheap."""
        ...


@runtime_checkable
class Identified(Protocol):
    """A provider with accounts that can tell which account a home holds. Optional."""

    def identity(self, account: Account, deadline: float) -> str | None:
        """A text that is the same for the same account and for no other; None if that is unknown within `deadline` seconds.

        It is salted and digested before it is kept or compared. It must not hold a secret.
        """
        ...


@runtime_checkable
class Personal(Protocol):
    """A provider with accounts that can tell who the person themselves is logged in as, outside of any account. Optional."""

    def own_accounts(self, base_home: str, desktop_file: str) -> Iterable[str]:
        """The accounts of the person's own program and desktop, as far as they can be read, in the words of `identity`.

        Either path may be empty, and then is not looked at. Files are read at once and never changed. Where the last part of an
        identity (behind the last colon) is not known it is left empty: that is every account of the part before it.
        """
        ...


class QuotaReader(Protocol):
    """One source that can tell what is left of an account."""

    @property
    def name(self) -> str: ...

    def read(self, account: Account, deadline: float) -> QuotaReading | None:
        """What is left, within `deadline` seconds; None if this source has nothing to say of this account."""
        ...


@runtime_checkable
class Quotas(Protocol):
    """A provider with accounts that have limits which can be read. Optional."""

    def quota_readers(self, account: Account) -> Iterable[QuotaReader]:
        """The sources, in the order in which they are asked; the first fresh answer counts."""
        ...


@runtime_checkable
class Hooked(Protocol):
    """A provider whose sessions call fleet when they begin and when a turn ends. Optional."""

    def hook_event(self, event: str, arguments: Sequence[str], payload: bytes) -> HookSaid | None:
        """What a call of `fleet hook EVENT` says; None if it says nothing. Raises `bad_input` for what is not to be understood."""
        ...


class Lane(Protocol):
    """A way to run a process: detached, in a window, in this session."""

    @property
    def name(self) -> str: ...

    @property
    def limit(self) -> int | None:
        """The most workers that this lane can ever run at once; None if it sets no limit."""
        ...

    @property
    def foreground(self) -> bool:
        """Whether the person expects to see its workers' output in the session that started them."""
        ...

    def usable(self) -> str | None:
        """None, or the reason in words why this lane cannot be used on this machine."""
        ...

    def start(self, launch: Launch) -> Worker:
        """Start the process and return at once."""
        ...

    def alive(self, worker: Worker) -> bool | None:
        """Whether it still runs; None if this lane cannot tell."""
        ...

    def stop(self, worker: Worker, grace: float) -> bool:
        """Ask it to end, then end it after `grace` seconds; True only if it was seen to be gone."""
        ...


@runtime_checkable
class Seated(Protocol):
    """A lane whose workers are crews where the provider can muster one. Optional."""

    @property
    def seats(self) -> int:
        """How many tasks one session of this lane works at once."""
        ...


@runtime_checkable
class Visible(Protocol):
    """A lane that gives each worker a terminal of its own. Optional."""

    @property
    def terminal(self) -> bool:
        """Whether a worker's input and output are a terminal that the person can watch and type into."""
        ...

    def show(self, worker: Worker) -> str | None:
        """Bring the worker's terminal before the person; None, or the reason in words why that cannot be done."""
        ...


@runtime_checkable
class Formed(Protocol):
    """A lane that has more than one way to run a worker, and chooses by what there is. Optional."""

    def form(self) -> str:
        """Where a worker would run now, and why not in the ways that come before: one line for the person."""
        ...


@runtime_checkable
class Cleaner(Protocol):
    """A plugin's thing that leaves something in a project, and can take it away again: asked by `fleet clean`. Optional."""

    @property
    def name(self) -> str: ...

    def clean(self, root: str) -> Iterable[Finding]:
        """Take away what is provably ours and no longer in use, and say what was done and what was left, with why."""
        ...


class Policy(Protocol):
    """A rule of the person's own: how many workers, and which tasks wait."""

    @property
    def name(self) -> str: ...

    def ceiling(self, board: Board) -> Ceiling | None:
        """How many workers this rule allows now, or None if it has nothing to say."""
        ...

    def hold(self, task: Task, board: Board) -> Hold | None:
        """Why this task must wait, or None."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how alike they are in meaning."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """The version of the weights that are installed; empty where that is unknown."""
        ...

    def usable(self) -> str | None:
        """None, or the reason in words why it cannot be used on this machine."""
        ...

    def embed(self, texts: Sequence[str]) -> numpy.ndarray[Any, Any]:
        """One row of unit length for each text, as 32-bit floats; a text without words gives a row of zeros."""
        ...

    @property
    def calibration(self) -> tuple[float, float, float, float] | None:
        """Weights of cosine, matched words, unmatched words, and the constant; None: only a cosine at the bound collapses."""
        ...


class Decomposer(Protocol):
    """A way to take a goal apart, so that many agents work at once and no two on the same thing."""

    @property
    def name(self) -> str: ...

    def usable(self) -> str | None:
        """None, or the reason in words why this decomposer cannot be used on this machine."""
        ...

    def decompose(self, goal: Goal) -> Split:
        """Scopes that are pairwise disjoint and together the goal's items: both are checked, and a split that is none is refused.

        Raises `bad_input` for a goal that it cannot take apart.
        """
        ...


class Check(Protocol):
    """A health check of `fleet doctor`."""

    @property
    def name(self) -> str: ...

    def run(self, root: str) -> Iterable[Finding]:
        """What this check finds for the project at `root`; at least one finding."""
        ...


class Mender(Protocol):
    """A health check that can also mend what it finds. Optional: `fleet doctor --fix` asks those checks that have it."""

    @property
    def name(self) -> str: ...

    def mend(self, root: str) -> Iterable[Finding]:
        """Mend what can be mended without losing anything, and say what was done; nothing if nothing was needed."""
        ...
