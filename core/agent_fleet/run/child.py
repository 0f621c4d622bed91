"""Starting the agent below its keeper, so that it cannot outlive it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NamedTuple

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36

Prctl = Callable[[int, int], object]


class Program(NamedTuple):
    """What to run, where, and its whole environment; `doors` are the control groups' files that it enters by first."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    doors: tuple[str, ...] = ()


def become_subreaper() -> None:
    """Have every orphan below us given to us instead of to init (Linux only; a no-operation elsewhere)."""
    _prctl()(PR_SET_CHILD_SUBREAPER, 1)


def start_child(program: Program, *, stdin: str, output: int, terminal: bool = False) -> tuple[int, str]:
    """Start a program in a session of its own; (pid, "") or (0, why it cannot be started).

    It reads the file `stdin` (empty: nothing), writes both outputs to the descriptor `output`, finds its program on the
    PATH of its environment, and, on Linux, is killed by the kernel when this thread ends. If `output` is a `terminal` it
    becomes the session's own, and is what is read where there is no file.
    """
    bind = _binding(_prctl(), os.getpid())
    try:
        source = output if terminal and not stdin else os.open(stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        said, saying = os.pipe()
        pid = os.fork()
    except OSError as error:
        return 0, f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)
    if pid == 0:
        _become(program, (source, output, output), saying, bind, terminal)
    os.close(saying)
    if source != output:
        os.close(source)
    with open(said, "rb") as file:
        trouble = file.read().decode("utf-8", "replace")
    if trouble:
        os.waitpid(pid, 0)
        return 0, trouble
    return pid, ""


def _become(program: Program, streams: tuple[int, ...], saying: int, bind: Callable[[], bool], terminal: bool) -> None:
    """In the child: turn into the program, or say why not and end. Never returns."""
    what = program.cwd
    try:
        _reset_signals()
        os.setsid()
        if not bind():
            os._exit(127)
        if terminal:
            _control(streams[1])
        _enter(program.doors)
        for target, source in enumerate(streams):
            os.dup2(source, target)
        os.chdir(program.cwd)
        what = program.argv[0]
        os.execvpe(program.argv[0], program.argv, program.env)  # noqa: S606  no shell is what is wanted
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        os.write(saying, f"{why} ({what})".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _control(terminal: int) -> None:
    """Make a terminal the one that controls this session."""
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def _enter(doors: tuple[str, ...]) -> None:
    for door in doors:
        try:
            handle = os.open(door, os.O_WRONLY | os.O_CLOEXEC)
            os.write(handle, b"0")  # 0 is the writer itself, in v1 and v2
            os.close(handle)
        except OSError:
            pass  # the keeper's watchdog holds the ceilings where the kernel does not


def _reset_signals() -> None:
    """What is ignored stays ignored in a new program, and Python ignores more than a program expects."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if signal.getsignal(number) != signal.SIG_DFL and number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _binding(prctl: Prctl, parent: int) -> Callable[[], bool]:
    def bind() -> bool:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        return os.getppid() == parent  # if it ended before prctl, nobody will end us

    return bind


def _prctl() -> Prctl:
    if not sys.platform.startswith("linux"):
        return lambda _option, _value: None
    import ctypes

    call = ctypes.CDLL(None).prctl
    call.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    return lambda option, value: call(option, value, 0, 0, 0)
