from __future__ import annotations

from pathlib import Path

import pytest

from agent_fleet.queue.store import Queue
from support.project import Project, new_queue


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with an empty queue."""
    made = Project(tmp_path / "project", home=tmp_path / "home")
    made.json("init", ".")
    return made


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    """An empty queue in no project."""
    return new_queue(tmp_path / ".agents")
