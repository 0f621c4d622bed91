"""Whether processes of runs that are over are still alive, and ending them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator

from agent_fleet.api import Check, Config, Finding, hookimpl, is_alive, marked, stop_tree

GRACE = 5.0


class Leftovers:
    """Looks at the runs below the queue directory `directory`: only what carries the mark of one of them is ever touched."""

    name = "leftovers"

    def __init__(self, directory: str) -> None:
        self._runs = os.path.join(directory, "runs")

    def run(self, root: str) -> Iterable[Finding]:
        """A finding for every run without a driver that has processes; one that says so if there is none."""
        del root
        found = False
        for run, mark, ended, launched in self._without_driver():
            left = marked(mark)
            if not left:
                continue
            found = True
            pids = ", ".join(str(proc.pid) for proc in left[:10])
            if ended:
                text = f"{run} is over, but {len(left)} of its processes are alive: {pids}"
                yield Finding(level="fault", text=text, hint="`fleet doctor --fix` ends them")
            else:
                text = f"{'windows' if launched else 'workers'} of {run} go on without a driver: {len(left)} processes"
                takes = "" if launched else "`fleet run` takes them over, "
                yield Finding(level="warning", text=text, hint=f"{takes}`fleet stop` ends them")
        if not found:
            yield Finding(level="ok", text="no process of an earlier run is alive")

    def mend(self, root: str) -> Iterable[Finding]:
        """End what runs that are over have left behind. Workers that a next run can take over are left to it."""
        del root
        for run, mark, ended, _ in self._without_driver():
            if not ended or not marked(mark):
                continue
            stop_tree("", mark, GRACE)
            if marked(mark):
                yield Finding(
                    level="fault", text=f"processes of {run} could not be ended", hint="look at them yourself"
                )
            else:
                yield Finding(level="ok", text=f"mended: ended what {run} had left behind")

    def _without_driver(self) -> Iterator[tuple[str, str, bool, bool]]:
        """(run, mark, whether it is over, whether a person launched it) of every run whose driver is certainly not at work."""
        try:
            names = sorted(os.listdir(self._runs))
        except OSError:
            return
        for name in names:
            try:
                with open(os.path.join(self._runs, name, "driver.json"), encoding="utf-8") as file:
                    record = json.load(file)
                mark, who, ended = str(record["mark"]), str(record["identity"]), "ended" in record
                launched = "command" in (record.get("options") or {})
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if mark and (ended or is_alive(who) is False):
                yield name, mark, ended, launched


@hookimpl
def fleet_checks(config: Config) -> Iterable[Check]:
    yield Leftovers(config.queue_dir)
