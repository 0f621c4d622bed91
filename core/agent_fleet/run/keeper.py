"""The process above one attempt: it holds the lease, starts the agent, and reports only when nothing of it is left.

Run as `python -I -S keeper.py <worker directory>`, with what to do in `keeper.json` there; it leaves `exit.json`. Only
the standard library and a few light modules of this package are loaded, since there is one keeper for every worker.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from agent_fleet.run.confine import Confinement
    from agent_fleet.run.stage import Stage
    from agent_fleet.run.tenure import Lease
    from agent_fleet.tree import Tree

TICK = 1.0  # seconds between two looks at the log
BEAT = 10.0  # seconds between two heartbeats, unless the order says otherwise
LINGER = 60.0  # seconds that an agent may go on after it has reported its task


class Order(NamedTuple):
    """What `keeper.json` says: limits in seconds, `max_log` and `max_memory` in bytes, 0 for none; `beat` between heartbeats."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    stdin: str
    log: str
    mark: str
    take: dict[str, Any]
    total: float
    first_byte: float
    idle: float
    grace: float
    beat: float
    max_log: int
    max_memory: int
    max_processes: int
    linger: float
    terminal: bool = False


class End(NamedTuple):
    """Why an attempt is over; `status` is what waitpid(2) gave for the agent, None if it did not run."""

    cause: str
    note: str = ""
    status: int | None = None
    seconds: float = 0.0
    leftovers: tuple[int, list[str]] = (0, [])


