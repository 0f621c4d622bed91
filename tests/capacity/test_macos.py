"""macOS by the printed output of its commands; the commands themselves run only there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agent_fleet.api import Quantity, Reading
from agent_fleet.capacity import Capacity, CapacitySettings, GiB, MiB, ceilings, fold
from agent_fleet.model import Cost
from agent_fleet_capacity.gauge import UnknownError
from agent_fleet_capacity.macos import Macos, command_output

COST = Cost(provider="p", lane="l", memory=600 * MiB, cores=1.0, basis="default")

HEALTHY = {
    "sysctl -n hw.ncpu": "10\n",
    "sysctl -n hw.memsize": f"{32 * GiB}\n",
    "sysctl -n vm.loadavg": "{ 2.10 1.90 1.70 }\n",
    "sysctl -n vm.swapusage": "total = 2048.00M  used = 512.00M  free = 1536.00M  (encrypted)\n",
    "sysctl -n kern.memorystatus_vm_pressure_level": "1\n",
    "sysctl -n kern.maxproc": "4000\n",
    "sysctl -n kern.maxprocperuid": "2666\n",
    "sysctl -n kern.tty.ptmx_max": "511\n",
    "sysctl -n kern.maxfiles": "245760\n",
    "sysctl -n kern.num_files": "9000\n",
    "memory_pressure -Q": (
        "The system has 34359738368 (2097152 pages with a page size of 16384).\n"
        "System-wide memory free percentage: 62%\n"
    ),
    "id -u": "501\n",
    "ps -A -o uid=,%cpu=,tty=": "    0   1.5 ??\n  501  50,0 ttys001\n  501   8.5 ttys001\n  501  40.0 ttys002\n",
}


def vm_stat(free: int, inactive: int, page: int = 16384) -> str:
    """The output of vm_stat for so many bytes."""
    return (
        f"Mach Virtual Memory Statistics: (page size of {page} bytes)\n"
        f"Pages free:                     {free // page:>10}.\n"
        f"Pages active:                   {4 * GiB // page:>10}.\n"
        f"Pages inactive:                 {inactive // page:>10}.\n"
        f"Pages speculative:              {GiB // page:>10}.\n"
        f"Pages throttled:                         0.\n"
        f"Pages wired down:               {2 * GiB // page:>10}.\n"
        f"Pages purgeable:                         0.\n"
        f'"Translation faults":           1234567890.\n'
    )


def measure(**changes: str) -> tuple[Mapping[Quantity, Reading], Capacity]:
    said = HEALTHY | {"vm_stat": vm_stat(8 * GiB, 9 * GiB)} | changes

    def run(argv: tuple[str, ...]) -> str:
        answer = said[" ".join(argv)]
        if answer == "fails":
            raise UnknownError(f"{argv[0]} ended with status 1")
        return answer

    probe = Macos(run, "/state", platform="darwin", disk=lambda _: 100 * GiB)
    assert probe.usable() is None
    folded = fold(probe.read())
    return folded, ceilings(folded, COST, CapacitySettings(), running=0, needs_pty=True)


def test_a_healthy_mac_is_read_in_full() -> None:
    folded, capacity = measure()
    assert {quantity: reading.value for quantity, reading in folded.items()} == {
        "cores": 10,
        "load1": 2.1,
        "cpu_idle": 90.0,
        "memory_total": 32 * GiB,
        "memory_available": 18 * GiB,
        "memory_pressure_some": 0,
        "memory_pressure_full": 0,
        "swap_total": 2048 * MiB,
        "swap_free": 1536 * MiB,
        "pids_free": 2663,
        "ptys_free": 509,
        "fds_free": 236760,
        "disk_free": 100 * GiB,
    }
    assert (capacity.workers, capacity.binding.name) == (8, "cores")


def test_little_free_but_much_inactive_memory_is_healthy() -> None:
    folded, capacity = measure(vm_stat=vm_stat(90 * MiB, 9 * GiB))
    available = folded["memory_available"].value
    assert available == pytest.approx(10 * GiB + 90 * MiB, rel=0.001)
    assert (capacity.workers, capacity.wait) == (8, "")


def test_pages_of_4_kib_are_told_from_pages_of_16() -> None:
    folded, _ = measure(vm_stat=vm_stat(GiB, 2 * GiB, page=4096))
    assert folded["memory_available"].value == 4 * GiB


def test_the_systems_own_count_wins_where_it_is_smaller() -> None:
    folded, _ = measure(**{"memory_pressure -Q": "System-wide memory free percentage: 25%\n"})
    assert folded["memory_available"].value == 8 * GiB
    assert folded["memory_available"].source == "macos memory_pressure"


@pytest.mark.parametrize(
    ("level", "some", "full", "workers", "waits"),
    [("1", 0, 0, 8, False), ("2", 50, 0, 8, False), ("4", 100, 100, 0, True)],
)
def test_only_the_critical_level_stops_starts(level: str, some: float, full: float, workers: int, waits: bool) -> None:
    folded, capacity = measure(**{"sysctl -n kern.memorystatus_vm_pressure_level": level})
    assert (folded["memory_pressure_some"].value, folded["memory_pressure_full"].value) == (some, full)
    assert (capacity.workers, bool(capacity.wait)) == (workers, waits)


def test_a_level_without_a_known_meaning_is_unknown() -> None:
    folded, _ = measure(**{"sysctl -n kern.memorystatus_vm_pressure_level": "3"})
    assert folded["memory_pressure_full"].value is None


def test_commands_that_fail_make_values_unknown_and_one_worker() -> None:
    folded, capacity = measure(vm_stat="fails", **{"memory_pressure -Q": "fails"})
    assert folded["memory_available"].value is None
    assert "status 1" in folded["memory_available"].note
    assert (capacity.workers, capacity.binding.name) == (1, "memory")
    assert capacity.degraded


def test_one_command_that_fails_leaves_the_others_answer() -> None:
    folded, _ = measure(**{"memory_pressure -Q": "fails", "ps -A -o uid=,%cpu=,tty=": "fails"})
    assert folded["memory_available"].value == 18 * GiB
    assert {folded[q].value for q in ("cpu_idle", "pids_free", "ptys_free")} == {None}


def test_elsewhere_it_cannot_be_used() -> None:
    assert Macos(platform="linux").usable() == "this is not macOS"


def test_a_command_that_fails_or_is_not_there_raises_what_becomes_unknown() -> None:
    assert command_output(("echo", "a b")) == "a b\n"
    with pytest.raises(UnknownError, match="status 1"):
        command_output(("false",))
    with pytest.raises(OSError, match="No such file"):
        command_output(("there-is-no-such-command",))
