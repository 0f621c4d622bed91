from __future__ import annotations

from pathlib import Path

import pytest

from agent_fleet.model import Board, Task
from agent_fleet_policies.battery import Battery, Power, read_pmset, read_supplies

BOARD = Board(root="/", now=0.0, counts={})


def supply(root: Path, name: str, **attributes: str) -> None:
    (root / name).mkdir(parents=True)
    for attribute, value in attributes.items():
        (root / name / attribute).write_text(value + "\n", encoding="ascii")


def battery(power: Power | None, below: float = 100.0) -> Battery:
    return Battery(lambda: power, workers=1, below=below)


@pytest.mark.parametrize(
    ("power", "below", "workers"),
    [
        (Power(True, 80.0), 100.0, 1),
        (Power(True, 80.0), 50.0, "nothing"),
        (Power(True, 49.9), 50.0, 1),
        (Power(True, 50.0), 50.0, "nothing"),
        (Power(True, None), 100.0, 1),
        (Power(True, None), 50.0, None),
        (Power(None, 80.0), 100.0, None),
        (Power(False, 5.0), 100.0, "nothing"),
        (None, 100.0, "nothing"),
    ],
)
def test_the_cap_holds_only_on_battery_below_the_charge_and_what_is_unknown_stays_so(
    power: Power | None, below: float, workers: object
) -> None:
    ceiling = battery(power, below).ceiling(BOARD)
    assert (ceiling.workers if ceiling else "nothing") == workers
    if ceiling:
        assert ceiling.source == "battery"
        assert ceiling.why
        assert ceiling.at is not None


def test_power_makes_no_task_wait() -> None:
    assert battery(Power(True, 1.0)).hold(Task(id="t1", target="x"), BOARD) is None


def test_a_discharging_laptop_is_read_from_sysfs(tmp_path: Path) -> None:
    supply(tmp_path, "AC", type="Mains", online="0")
    supply(tmp_path, "BAT0", type="Battery", status="Discharging", capacity="40")
    supply(tmp_path, "BAT1", type="Battery", status="Unknown", capacity="80")
    assert read_supplies(str(tmp_path)) == Power(True, 60.0)


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging"])
def test_a_laptop_that_is_plugged_in_does_not_discharge(tmp_path: Path, status: str) -> None:
    supply(tmp_path, "BAT0", type="Battery", status=status, capacity="40", scope="System")
    assert read_supplies(str(tmp_path)) == Power(False, 40.0)


@pytest.mark.parametrize(("online", "discharging"), [("0", True), ("1", False), ("", None)])
def test_where_a_battery_says_nothing_of_use_the_mains_decide(
    tmp_path: Path, online: str, discharging: bool | None
) -> None:
    supply(tmp_path, "AC", type="Mains", online=online)
    supply(tmp_path, "BAT0", type="Battery", status="Unknown", capacity="110")
    assert read_supplies(str(tmp_path)) == Power(discharging, None)


def test_a_battery_without_a_readable_state_is_unknown_not_absent(tmp_path: Path) -> None:
    supply(tmp_path, "BAT0", type="Battery")
    assert read_supplies(str(tmp_path)) == Power(None, None)


def test_a_desktop_with_a_mouse_has_no_battery(tmp_path: Path) -> None:
    supply(tmp_path, "AC", type="Mains", online="1")
    supply(tmp_path, "hid-mouse", type="Battery", scope="Device", status="Discharging", capacity="20")
    assert read_supplies(str(tmp_path)) is None
    assert read_supplies(str(tmp_path / "nosuch")) is None


@pytest.mark.parametrize(
    ("text", "power"),
    [
        (
            "Now drawing from 'Battery Power'\n"
            " -InternalBattery-0 (id=4653155)\t85%; discharging; 3:20 remaining present: true\n",
            Power(True, 85.0),
        ),
        (
            "Now drawing from 'AC Power'\n -InternalBattery-0 (id=4653155)\t100%; charged; 0:00 remaining present: true\n",
            Power(False, 100.0),
        ),
        ("Now drawing from 'AC Power'\n", None),
        ("Now drawing from 'AC Power'\n -Apple Mouse (id=1)\t50%; discharging present: true\n", None),
        ("something new\n -InternalBattery-0 (id=1)\tmany; present: true\n", Power(None, None)),
    ],
)
def test_a_mac_is_read_from_the_lines_of_pmset(text: str, power: Power | None) -> None:
    assert read_pmset(text) == power
