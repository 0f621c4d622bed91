"""Measuring by way of plugins: which probes are asked, what a bad one costs, and what the command shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar, cast

import pytest

from agent_fleet import config
from agent_fleet.commands.machine import human, payload, value_text
from agent_fleet.cost import CostBook
from agent_fleet.errors import FleetError
from agent_fleet.machine import Machine, measure
from agent_fleet.model import Quantity, Reading
from agent_fleet.plugins import CAPACITY, Family, Offer, Origin, Plugins
from agent_fleet.protocols import Probe
from support.hosts import V2, Host

T = TypeVar("T")


class Raises:
    name = "raises"

    def usable(self) -> str | None:
        return None

    def read(self) -> Iterable[Reading]:
        yield Reading(quantity="cores", value=1.0, source="raises", at=1.0)
        raise RuntimeError("broken on purpose")


class Nonsense:
    name = "nonsense"

    def usable(self) -> str | None:
        return None

    def read(self) -> Iterable[Reading]:
        return ["cores"]  # type: ignore[list-item]  # what a careless plugin may do


class Chosen(Plugins):
    """Plugins whose probes are these; everything else is as it is."""

    def __init__(self, settings: config.Config, probes: Iterable[Probe]) -> None:
        super().__init__(settings, third_party=False)
        self.probes = [Offer(probe.name, probe, Origin("capacity", probe.name)) for probe in probes]

    def all(self, family: Family[T]) -> list[Offer[T]]:
        assert family.name == CAPACITY.name
        return cast("list[Offer[T]]", self.probes)


def settings(tmp_path: Path, **environ: str) -> config.Config:
    return config.load(str(tmp_path), queue_dir=str(tmp_path / ".agents"), environ=environ)


def measured(tmp_path: Path, host: Host, *more: Probe, running: int = 0) -> Machine:
    host.build(tmp_path / "host")
    probes = [*host.probes(tmp_path / "host"), *more]
    wishes = settings(tmp_path)
    book = CostBook(str(tmp_path / "costs.json"))
    return measure(Chosen(wishes, probes), wishes, provider="claude", lane="headless", running=running, book=book)


def test_all_usable_probes_are_asked_and_the_others_named_with_a_reason(tmp_path: Path) -> None:
    seen = measured(tmp_path, Host(mounts=(V2,), groups="0::/\n"))
    assert seen.probes == ("cgroup2", "procfs")
    assert set(seen.skipped) == {"cgroup1"}
    assert (seen.capacity.workers, seen.capacity.binding.name) == (7, "cores")


@pytest.mark.parametrize("bad", [Raises(), Nonsense()])
def test_a_probe_that_is_broken_costs_only_its_own_readings(bad: Probe, tmp_path: Path) -> None:
    seen = measured(tmp_path, Host(), bad)
    assert seen.capacity.workers == 7
    assert any(bad.name in warning for warning in seen.warnings)


def test_what_a_probe_could_not_tell_is_named_where_another_stands_in(tmp_path: Path) -> None:
    host = Host(mounts=(V2,), groups="0::/\n", files={"sys/fs/cgroup/memory.max": "<dir>"})
    seen = measured(tmp_path, host)
    assert any("memory_available" in warning and "cgroup2" in warning for warning in seen.warnings)


def test_a_named_probe_that_is_of_no_use_here_is_refused(tmp_path: Path) -> None:
    other = "procfs" if sys.platform == "darwin" else "macos"
    wishes = settings(tmp_path, FLEET_CAPACITY_PROBES=other)
    with pytest.raises(FleetError) as caught:
        measure(Plugins(wishes, third_party=False), wishes, provider="p", lane="l", running=0)
    assert caught.value.code == "unusable"


def test_a_named_probe_that_nobody_offers_is_refused(tmp_path: Path) -> None:
    wishes = settings(tmp_path)
    with pytest.raises(FleetError) as caught:
        measure(Plugins(wishes, third_party=False), wishes, provider="p", lane="l", running=0, probes=("sonar",))
    assert caught.value.code == "unknown_plugin"


def test_measured_costs_replace_the_default(tmp_path: Path) -> None:
    book = CostBook(str(tmp_path / "costs.json"))
    book.record("claude", "headless", 3 << 30, 0.1)
    seen = measured(tmp_path, Host())
    assert (seen.cost.basis, seen.capacity.workers, seen.capacity.binding.name) == ("remembered", 6, "memory")


def test_the_answer_for_people_shows_unknown_and_never_zero(tmp_path: Path) -> None:
    seen = measured(tmp_path, Host(files={"proc/meminfo": "<dir>"}))
    text = human(seen, time.time())
    assert text.startswith("1 worker in all, bound by memory")
    rows = [line for line in text.splitlines() if "memory_available" in line and not line.startswith("warning")]
    assert rows
    assert all("unknown" in row and " 0 " not in row for row in rows)
    told = json.loads(json.dumps(payload(seen, time.time())))
    assert [each["value"] for each in told["readings"] if each["quantity"] == "memory_available"] == [None]


@pytest.mark.parametrize(
    ("quantity", "value", "text"),
    [
        ("memory_total", 3 << 30, "3 GiB"),
        ("cpu_idle", 12.34, "12.3 %"),
        ("pids_free", 32684, "32,684"),
        ("cores", 1.5, "1.50"),
        ("disk_free", None, "unknown"),
    ],
)
def test_values_are_shown_in_units_for_people(quantity: Quantity, value: float | None, text: str) -> None:
    assert value_text(Reading(quantity=quantity, value=value, source="s", at=0.0)) == text


def fleet(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "HOME": str(tmp_path),
        "AGENT_ROOT": str(tmp_path),
        "AGENT_FLEET_STATE_DIR": str(tmp_path / "state"),
    }
    return subprocess.run(
        [sys.executable, "-c", "from agent_fleet.cli import main; main()", *arguments],
        env=environ, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_command_measures_this_machine_and_writes_nothing(tmp_path: Path) -> None:
    done = fleet(tmp_path, "machine", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["workers"] >= 0
    assert told["binding"]["name"] in {each["name"] for each in told["ceilings"]}
    assert {"cores", "memory_available", "disk_free"} <= {each["quantity"] for each in told["readings"]}
    assert all(each["source"] and each["age"] >= 0 for each in told["readings"])
    assert list(tmp_path.iterdir()) == []


def test_the_command_refuses_a_probe_that_is_not_there_in_one_sentence(tmp_path: Path) -> None:
    done = fleet(tmp_path, "machine", "--probe", "sonar")
    assert done.returncode == 2
    assert "sonar" in done.stderr
    assert "Traceback" not in done.stderr
