"""Reads how much memory a batch job may still use from a file that its scheduler keeps."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from agent_fleet.api import Config, Probe, Reading, hookimpl


class Slurm:
    name = "slurm"

    def __init__(self, file: str) -> None:
        self.file = file

    def usable(self) -> str | None:
        return None if os.path.exists(self.file) else "this is no batch job"

    def read(self) -> Iterable[Reading]:
        try:
            with open(self.file, encoding="ascii") as file:
                free, note = float(file.read()), ""
        except (OSError, ValueError) as error:
            free, note = None, str(error)
        yield Reading(quantity="memory_available", value=free, source=self.name, at=time.time(), note=note)


@hookimpl
def fleet_probes(config: Config) -> Iterable[Probe]:
    yield Slurm(str(config.table("slurm").get("file", "/run/job/memory_free")))
