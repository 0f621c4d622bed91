"""What the contracts of launches share: a job with an environment of its own, and what must become of that environment."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from agent_fleet.model import Job, Need, Task
from agent_fleet.testing.contract import must

CANARY = "FLEET_CHECK_CANARY"


def new_job(place: Path, text: str, *, need: Need = "agent", task: Task | None = None) -> Job:
    """One attempt whose prompt holds this text (for `command`, its target is the text); `place` gets its directories.

    Its environment is whole, is not that of this process, and cannot be changed.
    """
    needle = f"needle-{uuid.uuid4().hex}"
    for each in ("project", "scratch"):
        (place / each).mkdir(parents=True, exist_ok=True)
    whole = f"{text}\n{needle}"
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place),
        "LANG": "C.UTF-8",
        "AGENT_ROOT": str(place / "project"),
        "AGENT_DIR": ".agents",
        "FLEET_RUN": "mark",
        "FLEET_WORKER": "mark-w1",
        "FLEET_AGENT": "r1-w1",
        "FLEET_TASK": "t1",
        "FLEET_GENERATION": "1",
        "A_VARIABLE": "a b\n'\"$(id)",
    }
    target = whole if need == "command" else "Do it."
    return Job(
        task=task or Task(id="t1", target=target, need=need, model="small"),
        worker="r1-w1",
        prompt=whole,
        nonce=needle.rpartition("-")[2][:16],
        cwd=str(place / "project"),
        env=MappingProxyType(env),
        scratch=str(place / "scratch"),
    )


def check_environment(name: str, given: Mapping[str, str], env: Mapping[str, str]) -> None:
    """The environment of a launch is the given one and more, and nothing of this process."""
    for key, value in env.items():
        sound = isinstance(key, str) and isinstance(value, str) and key and "=" not in key and "\0" not in key + value
        must(sound, f"{name} sets the variable {key!r}, which no process can be given")
    must(CANARY not in env, f"{name} mixes the environment of this process into the worker's")
    gone = sorted(key for key, value in given.items() if env.get(key) != value)
    marks = [key for key in gone if key.startswith(("FLEET_", "AGENT_"))]
    must(not marks, f"{name} takes {', '.join(marks)} away, by which fleet and the agent find the lease and the worker")
    must(not gone, f"{name} does not pass on {', '.join(gone)}; the environment of a launch is the whole of it")