def main(worker_dir: str) -> None:
    """Keep one attempt from its lease to its exit record; an attempt that has one already is left alone."""
    from agent_fleet.errors import FleetError
    from agent_fleet.run import tenure
    from agent_fleet.run.child import become_subreaper
    from agent_fleet.run.ending import report

    window = _window()
    _stand_alone()
    wakeup = _listen()
    become_subreaper()
    if os.path.exists(os.path.join(worker_dir, "exit.json")):
        return
    try:
        order = read_order(os.path.join(worker_dir, "keeper.json"))
        _forget_environment(worker_dir)
        lease = tenure.take(order.take, worker_dir, order.mark)
        log = os.open(order.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        stage = _stage(window, log, worker_dir) if order.terminal else None
    except (FleetError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        end = End("unstarted", f"keeper: {type(error).__name__}: {error}")
    else:
        end = (
            _attempt(order, lease, log, worker_dir, wakeup, stage) if lease else End("lost", "it was gone at the start")
        )
    report(worker_dir, end)


def read_order(path: str) -> Order:
    """Read `keeper.json`. Raises OSError, or what a file that is not whole raises when it is looked into."""
    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    argv = [str(part) for part in fields["argv"]]
    mark = str(fields["mark"])
    if not argv or not mark:
        raise ValueError("an order needs a command and a mark")
    return Order(
        argv=argv,
        cwd=str(fields["cwd"]),
        # The mark is how the tree is found again, so it does not depend on who wrote the order.
        env={str(name): str(value) for name, value in fields["env"].items()} | {"FLEET_WORKER": mark},
        stdin=str(fields["stdin"]),
        log=str(fields["log"]),
        mark=mark,
        take=dict(fields["take"]),
        total=float(fields["total"]),
        first_byte=float(fields["first_byte"]),
        idle=float(fields["idle"]),
        grace=max(0.0, float(fields["grace"])),
        beat=max(0.1, float(fields.get("beat", BEAT))),
        max_log=int(fields["max_log"]),
        max_memory=int(fields.get("max_memory", 0)),
        max_processes=int(fields.get("max_processes", 0)),
        linger=float(fields.get("linger", LINGER)),
        terminal=fields.get("terminal") is True,
    )


def _forget_environment(worker_dir: str) -> None:
    """Take the agent's environment off the disk, where its keys have no business once it was read. Raises OSError."""
    from agent_fleet.queue.files import write_whole

    path = os.path.join(worker_dir, "keeper.json")
    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    try:
        write_whole(path, json.dumps(fields | {"env": {}}).encode(), durable=False)
    except OSError:
        os.unlink(path)  # a full disk takes the record of the order, not the promise


# ------------------------------------------------------------------------------------------------------- becoming


def _window() -> int:
    """The terminal that we were started in, while we are still of its session; -1 if there is none, as in most lanes."""
    try:
        window = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1
    for number in range(3, window):
        try:
            os.set_inheritable(number, False)  # whoever opened the window left it open for us, not for the agent
        except OSError:
            pass
    return window


def _stage(window: int, log: int, worker_dir: str) -> Stage:
    from agent_fleet.run.stage import Stage

    return Stage(window, log, worker_dir)


def _stand_alone() -> None:
    """Need nobody: no terminal, no open standard stream, no parent that lives."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    try:
        os.setsid()
    except OSError:
        pass  # it leads a session already
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def _listen() -> int:
    """A descriptor from which the numbers of SIGTERM and SIGCHLD can be read as they come."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reading


# --------------------------------------------------------------------------------------------------------- keeping


def _attempt(order: Order, lease: Lease, log: int, worker_dir: str, wakeup: int, stage: Stage | None) -> End:
    from agent_fleet.identity import identity_of
    from agent_fleet.run.child import Program, start_child
    from agent_fleet.run.confine import Ceilings, Confinement
    from agent_fleet.run.ending import end_tree, leftovers
    from agent_fleet.tree import Tree

    if _asked_to_stop(wakeup):
        return End("stopped", _reason(worker_dir))
    start = time.monotonic()
    box = Confinement(f"agent-fleet-{order.mark}", Ceilings(order.max_memory, order.max_processes))
    program = Program(order.argv, order.cwd, order.env, box.doors)
    printed = os.fstat(log).st_size  # before the agent runs, or its first words would not count
    output = stage.agent if stage else log
    agent, trouble = start_child(program, stdin=order.stdin, output=output, terminal=stage is not None)
    if trouble:
        box.close()
        return End("unstarted", trouble)
    if stage:
        stage.begin()
    worker = Tree(identity_of(), order.mark)
    statuses: dict[int, int] = {}
    reap = _reaper(agent, statuses)
    cause, note = _watch(
        order, lease, log, printed, wakeup, lambda: reap() or agent in statuses, lambda: _breach(box, worker)
    )
    if cause in ("exited", "stopped"):
        # Whoever stops a whole service asks the agent and us at once; an agent that ended well did so by itself.
        stopped = (cause == "stopped" or _asked_to_stop(wakeup)) and statuses.get(agent) != 0
        cause, note = ("stopped", note or _reason(worker_dir)) if stopped else ("exited", "")
    outgrown = _breach(box, worker, final=True)
    if cause == "exited" and outgrown is not None:
        # an agent that coped with a refusal and ended well has done its work; it is told all the same
        cause, note = outgrown if statuses.get(agent) != 0 else (cause, outgrown[1])
    ended = time.monotonic()
    left = leftovers(worker, reap) if cause == "exited" else (0, [])
    end_tree(worker, order.grace, reap)
    if stage:
        stage.close()
    box.close()
    if cause != "exited":
        ended = time.monotonic()
    return End(cause, note, statuses.get(agent), ended - start, left)


def _reaper(agent: int, statuses: dict[int, int]) -> Callable[[], None]:
    """Wait for whatever has ended below us, our own child or one that came back to us; keep the agent's status."""

    def reap() -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == agent:
                statuses[agent] = status

    return reap


def _breach(box: Confinement, worker: Tree, *, final: bool = False) -> tuple[str, str] | None:
    """The ceiling that the tree has passed, if any; the tree is looked at only where nothing cheaper tells."""
    from agent_fleet.process import usage_of

    if final or not box.needs_watching:
        return box.breach(None, 0)
    used = usage_of(worker.identity, worker.mark)
    return box.breach(used.memory, used.processes)


def _watch(
    order: Order,
    lease: Lease,
    log: int,
    first: int,
    wakeup: int,
    ended: Callable[[], bool],
    breach: Callable[[], tuple[str, str] | None],
) -> tuple[str, str]:
    """Sleep until the agent ends, a limit is reached or we are asked to stop; (cause, note)."""
    start = quiet_since = time.monotonic()
    beat_at = start + order.beat
    look_at = start
    reported_at = 0.0
    size = first
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    while not ended():
        now = time.monotonic()
        if (found := os.fstat(log).st_size) != size:
            size, quiet_since = found, now
        reached = _limit(order, now - start, now - quiet_since, size - first)
        if reached is None and now >= look_at and (order.max_memory or order.max_processes):
            look_at = now + TICK
            reached = breach()
        if reached is not None:
            return reached
        if now >= beat_at:
            beat_at = now + order.beat
            if not lease.beat():
                return "lost", "the task was given to someone else, or returned to the queue"
            if lease.is_reported:
                reported_at = reported_at or now
                if now - reported_at >= order.linger:
                    return "stopped", "it had reported its task, and went on"
        poll.poll(1000 * _pause(order, now - start, now - quiet_since, beat_at - now))
        if _asked_to_stop(wakeup):
            ended()
            return "stopped", ""
    return "exited", ""


def _limit(order: Order, ran: float, quiet: float, printed: int) -> tuple[str, str] | None:
    if order.total and ran >= order.total:
        return "timeout", f"it ran for {ran:.0f} s, the limit is {order.total:g} s"
    silent = printed == 0
    if order.first_byte and silent and ran >= order.first_byte:
        return "first_byte", f"it printed nothing for {order.first_byte:g} s after its start"
    if order.idle and quiet >= order.idle and not (silent and order.first_byte):
        return "idle", f"it printed nothing for {order.idle:g} s"
    if order.max_log and printed > order.max_log:
        return "log_limit", f"it printed {printed} bytes, the limit is {order.max_log}"
    return None


def _pause(order: Order, ran: float, quiet: float, to_beat: float) -> float:
    """Seconds until something could be due, at least a tenth; SIGCHLD and SIGTERM wake us before."""
    dues = [
        limit - passed for limit, passed in ((order.total, ran), (order.first_byte, ran), (order.idle, quiet)) if limit
    ]
    if order.first_byte or order.idle or order.max_log or order.max_memory or order.max_processes:
        dues.append(TICK)
    return max(0.1, min([to_beat, *(due for due in dues if due > 0)]))


def _asked_to_stop(wakeup: int) -> bool:
    try:
        return signal.SIGTERM in os.read(wakeup, 4096)
    except BlockingIOError:
        return False


def _reason(worker_dir: str) -> str:
    """The first line of the file `stop`, which whoever asks us to stop may have left; empty if there is none."""
    try:
        with open(os.path.join(worker_dir, "stop"), encoding="utf-8", errors="replace") as file:
            return file.readline(500).strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    if not sys.platform.startswith("linux"):
        import site

        site.main()  # processes are read through psutil where there is no /proc
    main(os.path.abspath(sys.argv[1]))
