"""Processes of workers: started so that they outlive us, measured as whole trees, and ended with proof.

A signal goes through a pidfd whose process was checked against its start time, so that a number which was given to
another process is never hit.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

from agent_fleet.errors import FleetError, from_os_error
from agent_fleet.identity import LINUX, identity_of, is_alive, read_stat, start_of
from agent_fleet.tree import MARKS, Proc, Tree, descendants, families, marked, tree

if TYPE_CHECKING:
    from agent_fleet.model import Launch, Worker

__all__ = [
    "Proc",
    "Tree",
    "TreeUsage",
    "ask_to_end",
    "descendants",
    "identity_of",
    "is_alive",
    "marked",
    "resident_below",
    "send",
    "start_detached",
    "stop",
    "stop_tree",
    "tree",
    "usage_of",
]

LINGER = 2.0  # seconds that a first process gets to leave by itself, once all below it is gone: it may write a record
DEADLINE = 10.0  # seconds after which a tree that cannot be killed is given up
_ROUNDS = 50


class TreeUsage(NamedTuple):
    """What a tree uses now: bytes, CPU seconds so far (children it has waited for included), number of processes.

    `basis` says what `memory` sums: PSS, or RSS (which counts shared pages once a process) as soon as the PSS of one
    process could not be read. `memory` and `cpu` are None where nothing of the tree could be read.
    """

    memory: int | None
    basis: Literal["pss", "rss", "unknown"]
    cpu: float | None
    processes: int


# -------------------------------------------------------------------------------------------------------- ending


def stop_tree(identity: str, mark: str, grace: float) -> bool:
    """End a worker's whole tree; True only if it was seen to be gone.

    Its first process is asked to end (SIGTERM), the others as soon as that is gone or half the grace has passed. After
    `grace` seconds all are stopped until no new ones appear, and killed. An identity that cannot be judged from here
    gives False.
    """
    return stop(Tree(identity, mark), grace)


def stop(worker: Tree, grace: float, *, between: Callable[[], object] = lambda: None) -> bool:
    """As `stop_tree`, for a tree that was followed before; `between` is called between any two looks at it."""
    if _ask(worker, grace, between):
        return True
    root = next((proc for proc in worker.scan() if worker.is_root(proc)), None)
    if root is not None:
        _kill(worker, spare=root)
        if _gone_within(worker, LINGER, between):
            return True
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        _kill(worker)
        if _gone_within(worker, 0.5, between):
            return True
        if not worker.scan():
            return False  # nothing to signal, and still not proved: the identity cannot be judged from here
    return False


def ask_to_end(identity: str) -> bool:
    """Send one SIGTERM to exactly this process; False if it is not there, or cannot be told from another."""
    if not is_alive(identity):
        return False
    pid, start = identity.split(":")[:2]
    return send(Proc(int(pid), start, 0), signal.SIGTERM)


def _ask(worker: Tree, grace: float, between: Callable[[], object]) -> bool:
    """Send each process one SIGTERM and wait. First the first: it may be a keeper, which asks the others itself."""
    start = time.monotonic()
    asked: set[Proc] = set()
    for _ in _beats(grace):
        procs = worker.scan()
        if not procs:
            break
        late = time.monotonic() - start >= grace / 2 or not worker.is_root(procs[0])
        for proc in procs if late else procs[:1]:
            if proc not in asked:
                asked.add(proc)
                send(proc, signal.SIGTERM)
                send(proc, signal.SIGCONT)
        between()
    return _gone(worker)


def _kill(worker: Tree, *, spare: Proc | None = None) -> None:
    """Stop everything until a look shows nothing new, so that nothing is born unseen; then kill all of it."""
    frozen: set[Proc] = set()
    for _ in range(_ROUNDS):
        new = [proc for proc in worker.scan() if proc not in frozen and proc != spare]
        if not new:
            break
        for proc in new:
            send(proc, signal.SIGSTOP)
        frozen.update(new)
    for proc in frozen:
        send(proc, signal.SIGKILL)


def _gone_within(worker: Tree, seconds: float, between: Callable[[], object]) -> bool:
    for _ in _beats(seconds):
        between()
        if _gone(worker):
            return True
    return False


def _gone(worker: Tree) -> bool:
    # One look is not a moment: a process can be born behind it while its parent ends ahead of it. Two are enough.
    return not worker.scan() and not worker.scan() and worker.root_is_over()


def _beats(seconds: float) -> Iterator[None]:
    """Come back ever more slowly, and a last time when the seconds are over."""
    end = time.monotonic() + seconds
    pause = 0.01
    yield
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, 0.2)
        yield


def send(proc: Proc, number: int) -> bool:
    """Signal exactly this process; False if it has ended, belongs to another user, or is not who it was."""
    if sys.platform == "linux":
        try:
            handle = os.pidfd_open(proc.pid)
        except ProcessLookupError:
            return False
        except OSError:
            pass  # an old kernel, or no file descriptor left
        else:
            try:
                return _send_if(proc, lambda: signal.pidfd_send_signal(handle, number))
            finally:
                os.close(handle)
    return _send_if(proc, lambda: os.kill(proc.pid, number))


def _send_if(proc: Proc, signalled: Callable[[], object]) -> bool:
    try:
        if start_of(proc.pid) != proc.start:
            return False
        signalled()
    except OSError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------- measuring


def usage_of(identity: str, mark: str) -> TreeUsage:
    """What the whole tree of a worker uses now; see `TreeUsage`."""
    memory, cpu, seen, exact = 0, 0.0, 0, True
    for proc in tree(identity, mark):
        used = _used_by(proc.pid)
        if used is None:
            continue
        pss, rss, seconds = used
        exact = exact and pss is not None
        memory += rss if pss is None else pss
        cpu += seconds
        seen += 1
    if not seen:
        return TreeUsage(None, "unknown", None, 0)
    return TreeUsage(memory, "pss" if exact else "rss", cpu, seen)


def resident_below(pids: Iterable[int]) -> dict[int, int]:
    """The RSS in bytes of each of these processes with all that descends from it, from one look; those that run.

    Pages that they share are counted once a process: for showing, where a whole measurement would cost too much.
    """
    return {pid: sum(_rss(each) for each in below) for pid, below in families(pids).items()}


def _rss(pid: int) -> int:
    if LINUX:
        stat = read_stat(pid)
        return 0 if stat is None else stat.rss * os.sysconf("SC_PAGE_SIZE")
    used = _used_by(pid)
    return 0 if used is None else used[1]


def _used_by(pid: int) -> tuple[int | None, int, float] | None:
    """(PSS or None, RSS, CPU seconds) of one process; None if it has ended."""
    if LINUX:
        stat = read_stat(pid)
        if stat is None or stat.gone:
            return None
        return _pss(pid), stat.rss * os.sysconf("SC_PAGE_SIZE"), stat.cpu / os.sysconf("SC_CLK_TCK")
    import psutil

    try:
        process = psutil.Process(pid)
        return None, int(process.memory_info().rss), float(sum(process.cpu_times()[:2]))
    except psutil.Error:
        return None


def _pss(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


# -------------------------------------------------------------------------------------------------------- starting


def start_detached(launch: Launch, *, lane: str) -> Worker:
    """Start a process in a session of its own, which goes on when this one ends; return at once.

    It reads `launch.stdin` and then the end of the file, and both its outputs are appended to `launch.log` (mode 0600,
    never through a link). The worker's handle is its mark, `FLEET_WORKER`. Raises FleetError: `unusable` if it cannot
    be started, `unavailable` if the system has no room for it, or what `from_os_error` makes of an unusable log.
    """
    import subprocess

    from agent_fleet.model import Worker

    if not launch.argv:
        raise FleetError("unusable", "there is no command to start", hint="give the provider a command")
    log = _open_log(launch.log)
    try:
        with _input(launch.stdin) as stdin:
            child = subprocess.Popen(
                launch.argv,
                cwd=launch.cwd,
                env=dict(launch.env),
                stdin=stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        raise _unstarted(launch, error) from None
    finally:
        os.close(log)
    identity = identity_of(child.pid)
    _reap_later(child.wait)
    return Worker(
        id=launch.worker,
        lane=lane,
        pid=child.pid,
        identity=identity,
        handle=launch.env.get(MARKS[0], ""),
    )


def _open_log(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise from_os_error(error, "open the log of a worker") from None


def _input(data: bytes) -> IO[bytes]:
    """A file that nobody else can open and that cannot block its reader, however late or little it reads."""
    if not data:
        return open(os.devnull, "rb")
    import tempfile

    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller's `with` closes it
    file.write(data)
    file.seek(0)
    return file


def _unstarted(launch: Launch, error: OSError | ValueError) -> FleetError:
    program = launch.argv[0]
    if isinstance(error, BlockingIOError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return FleetError("unavailable", f"no room for another process: {error}", hint="run fewer workers at once")
    if not os.path.isdir(launch.cwd):
        return FleetError("unusable", f"{launch.cwd!r} is no directory", hint="give the task a directory that exists")
    why = error.strerror if isinstance(error, OSError) else str(error)
    return FleetError("unusable", f"{program!r} cannot be started: {why}", hint="install it, or correct its path")


def _reap_later(wait: Callable[[], object]) -> None:
    """Have a started process waited for, so that it does not stay a zombie for as long as this process lives."""
    import threading

    try:
        threading.Thread(target=wait, name="reaper", daemon=True).start()
    except RuntimeError:
        pass  # no thread can be had: it stays a zombie until this process ends, which `is_alive` does not count
