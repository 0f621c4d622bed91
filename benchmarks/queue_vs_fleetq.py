"""The queue beside fleetq 0.2.1, in one run: the same commands on the same tasks, taken in turn, printed as ratios.

    python benchmarks/queue_vs_fleetq.py [--sizes 100,1000,10000,100000] [--rounds 7] [--write benchmarks/README.md]

Both tools are installed into environments of their own below `benchmarks/.envs` (they share an import name and a command
name, so they can never be in one). Ours is installed as a wheel, compiled, as a user has it. Every figure is the wall time of a
whole process; the two tools take turns, so that a machine whose speed drifts drifts for both.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ENVS = ROOT / "benchmarks" / ".envs"
CLAIMERS, CLAIMS, TASKS = 16, 320, 5000


class Tool(NamedTuple):
    """One of the two: its name and its command."""

    name: str
    command: Path

    @property
    def python(self) -> Path:
        return self.command.parent / "python"


class Row(NamedTuple):
    """One line of the result: medians in seconds, and what was promised of the ratio or of the figure."""

    what: str
    ours: float
    theirs: float | None
    target: str
    holds: bool | None

    @property
    def ratio(self) -> str:
        return "" if not self.theirs else f"{self.ours / self.theirs:.3f}"


def main() -> int:
    options = arguments()
    tools = install(options.fresh)
    rows = [start_up(tools[0], options.rounds)]
    claims: dict[int, Row] = {}
    # Nothing is removed before the last figure: ext4 takes no inode again within some seconds after its file was removed
    # (`recently_deleted` in fs/ext4/ialloc.c), so whoever creates files after a mass removal pays for the search.
    with ExitStack() as kept:
        for size in options.sizes:
            places = kept.enter_context(projects(tools))
            batch = write_batch(places[0].parent, size)
            rows.append(adding(tools, places, batch, size))
            claims[size] = claiming(tools, places, size, options.rounds)
            rows += [claims[size], planning(tools, places, size, options.rounds)]
        rows.append(growth(claims))
        rows += many_claimers(tools, kept.enter_context(projects(tools)))
    text = report(rows, options)
    print(text)
    if options.write:
        publish(Path(options.write), text)
    return 0 if all(row.holds is not False for row in rows) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", type=lambda text: [int(part) for part in text.split(",")], default=[100, 1000, 10_000, 100_000]
    )
    parser.add_argument("--rounds", type=int, default=7, help="timed runs of every figure; the median counts")
    parser.add_argument("--fresh", action="store_true", help="install both tools anew")
    parser.add_argument("--write", help="put the result into this file, between its marker lines")
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------------- the two tools


def install(fresh: bool) -> tuple[Tool, Tool]:
    if fresh:
        shutil.rmtree(ENVS, ignore_errors=True)
    ours, theirs = ENVS / "ours", ENVS / "fleetq"
    for place in (ours, theirs):
        if not place.exists():
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([str(ours / "bin" / "python"), *pip, "--force-reinstall", str(ROOT)], check=True)
    subprocess.run([str(theirs / "bin" / "python"), *pip, "fleetq==0.2.1"], check=True)
    return Tool("ours", ours / "bin" / "fleet"), Tool("fleetq", theirs / "bin" / "fleet")


def environment(place: Path) -> dict[str, str]:
    """What a command sees. The project is named: a queue further up would be taken for it, and its tasks be counted."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place.parent),
        "AGENT_ROOT": str(place),
        "LANG": "C.UTF-8",
        "FLEET_NO_NOTIFY": "1",
    }


