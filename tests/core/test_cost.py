"""The remembered cost of a worker: what is kept, what is given back, and what no damage can stop."""

from __future__ import annotations

import fcntl
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fleet.capacity import MiB
from agent_fleet.cost import LOCK_SECONDS, WINDOW, CostBook
from agent_fleet.model import Cost


def ask(book: CostBook, provider: str = "claude", lane: str = "headless") -> Cost:
    return book.cost(provider, lane, default_memory=600 * MiB, default_cores=1.0)


def test_without_samples_the_default_is_given_and_called_so(tmp_path: Path) -> None:
    cost = ask(CostBook(str(tmp_path / "costs.json")))
    assert (cost.memory, cost.cores, cost.basis, cost.samples, cost.at) == (600 * MiB, 1.0, "default", 0, None)
    assert list(tmp_path.iterdir()) == []


def test_samples_of_this_run_are_measured_and_later_remembered(tmp_path: Path) -> None:
    path = str(tmp_path / "state" / "costs.json")
    book = CostBook(path)
    book.record("claude", "headless", 300 * MiB, 0.5)
    assert ask(book).basis == "measured"
    assert ask(book, lane="terminal").basis == "default"
    later = ask(CostBook(path))
    assert (later.basis, later.memory, later.cores, later.samples) == ("remembered", 300 * MiB, 0.5, 1)
    assert later.at is not None


@pytest.mark.parametrize(("samples", "third_quartile"), [([5], 5), ([1, 9], 9), ([4, 1, 3, 2], 3), (range(1, 101), 84)])
def test_the_cost_is_the_third_quartile_of_the_last_samples(
    samples: list[int], third_quartile: int, tmp_path: Path
) -> None:
    book = CostBook(str(tmp_path / "costs.json"))
    for sample in samples:
        book.record("p", "l", sample * MiB, sample)
    cost = ask(book, "p", "l")
    assert (cost.memory, cost.cores) == (third_quartile * MiB, third_quartile)
    assert cost.samples == min(len(samples), WINDOW)


def test_a_worker_that_only_waits_still_costs_some_cpu(tmp_path: Path) -> None:
    book = CostBook(str(tmp_path / "costs.json"))
    book.record("p", "l", MiB, 0.0)
    assert ask(book, "p", "l").cores == 0.05


@pytest.mark.parametrize(
    ("memory", "cores"), [(0, 1), (-1, 1), (math.nan, 1), (math.inf, 1), (MiB, -1), (MiB, math.nan)]
)
def test_a_sample_that_no_worker_can_have_is_left_out(memory: float, cores: float, tmp_path: Path) -> None:
    book = CostBook(str(tmp_path / "costs.json"))
    book.record("p", "l", memory, cores)
    assert ask(book, "p", "l").basis == "default"
    assert len(book.warnings) == 1


DAMAGED = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b"[" * 100_000,
    b'{"format": 1}',
    b'{"format": 1, "workers": []}',
    b'{"format": 1, "workers": {"p": []}}',
    b'{"format": 1, "workers": {"p": {"l": [[1, 2]]}}}',
    b'{"format": 1, "workers": {"p": {"l": [[true, 1, 1]]}}}',
    b'{"format": 1, "workers": {"p": {"l": [[NaN, 1, 1]]}}}',
    b'{"format": 1, "workers": {"p": {"l": [[0, 1, 1]]}}}',
    b'{"format": 1, "workers": {"p": {"l": 7}}}',
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
@pytest.mark.parametrize("writes", [False, True])
def test_a_damaged_file_is_set_aside_and_named(content: bytes, writes: bool, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_bytes(content)
    (tmp_path / "costs.json.corrupt-1").write_text("an older one")
    book = CostBook(str(path))
    if writes:
        book.record("p", "l", MiB, 1.0)
    assert ask(book, "p", "l").basis == ("measured" if writes else "default")
    assert (tmp_path / "costs.json.corrupt-2").read_bytes() == content
    assert (tmp_path / "costs.json.corrupt-1").read_text() == "an older one"
    assert len(book.warnings) == 1
    assert "corrupt-2" in book.warnings[0]


def test_a_directory_in_its_place_is_set_aside_too(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.mkdir()
    book = CostBook(str(path))
    book.record("p", "l", MiB, 1.0)
    assert (ask(book, "p", "l").basis, path.is_file()) == ("measured", True)


def test_a_pipe_in_its_place_makes_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "costs.json")
    book = CostBook(str(tmp_path / "costs.json"))
    assert ask(book).basis == "default"
    assert len(book.warnings) == 1


def test_the_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    newer = json.dumps({"format": 2, "costs": []})
    path.write_text(newer)
    book = CostBook(str(path))
    book.record("p", "l", MiB, 1.0)
    assert ask(book, "p", "l").basis == "default"
    assert path.read_text() == newer
    assert any("newer version" in warning for warning in book.warnings)


def test_a_place_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a directory should be")
    book = CostBook(str(tmp_path / "state" / "costs.json"))
    book.record("p", "l", MiB, 1.0)
    assert ask(book, "p", "l").basis == "default"
    assert book.warnings


def test_a_writer_that_never_lets_go_is_not_waited_for_long(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        book = CostBook(str(tmp_path / "costs.json"))
        book.record("p", "l", MiB, 1.0)
    finally:
        os.close(folder)
    assert len(book.warnings) == 1
    assert LOCK_SECONDS <= 5
    assert ask(book, "p", "l").basis == "default"


WRITER = """
import sys
from agent_fleet.cost import CostBook
book = CostBook(sys.argv[1])
for sample in range(8):
    book.record("p", "l", 1 << 20, 1.0)
sys.exit(len(book.warnings))
"""


def test_no_sample_of_concurrent_writers_is_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "costs.json")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path], env=environ) for _ in range(4)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    assert ask(CostBook(path), "p", "l").samples == 32
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["costs.json"]
