import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from agent_fleet_slurm import MIB, Slurm

from agent_fleet.testing import check_probe

JOB = {"SLURM_JOB_ID": "77", "SLURM_CPUS_ON_NODE": "8", "SLURM_MEM_PER_NODE": "4096"}


def said(environ: Mapping[str, str], proc: Path) -> dict[str, float | None]:
    """What the probe says, once its contract is checked."""
    return {reading.quantity: reading.value for reading in check_probe(Slurm(environ, str(proc)))}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Two processes of job 77 with 100 MiB each, and one of another job."""
    pages = 100 * MIB // os.sysconf("SC_PAGE_SIZE")
    for pid, job in (("1", "77"), ("2", "77"), ("3", "778")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_bytes(b"A=b\0SLURM_JOB_ID=%s\0" % job.encode())
        (tmp_path / pid / "statm").write_text(f"{9 * pages} {pages} 1 1 0 1 0\n")
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, {"cores": 8, "memory_limit": 4096 * MIB, "memory_available": 3896 * MIB}),
        ({"SLURM_MEM_PER_CPU": "1024"}, {"cores": 8, "memory_limit": 8192 * MIB, "memory_available": 7992 * MIB}),
        ({"SLURM_MEM_PER_NODE": "0"}, {"cores": 8}),
        ({"SLURM_MEM_PER_NODE": "64"}, {"cores": 8, "memory_limit": 64 * MIB, "memory_available": 0}),
        ({"SLURM_CPUS_ON_NODE": "many"}, {"cores": None, "memory_limit": 4096 * MIB, "memory_available": 3896 * MIB}),
        ({"SLURM_MEM_PER_NODE": "4G"}, {"cores": 8, "memory_limit": None, "memory_available": None}),
        ({"SLURM_JOB_ID": "9"}, {"cores": 8, "memory_limit": 4096 * MIB, "memory_available": None}),
    ],
)
def test_the_share_of_a_job(changes: Mapping[str, str], wanted: Mapping[str, float], proc: Path) -> None:
    found = said({**JOB, **changes}, proc)
    if found != wanted:
        raise AssertionError(found)


def test_outside_a_job_it_cannot_be_used(proc: Path) -> None:
    if Slurm({}, str(proc)).usable() is None:
        raise AssertionError("it takes this for a job")
    check_probe(Slurm({}, str(proc)))
