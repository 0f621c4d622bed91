"""Each scenario is put to each system; what came of it is shown as a table with a column for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from support.estate import Estate
from support.fleet_server import FleetServer
from support.systems import PEER, Ours, systems


class Build(Protocol):
    def __call__(self, *, ready: bool = True, left: dict[str, float] | None = None, **numbers: int) -> Ours: ...


@pytest.fixture(params=systems(), ids=lambda kind: kind.name)
def build(
    request: pytest.FixtureRequest, tmp_path: Path, server: FleetServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Build]:
    """Makes machines of one system."""
    monkeypatch.setattr(Estate, "server", server)
    made: list[Ours] = []

    def one(*, ready: bool = True, left: dict[str, float] | None = None, **numbers: int) -> Ours:
        found: Ours = request.param(tmp_path / f"m{len(made)}", **(numbers or {"claude": 1}))
        made.append(found)
        if ready:
            found.ready(left=left)
        return found

    yield one


@pytest.fixture
def one(build: Build) -> Ours:
    """A machine with one account of Claude Code that can work."""
    return build(claude=1)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A scenario that the peer does not do is a finding about the peer, no failure of this suite."""
    outcome = yield
    report = outcome.get_result()
    rows = re.match(r"test((?:_c\d+)+)_", item.name)
    if rows is None or "conformance" not in str(item.path):
        return
    is_peer = "peer" in item.name
    kept = item.config.stash.setdefault(TABLE, {})
    for row in rows[1].upper().split("_")[1:] if call.when == "call" or report.outcome != "passed" else ():
        column = kept.setdefault(row, {})
        name = "peer" if is_peer else "ours"
        # a row of several tests is as good as the worst of them
        column[name] = min(column.get(name, report.outcome), report.outcome, key=WORST.index)
    if is_peer and report.failed:
        report.outcome, report.wasxfail = "skipped", "the peer does it otherwise"


WORST = ("failed", "skipped", "passed")
TABLE: pytest.StashKey[dict[str, dict[str, str]]] = pytest.StashKey()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    table = config.stash.get(TABLE, {})
    if not table or not (PEER or config.option.verbose > 0):
        return
    terminalreporter.section("accounts: scenarios")
    for row in sorted(table, key=lambda name: int(name[1:])):
        found = table[row]
        terminalreporter.write_line(f"{row:<5} ours: {found.get('ours', '-'):<8} peer: {found.get('peer', '-')}")
