"""Fixtures that many directories of tests share."""

from __future__ import annotations

from collections.abc import Iterator
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
def queue(tmp_path: Path) -> Iterator[Queue]:
    """An empty queue in no project."""
    made = new_queue(tmp_path / ".agents")
    yield made
    made.journal.close()
