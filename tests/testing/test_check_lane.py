from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.api import FleetError, Launch, Worker, identity_of, is_alive, start_detached, stop_tree
from agent_fleet.testing import check_lane

PATIENCE = 6.0


class Shed:
    """A sound lane, or one whose parts were replaced."""

    name = "shed"
    limit: Any = 3
    foreground: Any = False

    def __init__(self, **parts: Any) -> None:
        for name, part in parts.items():
            setattr(self, name, part)

    def usable(self) -> Any:
        return None

    def start(self, launch: Launch) -> Any:
        return start_detached(launch, lane=self.name)

    def alive(self, worker: Worker) -> Any:
        return is_alive(worker.identity)

    def stop(self, worker: Worker, grace: float) -> Any:
        return stop_tree(worker.identity, worker.handle, grace)


Start = Callable[[Launch], Worker]


def as_if(**changes: Any) -> Start:
    """A start that changes the launch before it starts it."""
    return lambda launch: start_detached(replace(launch, **{k: v(launch) for k, v in changes.items()}), lane="shed")


def says(**changes: Any) -> Start:
    """A start that does not tell the truth about the worker."""
    return lambda launch: replace(start_detached(launch, lane="shed"), **changes)


def spawn(launch: Launch, **settings: Any) -> Worker:
    """Start with plain `subprocess`, carelessly."""
    with open(launch.log, "ab") as log:
        options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": log, "stderr": log, "env": dict(launch.env)}
        child = subprocess.Popen(launch.argv, cwd=launch.cwd, start_new_session=True, **{**options, **settings})
    if child.stdin is not None:
        try:
            child.stdin.write(launch.stdin)
            child.stdin.close()
        except BrokenPipeError:
            pass
    worker = Worker(
        id=launch.worker,
        lane="shed",
        pid=child.pid,
        identity=identity_of(child.pid),
        handle=launch.env["FLEET_WORKER"],
    )
    child.returncode = 0  # nobody waits for it here; it is reaped when its number is asked for
    return worker


def truncates(launch: Launch) -> Worker:
    Path(launch.log).write_bytes(b"")
    return start_detached(launch, lane="shed")


def only_stdout(launch: Launch) -> Worker:
    return spawn(launch, stderr=subprocess.DEVNULL)


def inherits_input(launch: Launch) -> Worker:
    return spawn(launch, stdin=0) if not launch.stdin else start_detached(launch, lane="shed")


def leaves_input_open(launch: Launch) -> Worker:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    return spawn(launch, stdin=reading, pass_fds=(writing,))


def waits(launch: Launch) -> Worker:
    worker = start_detached(launch, lane="shed")
    while is_alive(worker.identity):
        time.sleep(0.02)
    return worker


def through_a_shell(launch: Launch) -> Worker:
    words = " ".join(f'"{word}"' if word else '""' for word in launch.argv[6:])
    return start_detached(replace(launch, argv=("sh", "-c", f'"$0" "$@" {words}', *launch.argv[:6])), lane="shed")


def raises_for_a_missing_program(launch: Launch) -> Worker:
    if not os.path.exists(launch.argv[0]):
        raise FileNotFoundError(launch.argv[0])
    return start_detached(launch, lane="shed")


def stops_one_alone(worker: Worker, _grace: float) -> bool:
    if is_alive(worker.identity):
        os.kill(worker.pid, 9)
    return True


def but_for(worker_id: str, answer: bool, call: Callable[..., Any]) -> Callable[..., Any]:
    """The truth of every worker but one."""

    def say(worker: Worker, *rest: Any) -> Any:
        told = call(Shed(), worker, *rest)
        return answer if worker.id == worker_id else told

    return say


def never_starts(launch: Launch) -> Worker:
    argv = ("true",) if launch.worker == "w-polite" else launch.argv
    return start_detached(replace(launch, argv=argv), lane="shed")


def only_asks(worker: Worker, grace: float) -> bool:
    if is_alive(worker.identity):
        os.kill(worker.pid, 15)
        end = time.monotonic() + grace
        while is_alive(worker.identity) and time.monotonic() < end:
            time.sleep(0.02)
    return not is_alive(worker.identity)


def test_a_sound_lane_passes(tmp_path: Path) -> None:
    check_lane(Shed(), tmp_path)


