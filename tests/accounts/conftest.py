from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.accounts import Machine
from support.fleet_server import FleetServer


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