def run(tool: Tool, place: Path, *args: str) -> float:
    """The wall time of one command; it must succeed."""
    start = time.perf_counter()
    subprocess.run(
        [str(tool.command), *args],
        cwd=place,
        env=environment(place),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


@contextmanager
def projects(tools: tuple[Tool, Tool]) -> Iterator[tuple[Path, Path]]:
    """A fresh repository for each tool."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as base:
        places = []
        for tool in tools:
            place = Path(base) / tool.name
            place.mkdir()
            subprocess.run(["git", "init", "-q", str(place)], check=True)
            run(tool, place, "init")
            places.append(place)
        yield places[0], places[1]


def write_batch(base: Path, size: int) -> Path:
    path = base / "tasks.txt"
    path.write_text(
        "".join(
            f"Look into finding number {number} | finding {number} | module {number % 97}\n" for number in range(size)
        )
    )
    return path


# ------------------------------------------------------------------------------------------------------- the figures


def in_turn(rounds: int, first: Callable[[], float], second: Callable[[], float]) -> tuple[float, float]:
    """Medians of two figures taken in turn, after one round that does not count."""
    pairs = [(first(), second()) for _ in range(rounds + 1)][1:]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def start_up(tool: Tool, rounds: int) -> Row:
    """`fleet claim` on a short queue over a bare interpreter: what we add to Python's own start."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as base:
        place = Path(base) / "ours"
        place.mkdir()
        run(tool, place, "init")
        run(tool, place, "add-batch", str(write_batch(Path(base), 4 * rounds + 20)))
        bare = Tool("python", tool.python)
        claim, nothing = in_turn(
            2 * rounds, lambda: run(tool, place, "claim", "bench"), lambda: run(bare, place, "-c", "pass")
        )
    added = claim - nothing
    return Row("`claim` over `python -c pass`", added, None, "≤ 0.060 s", added <= 0.060)


def adding(tools: tuple[Tool, Tool], places: tuple[Path, Path], batch: Path, size: int) -> Row:
    ours, theirs = (run(tool, place, "add-batch", str(batch)) for tool, place in zip(tools, places, strict=True))
    promised = size == 100_000
    return Row(f"`add-batch` of {size:,}", ours, theirs, "≤ 5 s" if promised else "", ours <= 5.0 if promised else None)


def claiming(tools: tuple[Tool, Tool], places: tuple[Path, Path], size: int, rounds: int) -> Row:
    ours, theirs = in_turn(
        rounds, lambda: run(tools[0], places[0], "claim", "bench"), lambda: run(tools[1], places[1], "claim", "bench")
    )
    bound = {1000: 0.7, 100_000: 0.08}.get(size)
    return Row(
        f"`claim` at {size:,}", ours, theirs, f"≤ {bound} ×" if bound else "", ours / theirs <= bound if bound else None
    )


def planning(tools: tuple[Tool, Tool], places: tuple[Path, Path], size: int, rounds: int) -> Row:
    few = max(2, rounds // 2) if size >= 100_000 else rounds
    ours, theirs = in_turn(few, lambda: run(tools[0], places[0], "plan"), lambda: run(tools[1], places[1], "plan"))
    promised = size == 100_000
    return Row(f"`plan` of {size:,}", ours, theirs, "≤ 0.5 s" if promised else "", ours <= 0.5 if promised else None)


def growth(claims: dict[int, Row]) -> Row:
    smallest, largest = min(claims), max(claims)
    grown = claims[largest].ours / claims[smallest].ours
    return Row(
        f"our `claim` at {largest:,} over at {smallest:,}",
        claims[largest].ours,
        claims[smallest].ours,
        "≤ 1.3 ×",
        grown <= 1.3,
    )


def many_claimers(tools: tuple[Tool, Tool], places: tuple[Path, Path]) -> list[Row]:
    """16 claimers take 320 tasks of 5,000, every claim a process of its own; and as many bare interpreters, the floor."""
    batch = write_batch(places[0].parent, TASKS)
    for tool, place in zip(tools, places, strict=True):
        run(tool, place, "add-batch", str(batch))
    ours = by_many(lambda number: run(tools[0], places[0], "claim", f"w{number % CLAIMERS}"))
    theirs = by_many(lambda number: run(tools[1], places[1], "claim", f"w{number % CLAIMERS}"))
    bare = Tool("python", tools[0].python)
    floor = by_many(lambda _: run(bare, places[0], "-c", "pass"))
    return [
        Row(f"{CLAIMS} claims by {CLAIMERS} over {TASKS:,}", ours, theirs, "≤ 0.1 ×", ours / theirs <= 0.1),
        Row(f"{CLAIMS} × `python -c pass` by {CLAIMERS}", floor, None, "", None),
    ]


def by_many(act: Callable[[int], float]) -> float:
    """The wall time of 320 commands, 16 at once."""
    start = time.perf_counter()
    with ThreadPoolExecutor(CLAIMERS) as pool:
        list(pool.map(act, range(CLAIMS)))
    return time.perf_counter() - start


# -------------------------------------------------------------------------------------------------------- the result


def report(rows: list[Row], options: argparse.Namespace) -> str:
    lines = [
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}; medians of {options.rounds} runs, seconds of a whole process, tools taken in turn.",
        "",
        "| what | ours / fleetq | ours | fleetq | promised | holds |",
        "|---|---:|---:|---:|---|---|",
    ]
    for row in rows:
        theirs = "" if row.theirs is None else f"{row.theirs:.3f}"
        holds = {True: "yes", False: "**no**", None: ""}[row.holds]
        lines.append(f"| {row.what} | {row.ratio} | {row.ours:.3f} | {theirs} | {row.target} | {holds} |")
    return "\n".join(lines)


def publish(path: Path, text: str) -> None:
    begin, end = "<!-- figures -->", "<!-- end of figures -->"
    page = path.read_text(encoding="utf-8")
    head, rest = page.split(begin)
    path.write_text(f"{head}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
