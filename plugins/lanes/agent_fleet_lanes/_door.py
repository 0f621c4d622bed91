"""What a window runs first: it becomes the worker, exactly as its launch says, whatever the window added on the way.

Run as `python -I -S _door.py <directory>`, with `launch.json`, `stdin` and the named pipe `answer` there. It writes its pid to the
pipe, and after that nothing if it became the worker, or why it could not. It does nothing if nobody waits for the answer.
The window stays the terminal that controls the worker, `/dev/tty`, and a descriptor of it stays open: a terminal that nobody has
open counts as closed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any


def main(directory: str) -> None:
    answer = _pick_up(directory)
    if answer is None:
        return
    pipe, launch = answer
    os.write(pipe, b"%d\n" % os.getpid())
    what = launch["cwd"]
    try:
        log = os.open(launch["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        source = os.open(os.path.join(directory, "stdin"), os.O_RDONLY | os.O_CLOEXEC)
        os.chdir(launch["cwd"])
        what = launch["argv"][0]
        _reset_signals()
        window = _window()
        for target, descriptor in enumerate((source, log, log)):
            os.dup2(descriptor, target)
        for descriptor in range(3, 256):
            if descriptor not in (pipe, window):
                _close(descriptor)
        os.execvpe(what, launch["argv"], launch["env"])  # noqa: S606  no shell is what is wanted
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        os.write(pipe, f"{why} ({what})".encode("utf-8", "replace"))


def _pick_up(directory: str) -> tuple[int, dict[str, Any]] | None:
    """The pipe and the launch; None if nobody waits, or somebody was here before. Taking is a rename, which only one can do."""
    try:
        pipe = os.open(os.path.join(directory, "answer"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        taken = os.path.join(directory, f"taken-{os.getpid()}")
        os.rename(os.path.join(directory, "launch.json"), taken)
        with open(taken, encoding="utf-8") as file:
            return pipe, json.load(file)
    except (OSError, ValueError):
        return None


def _window() -> int:
    try:
        window = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError as error:
        raise OSError(error.errno, "its window is no terminal") from None
    os.set_inheritable(window, True)
    return window


def _reset_signals() -> None:
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None) and number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass


if __name__ == "__main__":
    main(sys.argv[1])
