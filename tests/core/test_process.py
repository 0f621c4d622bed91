"""Whole trees: found, measured and ended with proof, while everything else goes on."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet import process
from agent_fleet.errors import FleetError
from agent_fleet.identity import LINUX, identity_of, is_alive
from agent_fleet.model import Launch, Worker
from support import procs

linux_only = pytest.mark.skipif(not LINUX, reason="reads /proc")

NOTE = "import os; open(os.path.join(os.environ['OUT'], str(os.getpid())), 'w').close(); "
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def mark() -> Iterator[str]:
    with procs.new_mark() as mark:
        yield mark


def launch(tmp_path: Path, mark: str, argv: list[str], stdin: bytes = b"", **env: str) -> Launch:
    (tmp_path / "pids").mkdir(exist_ok=True)
    environment = procs.environment(mark, OUT=str(tmp_path / "pids"), **env)
    return Launch(
        worker="w1", argv=tuple(argv), cwd=str(tmp_path), env=environment, log=str(tmp_path / "log"), stdin=stdin
    )


def started(tmp_path: Path, mark: str, argv: list[str], *, pids: int) -> Worker:
    """Start a command and wait until as many processes as it makes have written their numbers."""
    worker = process.start_detached(launch(tmp_path, mark, argv), lane="headless")
    procs.wait_until(lambda: len(procs.pids_in(tmp_path / "pids")) == pids, f"{pids} processes run")
    return worker


def stop(worker: Worker, grace: float = 0.5) -> bool:
    return process.stop_tree(worker.identity, worker.handle, grace)


def nothing_runs(tmp_path: Path) -> bool:
    return not any(procs.running(pid) for pid in procs.pids_in(tmp_path / "pids"))


# ------------------------------------------------------------------------------------------------------ starting


def test_a_detached_process_has_its_own_session_log_and_exactly_its_environment(tmp_path: Path, mark: str) -> None:
    code = "import os, sys; print('leads', os.getsid(0) == os.getpid(), file=sys.stderr); os.execvp('env', ['env'])"
    (tmp_path / "log").write_text("before\n")
    wanted = launch(tmp_path, mark, procs.python(code), LC_ALL="C.UTF-8")
    worker = process.start_detached(wanted, lane="serial")
    procs.wait_until(lambda: is_alive(worker.identity) is False, "it ends")

    before, leads, *environment = (tmp_path / "log").read_text().splitlines()
    assert (before, leads) == ("before", "leads True")
    assert dict(line.split("=", 1) for line in environment) == wanted.env
    assert (worker.id, worker.lane, worker.handle) == ("w1", "serial", mark)


def test_a_new_log_can_be_read_by_its_owner_only(tmp_path: Path, mark: str) -> None:
    process.start_detached(launch(tmp_path, mark, ["true"]), lane="headless")
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_a_log_that_is_a_link_is_refused(tmp_path: Path, mark: str) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FleetError):
        process.start_detached(launch(tmp_path, mark, ["true"]), lane="headless")
    assert not (tmp_path / "elsewhere").exists()


def test_a_megabyte_of_input_arrives_byte_for_byte(tmp_path: Path, mark: str) -> None:
    data = os.urandom(1 << 20)
    code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    worker = process.start_detached(launch(tmp_path, mark, procs.python(code), stdin=data), lane="headless")
    procs.wait_until(lambda: is_alive(worker.identity) is False, "it reads to the end")
    assert (tmp_path / "log").read_text().strip() == hashlib.sha256(data).hexdigest()


def test_without_input_the_end_is_read_at_once(tmp_path: Path, mark: str) -> None:
    worker = process.start_detached(launch(tmp_path, mark, ["cat"]), lane="headless")
    procs.wait_until(lambda: is_alive(worker.identity) is False, "cat sees the end of its input")


@pytest.mark.parametrize(
    ("argv", "cwd", "said"),
    [
        (["no-such-program-here"], ".", "no-such-program-here"),
        (["true"], "nowhere", "nowhere"),
        (["a\0b"], ".", "cannot be started"),
        ([], ".", "no command"),
    ],
)
def test_what_cannot_be_started_is_named(tmp_path: Path, mark: str, argv: list[str], cwd: str, said: str) -> None:
    wanted = launch(tmp_path, mark, argv)
    wanted = Launch(worker="w", argv=wanted.argv, cwd=str(tmp_path / cwd), env=wanted.env, log=wanted.log)
    with pytest.raises(FleetError) as caught:
        process.start_detached(wanted, lane="headless")
    assert caught.value.code == "unusable" and said in caught.value.message and caught.value.hint


def test_a_started_process_leaves_no_zombie(tmp_path: Path, mark: str) -> None:
    worker = process.start_detached(launch(tmp_path, mark, ["true"]), lane="headless")
    procs.wait_until(lambda: not Path(f"/proc/{worker.pid}").exists(), "it was waited for")


# -------------------------------------------------------------------------------------------------------- finding


@linux_only
def test_a_tree_is_found_by_descent_and_by_mark_and_nothing_else_is(tmp_path: Path, mark: str) -> None:
    scrubbed = ["env", "-i", sys.executable, "-I", "-S", "-c", SLEEP]
    code = f"{NOTE}import subprocess; subprocess.Popen({scrubbed!r}); "
    away = procs.python(NOTE + SLEEP)
    code += f"subprocess.Popen({away!r}, start_new_session=True).wait()"
    with subprocess.Popen(procs.python(SLEEP)) as foreign:
        worker = started(tmp_path, mark, procs.python(code), pids=2)
        procs.wait_until(lambda: len(process.descendants(worker.pid)) == 2, "both children run")
        try:
            found = {proc.pid for proc in process.tree(worker.identity, mark)}
            assert found == {worker.pid, *(proc.pid for proc in process.descendants(worker.pid))}
            assert {proc.pid for proc in process.marked(mark)} == set(procs.pids_in(tmp_path / "pids"))
            assert foreign.pid not in found
        finally:
            foreign.kill()
            stop(worker)


def test_no_mark_marks_nothing() -> None:
    with subprocess.Popen(procs.python(SLEEP), env={"FLEET_WORKER": "", "FLEET_RUN": ""}) as child:
        try:
            assert process.marked("") == []
        finally:
            child.kill()


def test_part_of_a_mark_is_not_the_mark(tmp_path: Path, mark: str) -> None:
    started(tmp_path, mark, procs.python(NOTE + SLEEP), pids=1)
    assert process.marked(mark[:-1]) == []
    assert len(process.marked(mark)) == 1


def test_a_run_mark_finds_the_workers_of_the_run(tmp_path: Path, mark: str) -> None:
    wanted = launch(tmp_path, mark, procs.python(NOTE + SLEEP), FLEET_RUN=f"run-{mark}")
    worker = process.start_detached(wanted, lane="headless")
    procs.wait_until(lambda: procs.pids_in(tmp_path / "pids"), "it runs")
    assert [proc.pid for proc in process.marked(f"run-{mark}")] == [worker.pid]


# --------------------------------------------------------------------------------------------------------- ending


CHILDREN = {
    "plain": NOTE + SLEEP,
    "deaf": NOTE + DEAF + SLEEP,
    "session": NOTE + "os.setsid(); " + SLEEP,
    "deaf in a session": NOTE + DEAF + "os.setsid(); " + SLEEP,
    "daemon": "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); " + DEAF + NOTE + SLEEP,
}


@pytest.mark.parametrize("child", CHILDREN.values(), ids=CHILDREN.keys())
def test_after_stop_nothing_of_the_tree_runs_and_a_foreign_namesake_does(tmp_path: Path, mark: str, child: str) -> None:
    code = f"{NOTE}import subprocess; subprocess.Popen({procs.python(child)!r}); {SLEEP}"
    with subprocess.Popen(procs.python(SLEEP)) as foreign:
        try:
            worker = started(tmp_path, mark, procs.python(code), pids=2)
            assert stop(worker)
            assert nothing_runs(tmp_path)
            assert procs.running(foreign.pid)
        finally:
            foreign.kill()


@linux_only
def test_a_child_without_the_mark_is_ended_although_its_parent_ends_first(tmp_path: Path, mark: str) -> None:
    scrubbed = ["env", "-i", f"OUT={tmp_path / 'pids'}", *procs.python(NOTE + DEAF + "os.setsid(); " + SLEEP)]
    code = f"{NOTE}import subprocess; subprocess.Popen({scrubbed!r}); {SLEEP}"
    worker = started(tmp_path, mark, procs.python(code), pids=2)

    assert stop(worker)
    assert nothing_runs(tmp_path)


def test_what_is_left_of_a_worker_that_ended_is_found_by_its_mark(tmp_path: Path, mark: str) -> None:
    code = f"{NOTE}import subprocess; subprocess.Popen({procs.python(NOTE + DEAF + SLEEP)!r}, start_new_session=True)"
    worker = started(tmp_path, mark, procs.python(code), pids=2)
    procs.wait_until(lambda: is_alive(worker.identity) is False, "the first process ends")
    assert not nothing_runs(tmp_path)

    assert stop(worker)
    assert nothing_runs(tmp_path)


def test_a_burst_of_forks_during_stop_does_not_escape(tmp_path: Path, mark: str) -> None:
    code = (
        f"{NOTE}{DEAF}import time\n"
        "def burst(*_):\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    for _ in range(100):\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        "            open(os.path.join(os.environ['OUT'], str(os.getpid())), 'w').close()\n"
        "            time.sleep(600)\n"
        "signal.signal(signal.SIGTERM, burst)\n"
        "open(os.path.join(os.environ['OUT'], 'ready'), 'w').close()\n"
        "while True: time.sleep(1)\n"
    )
    worker = started(tmp_path, mark, procs.python(code), pids=1)
    procs.wait_until((tmp_path / "pids" / "ready").exists, "it listens")

    assert stop(worker, grace=0.2)
    assert nothing_runs(tmp_path)
    assert process.marked(mark) == []


@linux_only
def test_a_child_born_between_the_look_and_the_kill_does_not_escape(tmp_path: Path, mark: str) -> None:
    fork = (
        f"{NOTE}{DEAF}import time\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "for _ in range(2000):\n"
        "    if os.fork() == 0:\n"
        "        open(os.path.join(os.environ['OUT'], str(os.getpid())), 'w').close()\n"
        "        time.sleep(600)\n"
        "    time.sleep(0.003)\n"
        "time.sleep(600)\n"
    )
    unmarked = ["env", "-i", f"OUT={tmp_path / 'pids'}", *procs.python(fork)]
    code = f"import subprocess; subprocess.Popen({unmarked!r}).wait()"
    worker = process.start_detached(launch(tmp_path, mark, procs.python(code)), lane="headless")
    try:
        procs.wait_until(lambda: len(procs.pids_in(tmp_path / "pids")) > 20, "it forks")
        assert stop(worker, grace=0.0)
        assert nothing_runs(tmp_path)
    finally:
        for pid in procs.pids_in(tmp_path / "pids"):
            if procs.running(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_stopped_process_is_ended(tmp_path: Path, mark: str) -> None:
    worker = started(tmp_path, mark, procs.python(NOTE + SLEEP), pids=1)
    os.kill(worker.pid, signal.SIGSTOP)
    assert stop(worker, grace=5.0)
    assert nothing_runs(tmp_path)


def test_a_first_process_that_ends_well_has_the_time_for_its_record(tmp_path: Path, mark: str) -> None:
    code = (
        f"{NOTE}import signal, sys, time\n"
        "def end(*_):\n"
        "    time.sleep(0.8)\n"
        "    open(os.path.join(os.environ['OUT'], 'record'), 'w').close()\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "open(os.path.join(os.environ['OUT'], 'ready'), 'w').close()\n"
        "while True: time.sleep(1)\n"
    )
    worker = started(tmp_path, mark, procs.python(code), pids=1)
    procs.wait_until((tmp_path / "pids" / "ready").exists, "it listens")

    assert stop(worker, grace=0.1)
    assert (tmp_path / "pids" / "record").exists()


def test_a_reused_number_is_never_signalled() -> None:
    with subprocess.Popen(procs.python(SLEEP)) as foreign:
        try:
            pid, _, *rest = identity_of(foreign.pid).split(":")
            assert process.tree(":".join([pid, "1", *rest]), "") == []
            assert process.stop_tree(":".join([pid, "1", *rest]), "", 0.1)
            assert not process.send(process.Proc(foreign.pid, "1", 0), signal.SIGKILL)
            assert not process.ask_to_end(":".join([pid, "1", *rest]))
            with pytest.raises(subprocess.TimeoutExpired):
                foreign.wait(0.5)
        finally:
            foreign.kill()


def test_a_process_can_be_asked_to_end(tmp_path: Path, mark: str) -> None:
    worker = started(tmp_path, mark, procs.python(NOTE + SLEEP), pids=1)
    assert process.ask_to_end(worker.identity)
    procs.wait_until(lambda: is_alive(worker.identity) is False, "it ends")
    assert not process.ask_to_end(worker.identity)


@pytest.mark.parametrize("identity", ["4:1:feed:1:beef", "nonsense"])
def test_an_end_that_cannot_be_seen_from_here_is_not_claimed(identity: str, mark: str) -> None:
    assert process.stop_tree(identity, mark, 0.1) is False


def test_neither_this_process_nor_one_above_it_is_part_of_a_tree() -> None:
    above = {os.getpid(), os.getppid()}
    assert not above & {proc.pid for proc in process.tree(identity_of(os.getppid()), "")}


# ------------------------------------------------------------------------------------------------------- measuring


@linux_only
def test_memory_is_the_pss_of_the_whole_tree(tmp_path: Path, mark: str) -> None:
    size = 64 << 20
    child = f"x = b'x' * {size}; {NOTE}{SLEEP}"
    code = (
        f"x = b'x' * {size}; import os\n"  # shared by both processes of the fork, so it counts once
        "os.fork()\n"
        f"{NOTE}import subprocess; subprocess.Popen({procs.python(child)!r}).wait()\n"
    )
    worker = started(tmp_path, mark, procs.python(code), pids=4)
    used = process.usage_of(worker.identity, mark)

    assert used.basis == "pss" and used.processes == 4 and used.memory is not None
    assert 3 * size < used.memory < 3.8 * size


@linux_only
def test_cpu_counts_children_that_have_ended(tmp_path: Path, mark: str) -> None:
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    code = f"import subprocess; subprocess.run({procs.python(busy)!r}); {NOTE}{SLEEP}"
    worker = started(tmp_path, mark, procs.python(code), pids=1)
    used = process.usage_of(worker.identity, mark)

    assert used.cpu is not None and 0.45 < used.cpu < 5


def test_what_a_worker_that_is_gone_uses_is_unknown(tmp_path: Path, mark: str) -> None:
    worker = process.start_detached(launch(tmp_path, mark, ["true"]), lane="headless")
    procs.wait_until(lambda: is_alive(worker.identity) is False, "it ends")
    assert process.usage_of(worker.identity, mark) == (None, "unknown", None, 0)
