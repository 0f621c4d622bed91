"""`fleet exec` and `fleet resume`: everything is refused that can be, a lease is taken, and the process becomes the provider's."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from agent_fleet.accounts import arguments, marker, places, selection
from agent_fleet.accounts.badge import Badge
from agent_fleet.accounts.outfit import Outfit, check_controls, outfit
from agent_fleet.accounts.ports import ProviderPort
from agent_fleet.accounts.registry import Registry, check_label
from agent_fleet.accounts.router import Router
from agent_fleet.accounts.selection import EXPLICIT
from agent_fleet.accounts.sessions import Session
from agent_fleet.accounts.spec import AccountSpec
from agent_fleet.accounts.stored import check_task
from agent_fleet.accounts.values import Lease
from agent_fleet.errors import FleetError, from_os_error

_IGNORED_HERE = ("SIGPIPE", "SIGXFSZ", "SIGXFZ")  # this interpreter ignores them; what is started must not


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a caller asks for. None is what was not said; `session`, `profile` and `pool` of a resume may only confirm."""

    task: str | None
    workspace: str | None
    turn_end: str | None
    pool: str | None = None
    provider: str | None = None
    profile: str | None = None
    session: str | None = None
    argv: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """Where it is to run. `descriptor` keeps hold of the directory that was looked at."""

    task: str
    root: str
    turn_end: str
    descriptor: int


class Departure:
    """One launch of one process: this one. Nothing of `fleet` is left where it succeeds."""

    def __init__(self, router: Router, port: ProviderPort, registry: Registry) -> None:
        self.router = router
        self.port = port
        self.registry = registry

    def start(self, order: Order) -> NoReturn:
        """Begin a conversation: choose an account, lease it to this process, become its provider.

        Raises FleetError, in this order: `usage` or `bad_input` for what was not said, `refused` for the provider's arguments,
        `project_refused`, `session_conflict` where the task has a conversation, then as `Router.choose` does.
        """
        ground = _ground(order)
        if order.pool is None and order.profile is None:
            raise _missing("--pool or --profile")
        request = selection.Request(
            task=ground.task,
            pool=check_label(order.pool or EXPLICIT, "pool id"),
            provider=order.provider,
            profile=order.profile,
            workspace=ground.root,
        )
        if order.profile is not None:
            self.registry.profile(order.profile)
        asked = self._asked(request, order.argv, ground)
        known = self.router.sessions.of(ground.task)
        if known is not None:
            raise FleetError(
                "session_conflict",
                f"task {ground.task} has a conversation already: session {known.session_id} on {known.profile}",
                hint="go on with it by `fleet resume`, or forget it by `fleet session remove`",
            )
        lease = self.router.choose(request, pid=os.getpid()).lease
        self._leave(lease, ground, asked)

    def resume(self, order: Order) -> NoReturn:
        """Go on with the task's conversation, on its own account and there alone, whatever that one's reserve.

        Raises FleetError as `start` does; also `session_missing`, and `session_conflict` for anything else than what is on record.
        """
        ground = _ground(order)
        session = self.router.sessions.must(ground.task)
        _confirm(session, order, ground)
        spec = self.port.spec(session.provider)
        asked = arguments.parse(spec.grammar, order.argv, operation="resume", turn_end=ground.turn_end)
        check_controls(ground.root, spec)
        lease = self.router.recover(ground.task, ground.root, pid=os.getpid(), doing="resume").lease
        self._leave(lease, ground, {session.provider: asked}, session.session_id)

    def _asked(self, request: selection.Request, argv: Sequence[str], ground: _Ground) -> dict[str, arguments.Request]:
        """The arguments as each provider that may be chosen understands them."""
        found = {}
        for provider, spec in self._specs(request).items():
            found[provider] = arguments.parse(spec.grammar, argv, operation="start", turn_end=ground.turn_end)
        for provider in found:
            check_controls(ground.root, self.port.spec(provider))
        return found

    def _specs(self, request: selection.Request) -> dict[str, AccountSpec]:
        """What may be chosen. A provider that is broken costs its own accounts alone, unless there is no other."""
        names = {p.provider for p in selection.candidates(request, self.registry) if p.is_worker}
        found: dict[str, AccountSpec] = {}
        trouble = None
        for name in sorted(names):
            try:
                found[name] = self.port.spec(name)
            except FleetError as error:
                trouble = error
        if trouble is not None and not found:
            raise trouble
        return found

    def _leave(
        self, lease: Lease | None, ground: _Ground, asked: dict[str, arguments.Request], session: str = ""
    ) -> NoReturn:
        """Become the provider's process under this lease; whatever keeps it from that gives the lease back."""
        if lease is None:
            raise AssertionError("a choice that is no dry run leases")
        try:
            badge = Badge(
                task=lease.task,
                profile=lease.profile,
                provider=lease.provider,
                pool=lease.pool,
                workspace=ground.root,
                turn_end=ground.turn_end,
            )
            carries = {**badge.variables(self.registry.rules.state_dir), "PWD": ground.root}
            ready = outfit(self.port, self.registry.profile(lease.profile), ground.root, carries, self.port.environ)
            command = arguments.build(
                ready.spec.grammar,
                asked[lease.provider],
                root=ground.root,
                notify=ready.hooks.turn_end_words,
                session=session,
            )
            self._check_ground(ground, ready.spec)
            _become(ready, command, ground.descriptor)
        except BaseException:
            self.router.give_back(lease)
            raise

    def _check_ground(self, ground: _Ground, spec: AccountSpec) -> None:
        """The last look before nothing can be looked at any more: the same directory, and still without orders in it."""
        there, held = os.lstat(ground.root), os.fstat(ground.descriptor)
        if (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino):
            raise FleetError(
                "project_refused", f"{ground.root} was exchanged meanwhile", hint="look who moves it, then try again"
            )
        check_controls(ground.root, spec)


