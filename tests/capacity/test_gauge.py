"""Kernel text, and how a failure to read it stays a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_fleet_capacity.gauge import UnknownError, cpu_list, disk_free, gauge, number, pairs, stall, text
from agent_fleet_capacity.hierarchy import UNIFIED, memberships, mounts


@pytest.mark.parametrize(
    ("content", "cpus"),
    [("0-3,8\n", {0, 1, 2, 3, 8}), ("5", {5}), ("", set()), ("\n", set()), ("0-1,3-4", {0, 1, 3, 4})],
)
def test_cpu_lists_are_ranges_and_single_cpus(content: str, cpus: set[int]) -> None:
    assert cpu_list(content) == cpus


@pytest.mark.parametrize("content", ["a", "0-99999999999", "0;1", "²", "0-x"])
def test_what_is_no_cpu_list_is_unknown(content: str) -> None:
    with pytest.raises(UnknownError):
        cpu_list(content)


def test_absent_files_differ_from_unreadable_ones(tmp_path: Path) -> None:
    assert text(str(tmp_path / "none")) is None
    assert number(str(tmp_path / "none/below")) is None
    with pytest.raises(OSError, match="directory"):
        text(str(tmp_path))
    (tmp_path / "words").write_text("many\n")
    with pytest.raises(UnknownError):
        number(str(tmp_path / "words"))


def test_a_gauge_that_fails_is_unknown_with_the_reason(tmp_path: Path) -> None:
    (reading,) = gauge("cores", "here", lambda: (float(text(str(tmp_path)) or 0), ""))
    assert (reading.value, reading.source) == (None, "here")
    assert str(tmp_path) in reading.note
    assert list(gauge("cores", "here", lambda: None)) == []


def test_pressure_is_the_ten_second_mean_of_the_line_asked_for() -> None:
    content = "some avg10=12.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=3.25 avg60=0.00 avg300=0.00 total=1\n"
    assert (stall(content, "some"), stall(content, "full"), stall("", "full")) == (12.5, 3.25, None)


def test_pairs_take_both_forms_of_kernel_tables() -> None:
    assert pairs("MemTotal:  16 kB\ninactive_file 7\nodd\nActive(anon): 3 kB\n") == {
        "MemTotal": 16,
        "inactive_file": 7,
        "Active(anon)": 3,
    }


def test_the_disk_of_a_directory_to_be_made_is_that_of_its_parent(tmp_path: Path) -> None:
    assert disk_free(str(tmp_path / "a/b/c")) == pytest.approx(disk_free(str(tmp_path)), rel=0.2)


def test_memberships_keep_v1_controllers_named_ones_and_the_v2_group_apart() -> None:
    content = "9:name=systemd:/s\n4:cpu,cpuacct:/a:b\n0::/u\nnoise\n"
    assert memberships(content) == {"name=systemd": "/s", "cpu": "/a:b", "cpuacct": "/a:b", UNIFIED: "/u"}


def test_a_later_mount_hides_what_was_mounted_there_before() -> None:
    table = (
        "31 23 0:27 / /sys/fs/cgroup/memory rw shared:9 master:1 - cgroup cgroup rw,memory\n"
        "short\n"
        "32 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "33 23 0:29 / /sys/fs/cgroup/cpu rw - tmpfs tmpfs rw\n"
    )
    (mount,) = mounts(table)
    assert (mount.point, mount.unified) == ("/sys/fs/cgroup/memory", False)
    assert "memory" in mount.controllers