def test_a_lane_that_cannot_tell_who_lives_passes(tmp_path: Path) -> None:
    check_lane(Shed(alive=lambda _worker: None), tmp_path)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"name": "two words"}, "one printable word"),
        ({"limit": 0}, "wanted None or a number of at least 1"),
        ({"limit": True}, "wanted None or a number of at least 1"),
        ({"foreground": None}, "neither True nor False"),
        ({"usable": lambda: "there is no shed"}, "cannot be checked here: there is no shed"),
        ({"usable": lambda: 1 // 0}, r"usable\(\) raised ZeroDivisionError"),
        ({"start": lambda _launch: 1 // 0}, r"start\(\) raised ZeroDivisionError"),
        ({"start": lambda _launch: 4711}, "wanted a Worker"),
        ({"start": says(id="somebody")}, "calls the worker 'somebody'"),
        ({"start": says(lane="barn")}, "of the lane 'barn'"),
        ({"start": says(handle=None)}, "the handle None"),
        ({"start": says(pid=1)}, "not that of the identity"),
        ({"start": says(identity=identity_of(1)), "alive": lambda _: None, "stop": lambda *_: True}, "outlives|a pid"),
        (
            {"start": says(identity="1:2:3:4:5"), "alive": lambda _: None, "stop": lambda *_: True},
            "of nobody who lives",
        ),
        ({"start": as_if(env=lambda launch: dict(os.environ) | dict(launch.env))}, "exactly the environment"),
        ({"start": as_if(env=lambda launch: {**launch.env, "ODD": "x"})}, "ODD differs"),
        ({"start": as_if(cwd=lambda _launch: "/")}, "starts a worker in /"),
        ({"start": as_if(stdin=lambda _launch: b"")}, "its input"),
        ({"start": as_if(stdin=lambda launch: launch.stdin[:4096])}, "its input"),
        ({"start": as_if(log=lambda _launch: os.devnull)}, "both outputs"),
        ({"start": truncates}, "does not append"),
        ({"start": only_stdout}, "both outputs"),
        ({"start": inherits_input}, "no input and waits"),
        ({"start": leaves_input_open}, "its input did not end"),
        ({"start": through_a_shell}, "changes arguments"),
        ({"start": waits}, "does not return while the worker runs"),
        ({"start": raises_for_a_missing_program}, "raised FileNotFoundError for a program"),
        ({"alive": lambda _worker: "yes"}, "wanted True, False or None"),
        ({"alive": lambda _worker: True}, "alive that has ended"),
        ({"alive": lambda _worker: False}, "calls a worker ended that lives"),
        ({"alive": lambda _worker: 1 // 0}, r"alive\(\) raised ZeroDivisionError"),
        ({"stop": lambda _worker, _grace: 1 // 0}, r"stop\(\) raised ZeroDivisionError"),
        ({"stop": lambda _worker, _grace: None}, "cannot say that a worker which has ended is gone"),
        ({"stop": lambda _worker, _grace: True}, "without asking it to end"),
        ({"stop": stops_one_alone}, "without asking it to end"),
        ({"start": never_starts}, "did not start"),
        ({"alive": but_for("w-polite", True, Shed.alive)}, "alive that was stopped"),
        ({"alive": but_for("w-stubborn", True, Shed.alive)}, "alive that was stopped"),
        ({"stop": but_for("w-polite", False, Shed.stop)}, "not sure of a worker that ended when asked"),
        ({"stop": only_asks}, "does not end a worker that ignores SIGTERM"),
    ],
)
def test_a_broken_promise_is_named(parts: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_lane(Shed(**parts), tmp_path, patience=PATIENCE)


def test_a_lane_that_leaves_a_child_and_says_that_it_is_gone_is_caught(tmp_path: Path) -> None:
    def leaves_the_child(worker: Worker, grace: float) -> bool:
        if only_asks(worker, grace):
            return True
        os.kill(worker.pid, 9)
        return True

    with pytest.raises(AssertionError, match=r"says that a worker is gone of which [12] processes live"):
        check_lane(Shed(stop=leaves_the_child), tmp_path, patience=PATIENCE)


def test_a_worker_that_nobody_will_stop_is_swept_all_the_same(tmp_path: Path) -> None:
    from agent_fleet.process import marked

    seen: list[str] = []

    def start(launch: Launch) -> Worker:
        seen.append(launch.env["FLEET_WORKER"])
        return start_detached(launch, lane="shed")

    with pytest.raises(AssertionError):
        check_lane(Shed(start=start, stop=lambda _worker, _grace: True), tmp_path, patience=PATIENCE)
    assert seen
    assert marked(seen[0]) == []


def test_a_refusal_to_start_what_is_not_there_may_be_a_sentence(tmp_path: Path) -> None:
    def start(launch: Launch) -> Worker:
        if not os.path.exists(launch.argv[0]):
            raise FleetError("unusable", "it is not there", hint="install it")
        return start_detached(launch, lane="shed")

    check_lane(Shed(start=start), tmp_path)
