"""Tasks that are a shell command, and command-line agents described by an `[agents.NAME]` table.

A command is written to a file and the shell is given the file, so its text is never quoted and never
too long for an argument.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from agent_fleet.api import Config, Event, Exit, FleetError, Job, Launch, Outcome, Provider, hookimpl
from agent_fleet_providers import NAMES
from agent_fleet_providers._endings import by_cause, by_signal, status
from agent_fleet_providers._output import Tail, one_line
from agent_fleet_providers._scratch import write_private
from agent_fleet_providers._template import Template

SHELL = "/bin/sh"


class Command:
    """Runs the task's target as it is with `/bin/sh`; its exit status is the verdict."""

    name = "command"

    def usable(self) -> str | None:
        return None if os.access(SHELL, os.X_OK) else f"{SHELL} cannot be run"

    def launch(self, job: Job) -> Launch:
        """The shell on a private file. Raises `refused` for text from outside: it describes, it is never run."""
        task = job.task
        if task.trust == "outside":
            raise FleetError(
                "refused",
                f"{task.id} is a command that came from outside, and such text is never run",
                hint="read it, and if you want it add it as your own task",
            )
        if not task.target.strip() or "\0" in task.target:
            raise FleetError(
                "bad_input",
                f"{task.id} is no command: it is empty or holds a NUL",
                hint="give the command as the target",
            )
        file = write_private(os.path.join(job.scratch, "task.sh"), task.target + "\n")
        return Launch(
            worker=job.worker,
            argv=(SHELL, file),
            cwd=job.cwd,
            env=dict(job.env),
            log=os.path.join(job.scratch, "output.log"),
            speaks=False,
        )

    def reader(self, _job: Job) -> CommandReader:
        return CommandReader()


class CommandReader:
    """Keeps the last lines of a command's output; they are the evidence."""

    def __init__(self) -> None:
        self._tail = Tail(lines=40, characters=8192)

    def feed(self, line: str) -> Iterable[Event]:
        text = self._tail.add(line)
        return (Event(kind="text", text=one_line(text)),) if text.strip() else ()

    def outcome(self, ended: Exit) -> Outcome:
        said = self._said()
        cut_short = by_cause(ended) or by_signal(ended, under_shell=True)
        if cut_short is not None:
            return replace(cut_short, result=said)
        if ended.code == 0:
            return Outcome(kind="done", result=f"exited 0 after {ended.seconds:.1f} s\n{said or 'it printed nothing'}")
        if ended.code is None:
            return Outcome(kind="unknown", reason=status(ended), result=said)
        last = one_line(said.rpartition("\n")[2], 160)
        return Outcome(kind="failed", reason=f"{status(ended)}: {last}" if last else status(ended), result=said)

    def _said(self) -> str:
        text = self._tail.text
        return f"(earlier output is in the log)\n{text}" if self._tail.cut and text else text


@hookimpl
def fleet_providers(config: Config) -> Iterable[Provider]:
    """`command`, and one provider for each `[agents.NAME]` table."""
    taken = sorted(set(config.agents) & set(NAMES))
    if taken:
        raise FleetError(
            "bad_config",
            f"[agents.{taken[0]}] takes the name of a provider that is built in",
            hint="choose another name for that table",
        )
    yield Command()
    for name in sorted(config.agents):
        yield Template(name, config.agents[name])
