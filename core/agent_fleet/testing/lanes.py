"""The contract of a lane, checked with real processes."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_fleet.errors import FleetError
from agent_fleet.model import Launch, Worker
from agent_fleet.process import identity_of, is_alive, stop_tree
from agent_fleet.protocols import Lane
from agent_fleet.testing.contract import PATIENCE, asked, check_name, check_usable, must, until

ODD = ("two words", "$HOME `id` $(id)", "'\"", "-n", "*", "", "line\nline", "\u00e9\U0001f680", "; exit 3", "\\")
INPUT = (b"line one\nline two \xf0\x9f\x9a\x80\n", b"0123456789abcdef" * 65536, b"")

# What a system adds to every process by itself.
_ADDED = frozenset({"__CF_USER_TEXT_ENCODING"})

_REPORT = """
import hashlib, json, os, sys
data = sys.stdin.buffer.read()
told = {"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv[2:], "stdin": hashlib.sha256(data).hexdigest()}
print("said on stdout", flush=True)
print("said on stderr", file=sys.stderr, flush=True)
with open(sys.argv[1] + ".new", "w") as file:
    json.dump(told, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""

_WAIT = """
import os, sys, time
end = time.monotonic() + float(sys.argv[2])
while not os.path.exists(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.02)
"""

_POLITE = """
import os, signal, sys, time
def leave(*_):
    open(os.path.join(sys.argv[1], "asked"), "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
time.sleep(float(sys.argv[2]))
"""

_STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
time.sleep(float(sys.argv[2]))
"""


@dataclass(frozen=True)
class Bench:
    """One lane and where its workers are tried; all of them carry one mark, by which they are swept at the end."""

    lane: Lane
    name: str
    place: Path
    patience: float
    mark: str = field(default_factory=lambda: f"check-{uuid.uuid4().hex}")

    def launch(self, what: str, code: str, *words: str, stdin: bytes = b"") -> Launch:
        """A worker that runs Python code in a directory of its own."""
        directory = self.place / what
        directory.mkdir(parents=True, exist_ok=True)
        return Launch(
            worker=f"w-{what}",
            argv=(sys.executable, "-I", "-S", "-c", code, *words),
            cwd=str(directory),
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "FLEET_WORKER": self.mark, "ODD": "a b\n$(id) '"},
            log=str(directory / "output.log"),
            stdin=stdin,
        )

    def start(self, launch: Launch) -> Worker:
        """Start it, and check what came back."""
        worker = asked(f"{self.name}.start()", self.lane.start, launch)
        must(isinstance(worker, Worker), f"{self.name}.start() gave {worker!r}, wanted a Worker")
        must(worker.id == launch.worker, f"{self.name} calls the worker {worker.id!r}, not {launch.worker!r}")
        must(worker.lane == self.name, f"{self.name} says that the worker is of the lane {worker.lane!r}")
        must(isinstance(worker.handle, str), f"{self.name} gives the handle {worker.handle!r}, wanted a text")
        return worker

    def stop(self, worker: Worker, grace: float) -> bool:
        return asked(f"{self.name}.stop()", self.lane.stop, worker, grace)

    def alive(self, worker: Worker) -> bool | None:
        found = asked(f"{self.name}.alive()", self.lane.alive, worker)
        must(found is None or isinstance(found, bool), f"{self.name}.alive() is {found!r}, wanted True, False or None")
        return found

    def over(self, worker: Worker) -> None:
        """Wait until the worker has ended, and check that the lane sees it."""
        name, lasting = self.name, "gives the identity of a process that outlives the worker"
        until(lambda: is_alive(worker.identity) is not True, f"{name} {lasting}", self.patience)
        until(lambda: self.alive(worker) is not True, f"{name} calls a worker alive that has ended", self.patience)


def check_lane(lane: Lane, tmp_path: Path, *, patience: float = PATIENCE) -> None:
    """Check a lane with workers that report what they were given, that wait, and that do not want to end.

    Call it only where `usable()` gives no reason. `patience` is how many seconds a loaded machine may take for each step.
    """
    name = check_name(lane)
    bench = Bench(lane, name, tmp_path, patience)
    _check_kind(bench)
    try:
        for number, data in enumerate(INPUT):
            _check_surroundings(bench, number, data)
        _check_start_returns(bench)
        _check_missing_program(bench)
        _check_polite(bench)
        _check_stubborn(bench)
    finally:
        stop_tree("", bench.mark, 0.0)


def _check_kind(bench: Bench) -> None:
    name, limit = bench.name, bench.lane.limit
    whole = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1
    must(limit is None or whole, f"{name}.limit is {limit!r}, wanted None or a number of at least 1")
    must(isinstance(bench.lane.foreground, bool), f"{name}.foreground is neither True nor False")
    reason = check_usable(name, bench.lane.usable)
    must(reason is None, f"{name} cannot be checked here: {reason}")


def _check_surroundings(bench: Bench, number: int, data: bytes) -> None:
    """What a worker finds: its arguments, its directory, its environment, its input; and where its output goes."""
    name = bench.name
    report = bench.place / f"report{number}.json"
    launch = bench.launch(f"report{number}", _REPORT, str(report), *ODD, stdin=data)
    Path(launch.log).write_text("earlier\n", encoding="utf-8")
    with _endless_input():
        worker = bench.start(launch)
        given = "its input did not end" if data else "it was given no input and waits for some"
        until(report.exists, f"a worker of {name} did not report: {given}, or it did not run", bench.patience)
    told: dict[str, Any] = json.loads(report.read_bytes())
    must(told["argv"] == list(ODD), f"{name} changes arguments: {told['argv']!r}")
    must(os.path.samefile(told["cwd"], launch.cwd), f"{name} starts a worker in {told['cwd']}, not in {launch.cwd}")
    wrong = _differences(launch.env, told["env"])
    must(not wrong, f"{name} does not give exactly the environment that it was given: {', '.join(wrong)}")
    must(told["stdin"] == _digest(data), f"{name} does not give a worker its input")
    bench.over(worker)
    log = Path(launch.log).read_text(encoding="utf-8", errors="replace")
    must(log.startswith("earlier\n"), f"{name} does not append to the log")
    must("said on stdout" in log and "said on stderr" in log, f"{name} does not write both outputs to the log")
    must(bench.stop(worker, 0.1) is True, f"{name} cannot say that a worker which has ended is gone")


def _check_start_returns(bench: Bench) -> None:
    """The worker waits for a file that is made only when `start` has returned."""
    name, go = bench.name, bench.place / "go"
    begun = time.monotonic()
    worker = bench.start(bench.launch("waits", _WAIT, str(go), str(bench.patience)))
    must(time.monotonic() - begun < bench.patience / 2, f"{name}.start() does not return while the worker runs")
    must(is_alive(worker.identity) is True, f"{name} gives an identity of nobody who lives: {worker.identity!r}")
    must(worker.identity.split(":")[0] == str(worker.pid), f"{name} gives a pid that is not that of the identity")
    must(bench.alive(worker) is not False, f"{name} calls a worker ended that lives")
    go.touch()
    bench.over(worker)


def _check_missing_program(bench: Bench) -> None:
    launch = bench.launch("missing", "")
    missing = Launch(
        worker=launch.worker,
        argv=(str(bench.place / "no-such-program"),),
        cwd=launch.cwd,
        env=launch.env,
        log=launch.log,
    )
    try:
        worker = bench.lane.start(missing)
    except FleetError:
        return
    except Exception as error:
        raise AssertionError(
            f"{bench.name}.start() raised {type(error).__name__} for a program that is not there: {error}"
        ) from error
    bench.over(worker)


def _check_polite(bench: Bench) -> None:
    """A worker that ends when it is asked is asked, and not killed at once."""
    worker, directory = _running(bench, "polite", _POLITE, 1)
    must(
        bench.stop(worker, bench.patience) is True, f"{bench.name}.stop() is not sure of a worker that ended when asked"
    )
    must((directory / "asked").exists(), f"{bench.name}.stop() kills a worker without asking it to end")
    must(bench.alive(worker) is not True, f"{bench.name} calls a worker alive that was stopped")


def _check_stubborn(bench: Bench) -> None:
    """A worker that will not end, with a child in another session, is gone all the same."""
    worker, directory = _running(bench, "stubborn", _STUBBORN, 2)
    identities = [identity_of(int(pid.name)) for pid in directory.iterdir() if pid.name.isdigit()]
    said = bench.stop(worker, 0.5)
    left = [identity for identity in identities if is_alive(identity) is not False]
    must(not (said and left), f"{bench.name}.stop() says that a worker is gone of which {len(left)} processes live")
    must(
        said is True,
        f"{bench.name}.stop() does not end a worker that ignores SIGTERM and has a child in its own session",
    )
    must(bench.alive(worker) is not True, f"{bench.name} calls a worker alive that was stopped")


def _running(bench: Bench, what: str, code: str, processes: int) -> tuple[Worker, Path]:
    """A worker that runs, once so many processes of it have shown themselves by a file named like their pid."""
    directory = bench.place / f"{what}-pids"
    directory.mkdir()
    worker = bench.start(bench.launch(what, code, str(directory), str(4 * bench.patience)))
    until(
        lambda: sum(path.name.isdigit() for path in directory.iterdir()) == processes,
        f"a worker of {bench.name} did not start",
        bench.patience,
    )
    return worker, directory


@contextmanager
def _endless_input() -> Iterator[None]:
    """Make our own standard input one that never ends, so that a worker which inherits it never finishes reading."""
    kept = os.dup(0)
    reading, writing = os.pipe()
    try:
        os.dup2(reading, 0)
        yield
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, reading, writing):
            os.close(descriptor)


def _differences(given: Any, found: dict[str, str]) -> list[str]:
    names = sorted((given.keys() | found.keys()) - _ADDED)
    words = {
        name: "is missing" if name not in found else "was added" if name not in given else "differs" for name in names
    }
    return [f"{name} {words[name]}" for name in names if given.get(name) != found.get(name)]


def _digest(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()
