"""A third-party distribution for tests of a run: a machine that a file describes, and providers and lanes that break."""

from __future__ import annotations

import json
import os
from pathlib import Path

from support.distributions import install
from support.runs import Site

GIB = 1 << 30

MODULE = """
    import json, os, time
    from agent_fleet.api import Event, Exit, Launch, Outcome, Reading, hookimpl, start_detached

    class Machine:
        name = "file"
        def usable(self):
            return None
        def read(self):
            with open(os.environ["GADGET_MACHINE"]) as file:
                return [Reading(quantity=name, value=value, source="file", at=time.time(), note="as written")
                        for name, value in json.load(file).items()]

    class Reader:
        def __init__(self, breaks):
            self.breaks = breaks
        def feed(self, line):
            if self.breaks == "feed":
                raise RuntimeError("feed is broken")
            return ()
        def outcome(self, exit):
            if self.breaks == "outcome":
                raise RuntimeError("outcome is broken")
            return Outcome(kind="done", result="seen")

    class Fragile:
        def __init__(self, breaks):
            self.name = "fragile-" + breaks
            self.breaks = breaks
        def usable(self):
            return None
        def launch(self, job):
            if self.breaks == "launch":
                raise RuntimeError("launch is broken")
            return Launch(worker=job.worker, argv=("/bin/sh", "-c", "echo x"), cwd=job.cwd, env=dict(job.env), log="")
        def reader(self, job):
            if self.breaks == "reader":
                raise RuntimeError("reader is broken")
            return Reader(self.breaks)

    class Verbose:
        # runs the text of a task by a shell, and is expected to say something now and then
        name = "verbose"
        def usable(self):
            return None
        def launch(self, job):
            return Launch(worker=job.worker, argv=("/bin/sh", "-c", job.task.target), cwd=job.cwd, env=dict(job.env), log="")
        def reader(self, job):
            return self
        def feed(self, line):
            return (Event(kind="text", text=line),)
        def outcome(self, exit):
            kind = "done" if exit.cause == "exited" else "timeout"
            return Outcome(kind=kind, reason=f"it ended by {exit.cause}", result="seen")

    class Trap:
        name = "trap"
        limit = None
        foreground = False
        def usable(self):
            return None
        def start(self, launch):
            start_detached(launch, lane=self.name)
            raise RuntimeError("start is broken")
        def alive(self, worker):
            return None
        def stop(self, worker, grace):
            return False

    class Deadly:
        name = "deadly"
        limit = None
        foreground = False
        def usable(self):
            return None
        def start(self, launch):
            worker = start_detached(launch, lane=self.name)
            if not os.path.exists(os.environ["GADGET_MACHINE"] + ".died"):
                open(os.environ["GADGET_MACHINE"] + ".died", "w").close()
                os.kill(os.getpid(), 9)
            return worker
        def alive(self, worker):
            return None
        def stop(self, worker, grace):
            return False

    class Curfew:
        name = "curfew"
        def ceiling(self, board):
            return None
        def hold(self, task, board):
            from agent_fleet.api import Hold
            if "late" in task.title and not os.path.exists(os.environ["GADGET_MACHINE"] + ".day"):
                return Hold(source="curfew", why="it is night", until=time.time() + 1.5)
            return None

    @hookimpl
    def fleet_probes():
        return [Machine()]

    @hookimpl
    def fleet_providers():
        return [Verbose()] + [Fragile(breaks) for breaks in ("launch", "reader", "feed", "outcome")]

    @hookimpl
    def fleet_lanes():
        return [Trap(), Deadly()]

    @hookimpl
    def fleet_policies():
        return [Curfew()]
"""


class Gadgets:
    """The distribution, installed for one site; `env` makes a command see it."""

    def __init__(self, site: Site, root: Path) -> None:
        groups = {"capacity": "file", "providers": "gadgets", "lanes": "trap", "policies": "curfew"}
        install(
            root / "site",
            "agent-fleet-gadgets",
            modules={"gadgets.py": MODULE},
            entry_points={f"agent_fleet.{group}": {name: "gadgets"} for group, name in groups.items()},
        )
        self.machine = root / "machine.json"
        self.env = {
            "PYTHONPATH": os.pathsep.join([str(root / "site"), site.environment()["PYTHONPATH"]]),
            "GADGET_MACHINE": str(self.machine),
        }
        self.set()

    def set(self, **changes: float | None) -> None:
        """Describe the machine: 8 idle cores and 16 GiB, most of it free, but for `changes`."""
        machine: dict[str, float | None] = {
            "cores": 8,
            "load1": 0.1,
            "cpu_idle": 99.0,
            "memory_total": 16 * GIB,
            "memory_available": 12 * GIB,
            "memory_pressure_full": 0.0,
        }
        temporary = self.machine.with_suffix(".new")
        temporary.write_text(json.dumps({**machine, **changes}))
        temporary.rename(self.machine)
