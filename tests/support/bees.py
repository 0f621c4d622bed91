"""A third-party provider whose sessions claim for themselves, and lanes that take them: what a crew does without a model.

`BEE` in the environment says what a session does: `work` until nothing can be claimed; `once`, one task and then stay;
`park`, block every task; `idle`, claim nothing; `quit` at once; `limit`, meet a limit unless the file `day` is there;
`linger`, work and stay; `wall`, meet a limit with a task in hand unless `day` is there, have the hook tell it, and stay.
While the file `wait` is there, nobody reports.
"""

from __future__ import annotations

import os
from pathlib import Path

from support.distributions import install
from support.runs import Site

PROGRAM = """
import json, os, subprocess, sys, time
here, mode, name = os.environ["BEE_HOME"], os.environ["BEE"], os.environ["FLEET_AGENT"]
there = lambda file: os.path.exists(os.path.join(here, file))
def fleet(*words):
    code = "import sys; from agent_fleet.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words, "--json"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)
def stay():
    while True:
        print("still here", flush=True)
        time.sleep(0.5)
with open(os.path.join(here, "pids"), "a") as file:
    file.write(f"{os.getpid()}\\n")
with open(os.path.join(here, "env-" + name), "w") as file:
    json.dump(dict(os.environ), file)
if mode == "idle":
    stay()
if mode == "quit":
    sys.exit(0)
if mode == "limit" and not there("day"):
    print("LIMIT", flush=True)
    sys.exit(1)
while True:
    status, told = fleet("claim", name + "-1")
    if status:
        break
    while there("wait"):
        if "FLEET_TURNS" in os.environ and not there("turned"):
            open(os.path.join(here, "turned"), "w").close()
            with open(os.environ["FLEET_TURNS"], "a") as file:
                file.write("{}\\n")
        print("waits", flush=True)
        time.sleep(0.1)
    if mode == "wall" and not there("day"):
        with open(os.environ["FLEET_TURNS"], "a") as file:
            file.write("LIMIT\\n")
        stay()
    mine = (told["id"], "--agent", name + "-1")
    if mode == "park":
        fleet("block", *mine, "--reason", "Sign-in required: https://Bank.example/x")
    else:
        fleet("done", *mine, "--result", f"done by {name}")
    if mode == "once":
        stay()
if mode == "linger":
    stay()
print("OVER", flush=True)
"""

MODULE = """
    import os, sys, time
    from agent_fleet.api import Event, Hold, Launch, Outcome, Usage, hookimpl, start_detached

    class Reader:
        def __init__(self):
            self.limit = False
        def feed(self, line):
            self.limit = self.limit or line == "LIMIT"
            return (Event(kind="text", text=line),)
        def outcome(self, exit):
            usage = Usage(input=7, output=3, turns=1, money=0.5, models=("bee",))
            if self.limit:
                return Outcome(kind="limit", reason="out of honey", resets_at=time.time() + 3, usage=usage)
            kind = "done" if exit.cause == "exited" and exit.code == 0 else "unknown"
            return Outcome(kind=kind, result="a day's work", usage=usage)

    class Bee:
        name = "bee"
        most_seats = None
        def usable(self):
            return None
        def launch(self, job):
            return Launch(worker=job.worker, argv=("sh", "-c", "echo alone"), cwd=job.cwd, env=dict(job.env), log="")
        def reader(self, job):
            return Reader()
        def crew(self, crew):
            argv = (sys.executable, os.path.join(os.environ["BEE_HOME"], "bee.py"))
            return Launch(worker=crew.worker, argv=argv, cwd=crew.cwd, env=dict(crew.env), log="")
        def crew_reader(self, crew):
            return Reader()

    class Hive:
        name = "hive"
        limit = None
        foreground = False
        seats = 2
        def usable(self):
            return None
        def start(self, launch):
            worker = start_detached(launch, lane=self.name)
            if self.name == "deadly-hive" and not os.path.exists(os.environ["BEE_HOME"] + "/died"):
                open(os.environ["BEE_HOME"] + "/died", "w").close()
                os.kill(os.getpid(), 9)
            return worker
        def alive(self, worker):
            return None
        def stop(self, worker, grace):
            return False

    class DeadlyHive(Hive):
        name = "deadly-hive"

    class Curfew:
        name = "curfew"
        def ceiling(self, board):
            return None
        def hold(self, task, board):
            if "late" in task.target and not os.path.exists(os.environ["BEE_HOME"] + "/day"):
                return Hold(source="curfew", why="it is night", until=time.time() + 4)
            return None

    @hookimpl
    def fleet_providers():
        return [Bee()]

    @hookimpl
    def fleet_lanes():
        return [Hive(), DeadlyHive()]

    @hookimpl
    def fleet_policies():
        return [Curfew()]
"""


class Bees:
    """The distribution, installed for one site; `env` makes a command see it, and says what sessions do."""

    def __init__(self, site: Site, root: Path, mode: str = "work") -> None:
        groups = {"providers": "bee", "lanes": "hive", "policies": "curfew"}
        install(
            root / "site",
            "agent-fleet-bees",
            modules={"bees.py": MODULE},
            entry_points={f"agent_fleet.{group}": {name: "bees"} for group, name in groups.items()},
        )
        self.home = root / "bees"
        self.home.mkdir()
        (self.home / "bee.py").write_text(PROGRAM)
        self.env = {
            "PYTHONPATH": os.pathsep.join([str(root / "site"), site.environment()["PYTHONPATH"]]),
            "BEE_HOME": str(self.home),
            "BEE": mode,
        }

    @property
    def pids(self) -> list[int]:
        """Every session that has begun."""
        path = self.home / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def have(self, name: str) -> None:
        """Put a file there that sessions look at."""
        (self.home / name).touch()

    def lose(self, name: str) -> None:
        (self.home / name).unlink()