def _ground(order: Order) -> _Ground:
    for said, name in ((order.task, "--task"), (order.workspace, "--workspace"), (order.turn_end, "--turn-end")):
        if not said:
            raise _missing(name)
    task = check_task(order.task or "")
    root = places.lexical(order.workspace or "", "--workspace")
    turn_end = marker.checked(order.turn_end or "")
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise FleetError(
            "project_refused",
            f"{root} is no directory in which accounts may be used: {error.strerror}",
            hint="name the top of a registered git work tree",
        ) from None
    return _Ground(task=task, root=root, turn_end=turn_end, descriptor=descriptor)


def _confirm(session: Session, order: Order, ground: _Ground) -> None:
    for name, said, known in (
        ("workspace", ground.root, session.workspace),
        ("turn-end file", ground.turn_end, session.turn_end),
        ("profile", order.profile, session.profile),
        ("provider", order.provider, session.provider),
        ("session", order.session, session.session_id),
        ("pool", order.pool, session.pool),
    ):
        if said is not None and said != known:
            raise FleetError(
                "session_conflict",
                f"the session of task {ground.task} has the {name} {known}, not {said}",
                hint="`fleet session status` shows what is on record; only that can be gone on with",
            )


def _missing(name: str) -> FleetError:
    return FleetError("usage", f"{name} is missing", hint="`fleet exec --help` and `fleet resume --help` show the form")


def _become(ready: Outfit, command: arguments.Command, directory: int) -> NoReturn:
    """Replace this process. Raises FleetError where the system does not let it."""
    try:
        os.fchdir(directory)
        if command.stdin:
            _read_from(command.stdin)
        with _nothing_ignored():
            os.execve(ready.binary, [ready.binary, *command.arguments], dict(ready.environ))  # noqa: S606 -- the pinned program, and no shell
    except OSError as error:
        raise from_os_error(error, f"starting {ready.binary}") from None


@contextmanager
def _nothing_ignored() -> Iterator[None]:
    """For a new program. A process that could not become it has a lease to give back, and must not die of a closed pipe before."""
    numbers = [getattr(signal, name) for name in _IGNORED_HERE if hasattr(signal, name)]
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _read_from(text: bytes) -> None:
    """Make this text what the process reads: from a file that has no name any more."""
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.flush()
        file.seek(0)
        os.dup2(file.fileno(), 0)
