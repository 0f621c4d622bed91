"""Modes that differ in what the agent does as a process: silence, children, memory, directories, its end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from agent_fleet.testing.agent.events import begin, finish, result, say
from agent_fleet.testing.agent.script import Script


def silent(script: Script) -> int:
    """Prints nothing for `seconds`, then works."""
    time.sleep(script.number("seconds", 405))
    begin()
    return finish()


def stall(script: Script) -> int:
    """Begins, then prints nothing for `seconds`, then works."""
    begin()
    time.sleep(script.number("seconds", 405))
    return finish()


def ignores_sigterm(script: Script) -> int:
    """Does not mind being asked to end, for `seconds`."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    begin()
    time.sleep(script.number("seconds", 120))
    return finish()


def double_forks(script: Script) -> int:
    """Leaves a grandchild in a session of its own, which lives `seconds`."""
    begin()

    def again() -> None:
        os.setsid()
        _child(lambda: _leave_behind(script))

    os.waitpid(_child(again), 0)
    return finish()


def own_session_child(script: Script) -> int:
    """Leaves a child in a session of its own, which lives `seconds`."""
    begin()

    def apart() -> None:
        os.setsid()
        _leave_behind(script)

    _child(apart)
    return finish()


def own_tmux_server(script: Script) -> int:
    """Leaves a tmux server of its own, which lives `seconds`."""
    import subprocess
    import tempfile

    begin()
    place = tempfile.mkdtemp(prefix="scripted-")
    seconds = f"{script.number('seconds', 60):g}"
    try:  # the socket's name is relative, because the length of a socket's path is limited
        subprocess.run(
            ["tmux", "-f", os.devnull, "-S", "socket", "new-session", "-d", "sleep", seconds],
            cwd=place,
            stdin=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        result("failed", reason=f"tmux cannot be started: {error}")
        return 1
    return finish(os.path.join(place, "socket"))


def leaks_memory(script: Script) -> int:
    """Takes `mb` MiB, 10 at a time, `wait` seconds apart, and keeps them for `seconds`."""
    begin()
    kept = []
    for _ in range(int(script.number("mb", 400, "mb")) // 10):
        kept.append(bytearray(b"\1") * (10 << 20))
        time.sleep(script.number("wait", 0.01))
    say("text", text=f"holding {10 * len(kept)} MiB")
    time.sleep(script.number("seconds", 1))
    return finish()


def fork_burst(script: Script) -> int:
    """Starts `count` processes at once, each of which lives `seconds`."""
    begin()
    started = 0
    for _ in range(int(script.number("count", 500, "count"))):
        try:
            _child(lambda: _leave_behind(script))
        except OSError:
            break
        started += 1
    return finish(f"started {started} processes")


def writes_result_late(script: Script) -> int:
    """Ends at once; its result comes `seconds` later, from a child."""
    begin()

    def late() -> None:
        time.sleep(script.number("seconds", 0.05))
        finish("it came late")

    _child(late)
    return 0


def changes_cwd(script: Script) -> int:
    """Goes to the directory `to`, and works there."""
    begin()
    os.chdir(script.text("to", "/"))
    return finish(f"worked in {os.getcwd()}")


def dirty_worktree(script: Script) -> int:
    """Leaves a half-written file and gives up."""
    begin()
    with open(script.text("file", "half-done.txt"), "w", encoding="utf-8") as output:
        output.write("half of it")
    result("failed", reason="gave up half-way", text="half-done.txt is not finished")
    return 1


def crash(script: Script) -> int:
    """Is ended by `signal`."""
    import resource

    begin()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), getattr(signal, script.text("signal", "SIGKILL"), signal.SIGKILL))
    time.sleep(script.number("seconds", 5))
    return 1


def _child(act: Callable[[], object]) -> int:
    """Fork; the child acts and ends, whatever happens."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _act_and_end(act)
    return pid


def _act_and_end(act: Callable[[], object]) -> NoReturn:
    try:
        act()
    finally:
        os._exit(0)


def _leave_behind(script: Script) -> None:
    time.sleep(script.number("seconds", 60))
