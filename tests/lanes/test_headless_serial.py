"""The lanes that start plain processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet.api import Lane, Launch, Seated
from agent_fleet.config import load
from agent_fleet_lanes import headless, serial, subagent
from support import procs

CONFIG = load("/", queue_dir="", environ={"FLEET_SUBAGENT_SEATS": "3"})
LANES: tuple[Lane, ...] = (*headless.fleet_lanes(), *serial.fleet_lanes(), *subagent.fleet_lanes(CONFIG))
NAMES = ("headless", "serial", "subagent")


@pytest.fixture
def mark() -> Iterator[str]:
    with procs.new_mark() as mark:
        yield mark


def launch(tmp_path: Path, mark: str, argv: list[str]) -> Launch:
    env = procs.environment(mark)
    return Launch(worker="w7", argv=tuple(argv), cwd=str(tmp_path), env=env, log=str(tmp_path / "log"), stdin=b"text")


def test_each_module_offers_the_lane_of_its_name() -> None:
    offered = [lane.name for module in (headless, serial) for lane in module.fleet_lanes()]
    assert tuple(offered) == NAMES[:2]
    (crewed,) = subagent.fleet_lanes(CONFIG)
    assert crewed.name == NAMES[2]
    assert isinstance(crewed, Seated)
    assert crewed.seats == 3


def test_only_serial_has_a_limit_and_shows_its_output() -> None:
    assert [(lane.name, lane.limit, lane.foreground) for lane in LANES] == [
        ("headless", None, False),
        ("serial", 1, True),
        ("subagent", None, False),
    ]


@pytest.mark.parametrize("lane", LANES, ids=NAMES)
def test_a_worker_runs_until_it_is_stopped_and_is_then_gone(lane: Lane, tmp_path: Path, mark: str) -> None:
    assert lane.usable() is None
    worker = lane.start(launch(tmp_path, mark, ["sh", "-c", "cat; setsid sleep 600 & sleep 600"]))
    procs.wait_until(lambda: len(process_numbers(mark)) == 3, "the whole tree runs")

    assert (worker.id, worker.lane, worker.handle) == ("w7", lane.name, mark)
    assert lane.alive(worker) is True
    assert lane.stop(worker, 1.0)
    assert lane.alive(worker) is False
    assert process_numbers(mark) == []
    assert (tmp_path / "log").read_text() == "text"


@pytest.mark.parametrize("lane", LANES, ids=NAMES)
def test_a_worker_that_ended_by_itself_is_not_alive(lane: Lane, tmp_path: Path, mark: str) -> None:
    worker = lane.start(launch(tmp_path, mark, ["true"]))
    procs.wait_until(lambda: lane.alive(worker) is False, "it ends")
    assert lane.stop(worker, 0.1)


def test_workers_started_at_once_do_not_disturb_each_other(tmp_path: Path, mark: str) -> None:
    lane = LANES[0]

    def start(number: int) -> None:
        directory = tmp_path / str(number)
        directory.mkdir()
        worker = lane.start(launch(directory, mark, ["sh", "-c", f"cat; echo {number}"]))
        procs.wait_until(lambda: lane.alive(worker) is False, "it ends")

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(tmp_path / str(number) / "log").read_text() for number in range(8)] == [f"text{n}\n" for n in range(8)]


def process_numbers(mark: str) -> list[int]:
    from agent_fleet.process import marked

    return [proc.pid for proc in marked(mark)]
