"""Machines that have misled programs before: what is read of each, how many workers follow, and what binds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_fleet.capacity import CapacitySettings, ceilings
from agent_fleet.model import Cost
from support.hosts import V2, GiB, Host, MiB, psi, v1

ABSENT = "absent"
WORKER = Cost(provider="p", lane="l", memory=600 * MiB, cores=1.0, basis="default")
LIGHT = Cost(provider="p", lane="l", memory=600 * MiB, cores=0.05, basis="measured")
HEAVY = 96
"""Cores of a host on which memory binds first."""

SENTINEL_4K = f"{(2**63 - 1) // 4096 * 4096}\n"
SENTINEL_64K = f"{(2**63 - 1) // 65536 * 65536}\n"
MEMORY1 = "sys/fs/cgroup/memory"
ROOT2 = "sys/fs/cgroup"


def memory1(folder: str, limit: str, usage: int, inactive: int = 0) -> dict[str, str]:
    """The files of a version 1 memory group."""
    return {
        f"{folder}/memory.limit_in_bytes": limit,
        f"{folder}/memory.usage_in_bytes": f"{usage}\n",
        f"{folder}/memory.stat": f"inactive_file 1\ntotal_inactive_file {inactive}\n",
        f"{folder}/memory.use_hierarchy": "1\n",
    }


def memory2(folder: str, most: str, usage: int, inactive: int = 0, high: str = "max") -> dict[str, str]:
    """The files of a version 2 group with the memory controller."""
    return {
        f"{folder}/memory.max": f"{most}\n",
        f"{folder}/memory.high": f"{high}\n",
        f"{folder}/memory.current": f"{usage}\n",
        f"{folder}/memory.stat": f"anon 5\ninactive_file {inactive}\n",
    }


@dataclass(frozen=True)
class Case:
    """A host, what must be read of it, and what must follow for workers of that cost."""

    host: Host
    workers: int
    binding: str
    folded: Mapping[str, float | str | None] = field(default_factory=dict)
    limits: Mapping[str, int | str | None] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    wait: bool = False
    degraded: bool = False
    note: str = ""
    running: int = 0
    pty: bool = False
    cost: Cost = WORKER


CASES: dict[str, Case] = {
    "bare metal": Case(
        Host(),
        7,
        "cores",
        {"cores": 8, "memory_available": 24 * GiB, "memory_limit": ABSENT, "cpu_idle": 95, "commit_free": ABSENT},
        {"memory": 35, "cores": 7, "load": ABSENT, "ptys": ABSENT, "inotify": 64, "disk": 200, "fds": 256},
    ),
    "v1 nested, own group tighter": Case(
        Host(
            cpus=HEAVY,
            mounts=(v1("memory"),),
            groups="4:memory:/a/b\n",
            files=memory1(f"{MEMORY1}/a/b", f"{8 * GiB}\n", 3 * GiB, GiB)
            | memory1(f"{MEMORY1}/a", f"{16 * GiB}\n", 4 * GiB)
            | memory1(MEMORY1, SENTINEL_4K, 9 * GiB),
        ),
        8,
        "memory",
        {"memory_limit": 8 * GiB, "memory_available": 6 * GiB},
        source={"memory_available": "cgroup1 /sys/fs/cgroup/memory/a/b"},
    ),
    "v1 nested, 2 GiB limit with 1.5 GiB used": Case(
        Host(
            cpus=HEAVY,
            mounts=(v1("memory"),),
            groups="4:memory:/a\n",
            files=memory1(f"{MEMORY1}/a", f"{2 * GiB}\n", GiB + 512 * MiB) | memory1(MEMORY1, SENTINEL_4K, 9 * GiB),
        ),
        1,
        "memory",
        {"memory_limit": 2 * GiB, "memory_available": 512 * MiB},
        {"memory": 0},
        degraded=True,
    ),
    "v1 parent tighter than self": Case(
        Host(
            cpus=HEAVY,
            mounts=(v1("memory"),),
            groups="4:memory:/a/b\n",
            files=memory1(f"{MEMORY1}/a/b", f"{16 * GiB}\n", 0) | memory1(f"{MEMORY1}/a", f"{4 * GiB}\n", GiB),
        ),
        3,
        "memory",
        {"memory_limit": 4 * GiB, "memory_available": 3 * GiB},
        source={"memory_limit": "cgroup1 /sys/fs/cgroup/memory/a"},
    ),
    "v1 limit of a parent without hierarchy does not count": Case(
        Host(
            cpus=HEAVY,
            mounts=(v1("memory"),),
            groups="4:memory:/a/b\n",
            files=memory1(f"{MEMORY1}/a/b", f"{16 * GiB}\n", 0)
            | memory1(f"{MEMORY1}/a", f"{4 * GiB}\n", GiB)
            | {f"{MEMORY1}/a/memory.use_hierarchy": "0\n"},
        ),
        24,
        "memory",
        {"memory_limit": 16 * GiB, "memory_available": 16 * GiB},
    ),
    "v1 sentinel of 4 KiB pages": Case(
        Host(mounts=(v1("memory"),), groups="4:memory:/\n", files=memory1(MEMORY1, SENTINEL_4K, 9 * GiB)),
        7,
        "cores",
        {"memory_limit": ABSENT, "memory_available": 24 * GiB},
    ),
    "v1 sentinel of 64 KiB pages": Case(
        Host(mounts=(v1("memory"),), groups="4:memory:/\n", files=memory1(MEMORY1, SENTINEL_64K, 9 * GiB)),
        7,
        "cores",
        {"memory_limit": ABSENT, "memory_available": 24 * GiB},
    ),
    "64 KiB pages, real limit rounded to them": Case(
        Host(
            cpus=HEAVY,
            mounts=(v1("memory"),),
            groups="4:memory:/\n",
            files=memory1(MEMORY1, f"{(3 * GiB) // 65536 * 65536}\n", 65536),
        ),
        3,
        "memory",
        {"memory_limit": 3 * GiB, "memory_available": 3 * GiB - 65536},
    ),
    "v1 peak file is no limit": Case(
        Host(
            cpus=HEAVY,
            mounts=(v1("memory"),),
            groups="4:memory:/\n",
            files=memory1(MEMORY1, f"{8 * GiB}\n", GiB) | {f"{MEMORY1}/memory.max_usage_in_bytes": f"{2 * GiB}\n"},
        ),
        10,
        "memory",
        {"memory_limit": 8 * GiB, "memory_available": 7 * GiB},
    ),
    "v1 CPU quota and set in one hierarchy": Case(
        Host(
            mounts=(v1("cpu,cpuacct"), v1("cpuset")),
            groups="2:cpu,cpuacct:/a\n3:cpuset:/a\n",
            files={
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "450000\n",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpuset/a/cpuset.cpus": "0-5\n",
                "sys/fs/cgroup/cpuset/a/cpuset.effective_cpus": "0-5\n",
            },
        ),
        3,
        "cores",
        {"cores": 4.5},
        source={"cores": "cgroup1 /sys/fs/cgroup/cpu,cpuacct/a"},
    ),
    "v1 bind mount shows the own group as its root": Case(
        Host(
            cpus=HEAVY,
            mounts=(v1("memory", root="/docker/c1"),),
            groups="4:memory:/docker/c1/work\n",
            files=memory1(f"{MEMORY1}/work", f"{4 * GiB}\n", GiB) | memory1(MEMORY1, f"{8 * GiB}\n", GiB),
        ),
        3,
        "memory",
        {"memory_limit": 4 * GiB, "memory_available": 3 * GiB},
        source={"memory_limit": "cgroup1 /sys/fs/cgroup/memory/work"},
    ),
    "v1 host path in a container that shows only its own tree": Case(
        Host(
            cpus=HEAVY,
            mounts=(v1("memory", root="/docker/c1"),),
            groups="4:memory:/elsewhere/c1\n",
            files=memory1(MEMORY1, f"{4 * GiB}\n", GiB),
        ),
        3,
        "memory",
        {"memory_limit": 4 * GiB},
    ),
    "v1 directory with a blank and a colon": Case(
        Host(
            cpus=HEAVY,
            mounts=(r"31 23 0:27 / /sys/fs/cgroup/my\040mem rw - cgroup cgroup rw,memory",),
            groups="4:memory:/a:b\n",
            files=memory1("sys/fs/cgroup/my mem/a:b", f"{4 * GiB}\n", GiB),
        ),
        3,
        "memory",
        {"memory_limit": 4 * GiB},
    ),
    "v1 pids": Case(
        Host(
            mounts=(v1("pids"),),
            groups="8:pids:/a\n",
            files={"sys/fs/cgroup/pids/a/pids.max": "256\n", "sys/fs/cgroup/pids/a/pids.current": "100\n"},
        ),
        2,
        "pids",
        {"pids_free": 156},
    ),
    "v2 root of a container in its own namespace": Case(
        Host(
            cpus=HEAVY,
            mounts=(V2,),
            groups="0::/\n",
            files=memory2(ROOT2, str(8 * GiB), 4 * GiB, 2 * GiB),
        ),
        8,
        "memory",
        {"memory_limit": 8 * GiB, "memory_available": 6 * GiB},
        source={"memory_limit": "cgroup2 /sys/fs/cgroup"},
    ),
    "v2 namespace whose mount begins above it": Case(
        Host(
            cpus=HEAVY,
            mounts=("30 23 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup rw",),
            groups="0::/\n",
            files=memory2(ROOT2, str(8 * GiB), 4 * GiB, 2 * GiB),
        ),
        8,
        "memory",
        {"memory_limit": 8 * GiB},
    ),
    "v2 nested: root max, parent 4G, self 8G": Case(
        Host(
            cpus=HEAVY,
            mounts=(V2,),
            groups="0::/user.slice/work.scope\n",
            files=memory2(f"{ROOT2}/user.slice/work.scope", str(8 * GiB), GiB)
            | memory2(f"{ROOT2}/user.slice", str(4 * GiB), 2 * GiB),
        ),
        1,
        "memory",
        {"memory_limit": 4 * GiB, "memory_available": 2 * GiB},
        source={"memory_available": "cgroup2 /sys/fs/cgroup/user.slice"},
    ),
    "v2 high below max": Case(
        Host(
            cpus=HEAVY,
            mounts=(V2,),
            groups="0::/s\n",
            files=memory2(f"{ROOT2}/s", str(16 * GiB), GiB, high=str(6 * GiB)),
        ),
        6,
        "memory",
        {"memory_limit": 6 * GiB, "memory_available": 5 * GiB},
    ),
    "v2 no limit": Case(
        Host(mounts=(V2,), groups="0::/s\n", files=memory2(f"{ROOT2}/s", "max", GiB)),
        7,
        "cores",
        {"memory_limit": ABSENT, "memory_available": 24 * GiB},
    ),
    "v2 limit without a usage file": Case(
        Host(mounts=(V2,), groups="0::/s\n", files={f"{ROOT2}/s/memory.max": f"{4 * GiB}\n"}),
        7,
        "cores",
        {"memory_limit": 4 * GiB, "memory_available": 24 * GiB},
    ),
    "container of 512 MiB on a host of 251 GiB": Case(
        Host(
            cpus=HEAVY,
            total=251 * GiB,
            available=240 * GiB,
            mounts=(V2,),
            groups="0::/\n",
            files=memory2(ROOT2, str(512 * MiB), 100 * MiB),
        ),
        1,
        "memory",
        {"memory_limit": 512 * MiB, "memory_available": 412 * MiB},
        {"memory": 0},
        degraded=True,
    ),
    "v2 quota of 1.5 cores": Case(
        Host(mounts=(V2,), groups="0::/\n", files={f"{ROOT2}/cpu.max": "150000 100000\n"}),
        1,
        "cores",
        {"cores": 1.5},
        {"cores": 0},
        degraded=True,
    ),
    "v2 quota of a parent": Case(
        Host(
            mounts=(V2,),
            groups="0::/a/b\n",
            files={f"{ROOT2}/a/b/cpu.max": "max 100000\n", f"{ROOT2}/a/cpu.max": "400000 100000\n"},
        ),
        3,
        "cores",
        {"cores": 4},
        source={"cores": "cgroup2 /sys/fs/cgroup/a"},
    ),
    "v2 set of 2 of 16": Case(
        Host(cpus=16, mounts=(V2,), groups="0::/a\n", files={f"{ROOT2}/a/cpuset.cpus.effective": "3,9\n"}),
        1,
        "cores",
        {"cores": 2},
    ),
    "v2 pids": Case(
        Host(
            mounts=(V2,),
            groups="0::/a/b\n",
            files={
                f"{ROOT2}/a/b/pids.max": "max\n",
                f"{ROOT2}/a/pids.max": "500\n",
                f"{ROOT2}/a/pids.current": "300\n",
            },
        ),
        3,
        "pids",
        {"pids_free": 200},
        source={"pids_free": "cgroup2 /sys/fs/cgroup/a"},
    ),
    "v2 pressure on the own group only": Case(
        Host(mounts=(V2,), groups="0::/a\n", files={f"{ROOT2}/a/memory.pressure": psi(60, 40)}),
        0,
        "memory pressure",
        {"memory_pressure_full": 40},
        source={"memory_pressure_full": "cgroup2 /sys/fs/cgroup/a"},
        wait=True,
    ),
    "hybrid: v1 controllers beside an empty v2 tree": Case(
        Host(
            cpus=HEAVY,
            mounts=(v1("memory"), v1("cpu"), "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"),
            groups="4:memory:/svc/job\n1:cpu:/\n0::/\n",
            files=memory1(f"{MEMORY1}/svc/job", f"{8 * GiB}\n", 2 * GiB)
            | {"sys/fs/cgroup/unified/cgroup.controllers": "\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"},
        ),
        8,
        "memory",
        {"memory_limit": 8 * GiB, "memory_available": 6 * GiB, "cores": HEAVY},
        source={"memory_limit": "cgroup1 /sys/fs/cgroup/memory/svc/job"},
    ),
    "WSL2 with half of the host's memory": Case(
        Host(
            total=16 * GiB,
            available=14 * GiB,
            files={"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"},
        ),
        7,
        "cores",
        {"memory_total": 16 * GiB},
        {"memory": 21},
        note="WSL",
    ),
    "200 MiB free, 26 GiB available": Case(
        Host(available=26 * GiB, cpus=HEAVY), 38, "memory", {"memory_available": 26 * GiB}
    ),
    "no PSI": Case(Host(pressure=None), 7, "cores", {"memory_pressure_full": ABSENT, "memory_pressure_some": ABSENT}),
    "PSI unreadable": Case(
        Host(pressure=None, files={"proc/pressure/memory": "<dir>"}), 7, "cores", {"memory_pressure_full": None}
    ),
    "pressure with memory free": Case(
        Host(pressure={"memory": (70, 40)}, available=2 * GiB),
        0,
        "memory pressure",
        {"memory_pressure_full": 40},
        wait=True,
    ),
    "some pressure, but nothing stands still": Case(Host(pressure={"memory": (70, 5)}), 7, "cores"),
    "100 MiB available": Case(Host(available=100 * MiB), 0, "memory pressure", wait=True),
    "strict overcommit": Case(
        Host(total=8 * GiB, available=7 * GiB, files={"proc/sys/vm/overcommit_memory": "2\n"}),
        5,
        "commit",
        {"commit_free": 4 * GiB},
    ),
    "strict overcommit of which nothing is known": Case(
        Host(files={"proc/sys/vm/overcommit_memory": "2\n", "proc/meminfo": "MemTotal: 33554432 kB\n"}),
        1,
        "memory",
        {"commit_free": None, "memory_available": None},
        degraded=True,
    ),
    "unreadable meminfo": Case(
        Host(files={"proc/meminfo": "<dir>"}),
        1,
        "memory",
        {"memory_available": None, "memory_total": None, "swap_free": None},
        {"memory": None},
        degraded=True,
    ),
    "no meminfo": Case(
        Host(files={"proc/meminfo": None}), 1, "memory", {"memory_available": None}, {"memory": None}, degraded=True
    ),
    "old kernel without MemAvailable": Case(
        Host(files={"proc/meminfo": "MemTotal: 33554432 kB\nMemFree: 30000000 kB\n"}),
        1,
        "memory",
        {"memory_available": None, "memory_total": 32 * GiB},
        degraded=True,
    ),
    "unreadable meminfo in a group with a limit": Case(
        Host(
            files={"proc/meminfo": "<dir>"} | memory2(ROOT2, str(4 * GiB), GiB),
            mounts=(V2,),
            groups="0::/\n",
        ),
        3,
        "memory",
        {"memory_available": 3 * GiB},
    ),
    "2 cores, load 20, idle 95 %": Case(Host(cpus=2, load=20), 1, "cores", {"load1": 20}, {"load": ABSENT, "cores": 1}),
    "8 cores, load 20, idle 95 %": Case(Host(load=20), 7, "cores", {"load1": 20, "cpu_idle": 95}, {"load": ABSENT}),
    "8 cores, load 20, idle 2 %": Case(Host(load=20, idle=2), 1, "load", {"cpu_idle": 2}, {"load": 0}, degraded=True),
    "8 cores, load 13, CPU pressure": Case(
        Host(load=13, pressure={"cpu": (45, 0), "memory": (0, 0)}), 3, "load", {"cpu_pressure": 45}
    ),
    "load of the workers that run is not counted against them": Case(
        Host(load=12, idle=2), 7, "cores", limits={"load": 9}, running=5
    ),
    "affinity to 3 of 8": Case(
        Host(allowed="1-2,7"), 2, "cores", {"cores": 3}, source={"cores": "procfs /proc/self/status"}
    ),
    "pid_max": Case(
        Host(threads=600, files={"proc/sys/kernel/pid_max": "900\n"}), 4, "pids", {"pids_free": 300}, {"pids": 4}
    ),
    "limit of processes of this user": Case(
        Host(
            threads=400,
            files={
                "proc/self/limits": "Max processes             700                  700                  processes\n",
                "proc/10/status": "Uid:\t1000\t1000\t1000\t1000\nThreads:\t380\n",
                "proc/11/status": "Uid:\t0\t0\t0\t0\nThreads:\t20\n",
            },
        ),
        5,
        "pids",
        {"pids_free": 320},
    ),
    "64 terminals": Case(
        Host(
            cpus=HEAVY, available=31 * GiB, files={"proc/sys/kernel/pty/max": "64\n", "proc/sys/kernel/pty/nr": "40\n"}
        ),
        24,
        "ptys",
        {"ptys_free": 24},
        pty=True,
    ),
    "64 terminals, none needed": Case(
        Host(files={"proc/sys/kernel/pty/max": "64\n", "proc/sys/kernel/pty/nr": "64\n"}),
        7,
        "cores",
        {"ptys_free": 0},
        {"ptys": ABSENT},
    ),
    "terminals in use unknown": Case(
        Host(files={"proc/sys/kernel/pty/nr": None}), 4, "ptys", {"ptys_free": None}, {"ptys": None}, pty=True
    ),
    "12 inotify instances": Case(
        Host(files={"proc/sys/fs/inotify/max_user_instances": "12\n"}), 6, "inotify", {"inotify_free": 12}
    ),
    "no inotify": Case(
        Host(files={"proc/sys/fs/inotify/max_user_instances": None}),
        7,
        "cores",
        {"inotify_free": ABSENT},
        {"inotify": ABSENT},
    ),
    "ulimit -n 256": Case(
        Host(
            cpus=HEAVY,
            files={"proc/self/limits": "Max open files            256                  524288               files\n"},
        ),
        16,
        "fds",
        {"fds_free": 256},
    ),
    "system's table of files almost full": Case(
        Host(files={"proc/sys/fs/file-nr": "99950\t0\t100000\n"}), 3, "fds", {"fds_free": 50}
    ),
    "disk almost full": Case(Host(disk=1200 * MiB), 2, "disk", {"disk_free": 1200 * MiB}),
    "disk full": Case(Host(disk=0), 1, "disk", {"disk_free": 0}, {"disk": 0}, degraded=True),
    "no swap": Case(
        Host(
            files={
                "proc/meminfo": "MemTotal: 33554432 kB\nMemAvailable: 25165824 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
            }
        ),
        7,
        "cores",
        {"swap_total": 0, "swap_free": 0, "memory_available": 24 * GiB},
    ),
    "affinity unknown": Case(Host(files={"proc/self/status": "Name: x\n"}), 7, "cores", {"cores": 8}),
    "no CPU time": Case(
        Host(load=20, files={"proc/self/status": "Cpus_allowed_list: none\n"}),
        1,
        "cores",
        {"cores": None, "cpu_idle": None},
        {"cores": None, "load": ABSENT},
        degraded=True,
    ),
    "light workers on a laptop": Case(Host(cpus=4, total=16 * GiB, available=10 * GiB), 14, "memory", cost=LIGHT),
}


@pytest.mark.parametrize("name", CASES)
def test_a_machine_is_read_rightly_and_carries_the_workers_it_can(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folded = case.host.measure(tmp_path)
    read: dict[str, float | None] = {str(quantity): reading.value for quantity, reading in folded.items()}
    assert {key: read.get(key, ABSENT) for key in case.folded} == pytest.approx(case.folded)
    assert {q: str(r.source) for q, r in folded.items() if q in case.source} == dict(case.source)
    assert not case.note or any(case.note in reading.note for reading in folded.values())

    capacity = ceilings(folded, case.cost, CapacitySettings(), running=case.running, needs_pty=case.pty)
    limits: dict[str, int | None] = {limit.name: limit.workers for limit in capacity.ceilings}
    assert {key: limits.get(key, ABSENT) for key in case.limits} == dict(case.limits)
    assert (capacity.workers, capacity.binding.name) == (case.workers, case.binding)
    assert (bool(capacity.wait), bool(capacity.degraded)) == (case.wait, case.degraded)
    assert all(limit.why and limit.source for limit in capacity.ceilings)


def test_a_load_that_is_not_counted_is_shown_with_the_reason(tmp_path: Path) -> None:
    folded = Host(load=20).measure(tmp_path)
    (note,) = ceilings(folded, WORKER, CapacitySettings(), running=0).notes
    assert "20.00 not counted" in note
    assert "idle 95 %" in note


def test_every_reading_says_where_it_comes_from_and_an_unknown_one_why(tmp_path: Path) -> None:
    host = Host(files={"proc/meminfo": "<dir>", "proc/loadavg": "garbage\n", "proc/sys/kernel/pid_max": "many\n"})
    folded = host.measure(tmp_path)
    assert all(reading.source and reading.at > 0 for reading in folded.values())
    unknown = {quantity for quantity, reading in folded.items() if reading.value is None}
    assert unknown >= {"memory_total", "memory_available", "load1", "pids_free"}
    assert all(reading.note for reading in folded.values() if reading.value is None)


def test_inotify_instances_of_this_user_are_counted(tmp_path: Path) -> None:
    host = Host()
    host.build(tmp_path)
    for pid, uid in ((10, 1000), (11, 1000), (12, 0)):
        folder = tmp_path / f"proc/{pid}/fd"
        folder.mkdir(parents=True)
        (tmp_path / f"proc/{pid}/status").write_text(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nThreads:\t2\n")
        (folder / "3").symlink_to("anon_inode:inotify")
        (folder / "4").symlink_to("/dev/null")
    assert next(r.value for p in host.probes(tmp_path) for r in p.read() if r.quantity == "inotify_free") == 126


def test_probes_are_usable_only_where_their_files_are(tmp_path: Path) -> None:
    assert all(probe.usable() for probe in Host().probes(tmp_path))
    Host(mounts=(V2,)).build(tmp_path)
    one, two, proc = Host().probes(tmp_path)
    assert one.usable()
    assert two.usable() is None
    assert proc.usable() is None
