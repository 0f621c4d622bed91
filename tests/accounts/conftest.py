from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.accounts import Machine
from support.estate import Estate
from support.fleet_server import FleetServer
from support.yard import Yard


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetServer]:
    found = FleetServer(Machine(tmp_path_factory.mktemp("server"), {}).environment())
    yield found
    found.close()


@pytest.fixture
def top(tmp_path: Path, server: FleetServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose machines run their commands in forks of one process."""
    monkeypatch.setattr(Machine, "server", server)
    return tmp_path


@pytest.fixture
def yard(top: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> Yard:
    monkeypatch.setattr(Estate, "server", server)
    found = Yard(top, claude=2)
    found.ready(left={"claude-1": 80.0, "claude-2": 80.0})
    return found
