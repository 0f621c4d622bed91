from __future__ import annotations

from pathlib import Path

import pytest

from support.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with an empty queue."""
    made = Project(tmp_path / "project", home=tmp_path / "home")
    made.json("init", ".")
    return made
