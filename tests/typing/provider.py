"""Workers that are sessions of Acme Coder, which reads its prompt and prints one line for each step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from agent_fleet.api import Event, Exit, Job, Launch, Outcome, Provider, Reader, hookimpl


class AcmeReader:
    def __init__(self) -> None:
        self.last = ""

    def feed(self, line: str) -> Iterable[Event]:
        self.last = line.strip() or self.last
        return [Event(kind="text", text=self.last)] if line.strip() else []

    def outcome(self, exit: Exit) -> Outcome:
        if exit.code == 0:
            return Outcome(kind="done", result=self.last)
        return Outcome(kind="failed", reason=f"it ended with status {exit.code}: {self.last}")


class Acme:
    name = "acme"

    def usable(self) -> str | None:
        return None if shutil.which("acme") else "there is no program acme on the path"

    def launch(self, job: Job) -> Launch:
        return Launch(
            worker=job.worker,
            argv=("acme", "run", "--model", job.task.model or "small"),
            cwd=job.cwd,
            env=job.env,
            log=os.path.join(job.scratch, "acme.log"),
            stdin=job.prompt.encode(),
        )

    def reader(self, job: Job) -> Reader:
        del job
        return AcmeReader()


@hookimpl
def fleet_providers() -> Iterable[Provider]:
    yield Acme()
