"""The fixtures. Named by `agent_fleet.testing`, so that a conftest names that alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_fleet.config import load
from agent_fleet.model import Board
from agent_fleet.plugins import Plugins
from agent_fleet.testing.board import new_board
from agent_fleet.testing.project import FleetProject


@pytest.fixture
def plugins() -> Plugins:
    """The plugins that come with fleet, configured by nothing."""
    return Plugins(load("/", queue_dir="", environ={}), third_party=False)


@pytest.fixture
def board() -> Callable[..., Board]:
    """Makes boards; see `new_board`."""
    return new_board


@pytest.fixture
def fleet_project(tmp_path: Path) -> Iterator[FleetProject]:
    """A project with an empty queue; what its runs leave behind is ended."""
    project = FleetProject(tmp_path / "fleet")
    yield project
    project.close()
