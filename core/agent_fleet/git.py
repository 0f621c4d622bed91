"""Asking git: never by way of a shell, and with none of the hooks, locks and variables that would make the answer another's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from agent_fleet.errors import FleetError

# A repository's settings may name programs to run at every turn; those are for its owner's own commands, not for ours.
_PLAIN = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false")
_SECONDS = 60.0


class Answer(NamedTuple):
    """What git said. Paths that are no UTF-8 stand in `out` as surrogate escapes."""

    status: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.status == 0

    @property
    def complaint(self) -> str:
        """The first line of what git complained about."""
        return next((line for line in self.err.splitlines() if line.strip()), f"git exited {self.status}")


def ask(directory: str, *arguments: str, timeout: float = _SECONDS, keep: Sequence[int] = ()) -> Answer:
    """Run git in `directory`; it and what it starts inherit the descriptors in `keep`.

    `git status` and its like take no lock. Raises FleetError (`unavailable`) if there is no git, or it takes longer than
    `timeout` seconds: then it is ended with all that it had started.
    """
    command = ["git", *(word for setting in _PLAIN for word in ("-c", setting)), *arguments]
    try:
        child = subprocess.Popen(
            command,
            cwd=directory,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(keep),
        )
    except OSError as error:
        raise FleetError(
            "unavailable",
            f"git cannot be run in {directory}: {error.strerror}",
            hint="install git, or look at that path",
        ) from None
    with child:
        try:
            out, err = child.communicate(timeout=timeout)
        except BaseException as error:
            _end(child)
            if isinstance(error, subprocess.TimeoutExpired):
                what = " ".join(arguments[:2])
                raise FleetError(
                    "unavailable", f"`git {what}` took longer than {timeout:.0f} s", hint="look at the repository"
                ) from None
            raise
    return Answer(child.returncode, _text(out), err.decode("utf-8", "replace"))


def tell(directory: str, *arguments: str, timeout: float = _SECONDS, keep: Sequence[int] = ()) -> str:
    """As `ask`, for what must succeed; returns what git said, without the last line end. Raises FleetError (`unavailable`)."""
    answer = ask(directory, *arguments, timeout=timeout, keep=keep)
    if not answer.ok:
        raise FleetError(
            "unavailable",
            f"git refused `{' '.join(arguments[:2])}` in {directory}: {answer.complaint}",
            hint="mend what git says, then try again",
        )
    return answer.out.removesuffix("\n")


def environment() -> dict[str, str]:
    """This process's environment without what would lead git to another repository, to a question or to another language."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.communicate()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
