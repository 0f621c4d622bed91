"""Jobs for tests of providers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_fleet.api import Config, Job, Task
from agent_fleet.config import load

NONCE = "n7x3q9k2"


def settings(root: Path, toml: str = "") -> Config:
    """The configuration of a project whose own file says this, and nothing else."""
    queue = root / ".agents"
    queue.mkdir(parents=True, exist_ok=True)
    (queue / "config.toml").write_text(toml, encoding="utf-8")
    return load(str(root), queue_dir=str(queue), environ={})


def job(
    root: Path, *, prompt: str = "do it", env: Mapping[str, str] | None = None, session: str = "", **task: Any
) -> Job:
    """One attempt at one task, in `root`, with its scratch directory beside."""
    for name in ("cwd", "scratch"):
        (root / name).mkdir(parents=True, exist_ok=True)
    return Job(
        task=Task(**{"id": "t1", "target": "look at it", **task}),
        worker="w1",
        prompt=prompt,
        nonce=NONCE,
        cwd=str(root / "cwd"),
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})},
        scratch=str(root / "scratch"),
        session=session,
    )
