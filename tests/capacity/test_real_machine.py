"""The real probes on the machine that runs the tests, against readings taken another way."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import psutil
import pytest

from agent_fleet.capacity import fold
from agent_fleet_capacity.cgroup1 import Cgroup1
from agent_fleet_capacity.cgroup2 import Cgroup2
from agent_fleet_capacity.procfs import Procfs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the /proc of Linux")


def test_cores_are_those_of_the_affinity_mask() -> None:
    folded = fold(Procfs().read())
    assert folded["cores"].value == len(os.sched_getaffinity(0))


def test_memory_is_what_the_system_library_counts() -> None:
    folded = fold(Procfs().read())
    seen = psutil.virtual_memory()
    assert folded["memory_total"].value == seen.total
    available = folded["memory_available"].value
    assert available is not None
    assert abs(available - seen.available) < seen.total / 5


def test_load_idle_share_and_disk_are_plausible(tmp_path: Path) -> None:
    folded = fold(Procfs(state_dir=str(tmp_path / "not/yet/there")).read())
    load, idle, disk = (folded[quantity].value for quantity in ("load1", "cpu_idle", "disk_free"))
    assert load is not None
    assert abs(load - os.getloadavg()[0]) < 5
    assert idle is None or 0 <= idle <= 100
    usage = psutil.disk_usage(str(tmp_path))
    assert disk is not None
    assert abs(disk - usage.free) < max(1 << 30, usage.total / 20)


def test_no_more_files_are_free_than_the_own_limit_leaves() -> None:
    free = fold(Procfs().read())["fds_free"].value
    assert free is not None
    assert 0 < free <= resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_the_pids_that_are_free_do_not_exceed_the_kernels_table() -> None:
    free = fold(Procfs().read())["pids_free"].value
    assert free is not None
    assert 0 < free < int(Path("/proc/sys/kernel/pid_max").read_text())


def _own_group(controller: str) -> str | None:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return None


def test_the_v1_memory_limit_is_the_one_at_the_own_path() -> None:
    path = _own_group("memory")
    file = Path(f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")
    if path is None or not file.is_file():
        pytest.skip("this machine has no v1 memory group at the usual place")
    limits = [
        int((p / "memory.limit_in_bytes").read_text())
        for p in (file.parent, *file.parent.parents[: path.count("/")])
        if (p / "memory.limit_in_bytes").is_file()
    ]
    expected = min(limits)
    folded = fold(Cgroup1().read())
    if expected > 1 << 60:
        assert "memory_limit" not in folded
    else:
        assert folded["memory_limit"].value == expected


def test_control_groups_never_give_more_cores_than_the_machine_has() -> None:
    for probe in (Cgroup1(), Cgroup2()):
        cores = fold(probe.read()).get("cores")
        assert cores is None or cores.value is None or 0 < cores.value <= (os.cpu_count() or 1)
