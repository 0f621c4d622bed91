"""What the crews of all providers share: a crew as the job that readers know, and the judgement of a session that nobody reads."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

from agent_fleet.api import Crew, Event, Exit, Job, Outcome, Task
from agent_fleet_providers._endings import by_cause, by_signal, status

WRITE: Final = """\
if [ -n "$FLEET_TURNS" ]; then
  { if [ "$#" -gt 0 ]; then printf %s "$1"; else cat; fi | tr -d '\\n'; echo; } >> "$FLEET_TURNS"
fi
"""
"""What a hook was told, by an argument or on its input, as one more line of the file that the driver looks at.

A fixed text: the path comes by the environment, and what was told is never a part of a command.
"""


def notifier() -> list[str]:
    """The command of `WRITE`, for a program that gives what it tells as one more argument."""
    return ["sh", "-c", WRITE, "turn"]


def hook() -> str:
    """The command of `WRITE` as one line for a program that runs it by a shell, and tells on its input."""
    return shlex.join(["sh", "-c", WRITE, "turn"])


def as_job(crew: Crew) -> Job:
    """A crew as its reader sees it: a job without a task, whose answer needs no verdict."""
    return Job(
        task=Task(id="", target=""),
        worker=crew.worker,
        prompt=crew.brief,
        nonce="",
        cwd=crew.cwd,
        env=crew.env,
        scratch=crew.scratch,
        account=crew.account,
    )


class Unread:
    """Judges a session on a terminal: what it prints is a picture for a person, so that only its end tells something."""

    def feed(self, line: str) -> Iterable[Event]:
        del line
        return ()

    def outcome(self, ended: Exit) -> Outcome:
        if ended.cause == "exited" and ended.code == 0:
            return Outcome(kind="done", result="the session was ended at its terminal")
        return by_cause(ended) or by_signal(ended) or Outcome(kind="failed", reason=status(ended))
