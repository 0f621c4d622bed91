"""The keeper: it runs an agent only under a lease, and reports only when nothing of the agent is left."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fleet import process
from agent_fleet.identity import LINUX, is_alive
from support import procs

pytestmark = pytest.mark.skipif(not LINUX, reason="a keeper is a child subreaper only on Linux")

NOTE = "import os; open(os.path.join(os.environ['OUT'], str(os.getpid())), 'w').close(); "
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
SLEEP = "import time; time.sleep(600)"
# Leaves its parent, its session and its environment, and does not listen.
HIDDEN = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); " + DEAF + NOTE + SLEEP


@pytest.fixture
def mark() -> Iterator[str]:
    with procs.new_mark() as mark:
        yield mark


def attempt(tmp_path: Path, mark: str, code: str, **order: Any) -> procs.Attempt:
    """An attempt whose agent is Python code that can leave its pid in `pids`."""
    (tmp_path / "pids").mkdir(exist_ok=True)
    env = procs.environment(mark, OUT=str(tmp_path / "pids"))
    return procs.Attempt(tmp_path, mark, procs.python(code), env=env, **order)


def scrubbed(tmp_path: Path, code: str) -> list[str]:
    return ["env", "-i", f"OUT={tmp_path / 'pids'}", *procs.python(code)]


def wait_for_pids(tmp_path: Path, count: int) -> list[int]:
    procs.wait_until(lambda: len(procs.pids_in(tmp_path / "pids")) == count, f"{count} processes run")
    return procs.pids_in(tmp_path / "pids")


def nothing_runs(tmp_path: Path) -> bool:
    return not any(procs.running(pid) for pid in procs.pids_in(tmp_path / "pids"))


# --------------------------------------------------------------------------------------------------------- the lease


def test_the_lease_belongs_to_the_keeper_while_the_agent_runs(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, NOTE + SLEEP)
    with kept.start() as keeper:
        wait_for_pids(tmp_path, 1)
        owner = kept.owner()
        assert owner["identity"].split(":")[0] == str(keeper.pid)
        assert is_alive(owner["identity"]) is True
        assert (owner["agent"], owner["lane"], owner["mark"]) == ("claude", "headless", mark)
        assert tmp_path / owner["worker_dir"] == kept.dir
        assert not kept.lease.exists()
        keeper.terminate()


def test_without_its_lease_the_agent_never_starts(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, NOTE)
    kept.lease.unlink()

    assert kept.run()["cause"] == "lost"
    assert procs.pids_in(tmp_path / "pids") == []
    assert os.listdir(kept.active) == []


def test_a_lease_that_is_taken_away_ends_the_agent(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, NOTE + SLEEP, beat=0.2)
    with kept.start():
        wait_for_pids(tmp_path, 1)
        (name,) = os.listdir(kept.active)
        (kept.active / name).rename(tmp_path / "taken")
    assert kept.exit()["cause"] == "lost"
    assert nothing_runs(tmp_path)


def test_a_lease_that_the_agent_itself_finished_is_not_taken_away(tmp_path: Path, mark: str) -> None:
    code = (
        "import glob, os, time\n"
        "os.makedirs('records/0000000'); open('records/0000000/t1.g3.json', 'w').close()\n"
        "[os.unlink(name) for name in glob.glob('active/*')]\n"
        "time.sleep(1.5)\n"
        "print('last words')\n"
    )
    kept = attempt(tmp_path, mark, code, beat=0.2)

    record = kept.run()
    assert (record["cause"], record["code"]) == ("exited", 0)
    assert kept.log.read_text() == "last words\n"


def test_an_agent_that_goes_on_after_its_report_is_ended(tmp_path: Path, mark: str) -> None:
    code = (
        "import glob, os, time\n"
        "os.makedirs('records/0000000'); open('records/0000000/t1.g3.json', 'w').close()\n"
        "[os.unlink(name) for name in glob.glob('active/*')]\n"
        "time.sleep(600)\n"
    )
    record = attempt(tmp_path, mark, code, beat=0.2, linger=0.5).run()
    assert record["cause"] == "stopped"
    assert "reported" in record["note"]


def test_the_heartbeat_of_the_lease_moves(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, NOTE + SLEEP, beat=0.2)
    with kept.start() as keeper:
        wait_for_pids(tmp_path, 1)
        (name,) = os.listdir(kept.active)
        before = (kept.active / name).stat().st_mtime_ns
        procs.wait_until(lambda: (kept.active / name).stat().st_mtime_ns > before, "a heartbeat")
        keeper.terminate()


def test_an_attempt_that_has_its_record_is_not_made_again(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, NOTE)
    (kept.dir / "exit.json").write_text('{"cause": "exited"}')

    assert kept.run() == {"cause": "exited"}
    assert procs.pids_in(tmp_path / "pids") == []
    assert kept.lease.exists()


# ------------------------------------------------------------------------------------------------------ the end


def test_an_end_is_recorded_with_code_time_and_use(tmp_path: Path, mark: str) -> None:
    busy = "import time, sys\nx = b'x' * (40 << 20)\nwhile time.process_time() < 0.5: pass\nsys.exit(3)"
    kept = attempt(tmp_path, mark, busy)
    record = kept.run()

    assert (record["code"], record["signal"], record["cause"], record["note"]) == (3, None, "exited", "")
    assert record["cpu"] >= 0.5 and 0.5 <= record["seconds"] < 60
    assert record["max_rss"] > 40 << 20
    assert record["leftovers"] == {"count": 0, "commands": []}
    assert abs(record["ended"] - time.time()) < 60


def test_death_by_a_signal_is_recorded_as_that(tmp_path: Path, mark: str) -> None:
    record = attempt(tmp_path, mark, "import os; os.kill(os.getpid(), 9)").run()
    assert (record["code"], record["signal"], record["cause"]) == (None, 9, "exited")


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"argv": ["no-such-program-here"]}, "No such file or directory (no-such-program-here)"),
        ({"cwd": "/nonexistent-directory"}, "No such file or directory (/nonexistent-directory)"),
        ({"argv": ["/"]}, "Permission denied (/)"),
        ({"stdin": "/nonexistent-file"}, "/nonexistent-file"),
        ({"log": "/nonexistent-directory/log"}, "/nonexistent-directory/log"),
        ({"argv": []}, "needs a command"),
        ({"argv": ["a\0b"]}, "embedded null"),
        ({"mark": ""}, "needs a command and a mark"),
        ({"env": None}, "keeper"),
    ],
)
def test_what_cannot_be_started_is_recorded_with_its_reason(
    tmp_path: Path, mark: str, change: dict[str, Any], note: str
) -> None:
    record = procs.Attempt(tmp_path, mark, ["true"], **change).run()
    assert (record["cause"], record["code"]) == ("unstarted", None)
    assert note in record["note"]


def test_a_megabyte_of_input_arrives_byte_for_byte(tmp_path: Path, mark: str) -> None:
    data = os.urandom(1 << 20)
    (tmp_path / "prompt").write_bytes(data)
    code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    kept = attempt(tmp_path, mark, code, stdin=str(tmp_path / "prompt"))

    assert kept.run()["code"] == 0
    assert kept.log.read_text().strip() == hashlib.sha256(data).hexdigest()


def test_an_agent_that_never_reads_its_input_does_not_hang(tmp_path: Path, mark: str) -> None:
    (tmp_path / "prompt").write_bytes(b"x" * (1 << 20))
    assert attempt(tmp_path, mark, "print('done')", stdin=str(tmp_path / "prompt")).run()["code"] == 0


def test_without_input_the_agent_reads_the_end_at_once(tmp_path: Path, mark: str) -> None:
    assert procs.Attempt(tmp_path, mark, ["cat"]).run()["code"] == 0


def test_an_agent_that_closes_its_output_is_kept_to_its_end(tmp_path: Path, mark: str) -> None:
    code = "import os, time; print('x', flush=True); os.close(1); os.close(2); time.sleep(0.5); os._exit(7)"
    assert attempt(tmp_path, mark, code).run()["code"] == 7


def test_the_agent_starts_with_ordinary_signals(tmp_path: Path, mark: str) -> None:
    shown = ["sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status"]
    kept = procs.Attempt(tmp_path, mark, shown)
    kept.run()
    ours = ~(0b11 << 31)  # the C library keeps signals 32 and 33 for itself: nobody can change what was inherited there
    assert {int(line.split()[1], 16) & ours for line in kept.log.read_text().splitlines()} == {0}


# ------------------------------------------------------------------------------------------------------ the limits


@pytest.mark.parametrize(
    ("code", "limits", "cause"),
    [
        ("while True: print('x', flush=True); time.sleep(0.1)", {"total": 1.0, "idle": 30}, "timeout"),
        ("time.sleep(600)", {"first_byte": 0.6, "idle": 30, "total": 60}, "first_byte"),
        ("print('x', flush=True); time.sleep(600)", {"first_byte": 30, "idle": 1.2, "total": 60}, "idle"),
        ("time.sleep(600)", {"idle": 0.6, "total": 60}, "idle"),
        ("while True: print('x' * 999, flush=True)", {"max_log": 100_000, "total": 60}, "log_limit"),
    ],
)
def test_each_limit_ends_the_agent_with_its_own_cause(
    tmp_path: Path, mark: str, code: str, limits: dict[str, float], cause: str
) -> None:
    kept = attempt(tmp_path, mark, f"{NOTE}import time\n{code}", **limits)
    record = kept.run()

    assert record["cause"] == cause and record["note"] and record["signal"] == signal.SIGTERM
    assert nothing_runs(tmp_path)


def test_a_log_that_was_not_empty_does_not_count_as_a_first_byte(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, SLEEP, first_byte=0.5, total=30)
    kept.log.write_text("of an earlier program\n")
    assert kept.run()["cause"] == "first_byte"


def test_no_limit_is_reached_by_an_agent_that_keeps_them(tmp_path: Path, mark: str) -> None:
    code = "import time\nfor _ in range(10): print('x', flush=True); time.sleep(0.1)"
    kept = attempt(tmp_path, mark, code, total=60, first_byte=30, idle=30, max_log=1000)
    assert kept.run()["cause"] == "exited"


# ------------------------------------------------------------------------------------------------- the whole tree


@pytest.mark.parametrize("stopped", [False, True], ids=["after its own end", "after a stop"])
def test_nothing_survives_not_even_a_daemon_without_a_mark(tmp_path: Path, mark: str, stopped: bool) -> None:
    children = [scrubbed(tmp_path, HIDDEN), scrubbed(tmp_path, NOTE + DEAF + SLEEP), procs.python(HIDDEN)]
    code = f"import subprocess\nfor child in {children!r}: subprocess.Popen(child)\n{NOTE}\n"
    code += "import time\nwhile len(os.listdir(os.environ['OUT'])) < 4: time.sleep(0.02)\n"
    kept = attempt(tmp_path, mark, code + (SLEEP if stopped else ""), grace=0.5)
    with subprocess.Popen(procs.python(SLEEP)) as foreign:
        try:
            with kept.start() as keeper:
                wait_for_pids(tmp_path, 4)
                if stopped:
                    keeper.terminate()
                procs.wait_until(kept.ended, "the attempt ends")
                assert nothing_runs(tmp_path)
            record = kept.exit()
            assert record["cause"] == ("stopped" if stopped else "exited")
            assert record["leftovers"]["count"] == (0 if stopped else 3)
            assert procs.running(foreign.pid)
        finally:
            foreign.kill()


def test_leftovers_are_named_by_their_program(tmp_path: Path, mark: str) -> None:
    code = f"import os, subprocess, time; subprocess.Popen({procs.python(NOTE + SLEEP)!r}, start_new_session=True)\n"
    record = attempt(tmp_path, mark, code + "while not os.listdir(os.environ['OUT']): time.sleep(0.02)").run()
    assert record["leftovers"] == {"count": 1, "commands": [os.path.basename(os.path.realpath(sys.executable))]}


def test_a_shell_that_ends_just_behind_its_agent_is_no_leftover(tmp_path: Path, mark: str) -> None:
    record = procs.Attempt(tmp_path, mark, ["sh", "-c", "sleep 0.05 &"]).run()
    assert record["leftovers"]["count"] == 0


def test_a_stop_is_recorded_with_the_reason_that_was_left(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, NOTE + SLEEP)
    (kept.dir / "stop").write_text("shed\nmore\n")
    with kept.start() as keeper:
        wait_for_pids(tmp_path, 1)
        keeper.terminate()
    record = kept.exit()
    assert (record["cause"], record["note"], record["signal"]) == ("stopped", "shed", signal.SIGTERM)


def test_an_agent_that_ends_well_while_it_is_stopped_keeps_its_result_apart(tmp_path: Path, mark: str) -> None:
    code = f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); {NOTE}{SLEEP}"
    kept = attempt(tmp_path, mark, code)
    with kept.start() as keeper:
        wait_for_pids(tmp_path, 1)
        keeper.terminate()
    assert (kept.exit()["cause"], kept.exit()["code"]) == ("stopped", 0)


def test_stop_tree_lets_the_keeper_write_its_record(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, NOTE + DEAF + SLEEP, grace=0.5)
    with kept.start():
        wait_for_pids(tmp_path, 1)
        assert process.stop_tree(kept.owner()["identity"], mark, 0.5)
    assert kept.exit()["cause"] == "stopped"
    assert nothing_runs(tmp_path)


# -------------------------------------------------------------------------------------------------------- survival


def test_a_killed_keeper_takes_its_agent_along_and_the_rest_is_found_by_its_mark(tmp_path: Path, mark: str) -> None:
    code = f"import subprocess; subprocess.Popen({procs.python(NOTE + DEAF + SLEEP)!r}, start_new_session=True)\n"
    kept = attempt(
        tmp_path, mark, f"{code}{NOTE}open(os.path.join(os.environ['OUT'], 'agent' + str(os.getpid())), 'w')\n{SLEEP}"
    )
    with kept.start() as keeper:
        wait_for_pids(tmp_path, 2)
        procs.wait_until(lambda: list((tmp_path / "pids").glob("agent*")), "the agent says which it is")
        identity = kept.owner()["identity"]
        keeper.kill()
    (agent,) = (int(path.name.removeprefix("agent")) for path in (tmp_path / "pids").glob("agent*"))
    procs.wait_until(lambda: not procs.running(agent), "the agent dies with its keeper")
    assert not nothing_runs(tmp_path) and not kept.ended()

    assert process.stop_tree(identity, mark, 0.2)
    assert nothing_runs(tmp_path)


def test_a_keeper_goes_on_when_its_driver_is_killed(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, f"{NOTE}import time\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('ok')")
    (kept.dir / "keeper.json").write_text(json.dumps(kept.order))
    command = [sys.executable, "-I", "-S", procs.KEEPER, str(kept.dir)]
    driver = f"import subprocess, time; subprocess.Popen({command!r}); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", driver], env=procs.environment(mark)) as driving:
        wait_for_pids(tmp_path, 1)
        driving.kill()
    (tmp_path / "go").touch()
    procs.wait_until(kept.ended, "the keeper writes its record")
    assert (kept.exit()["code"], kept.log.read_text()) == (0, "ok\n")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_signals_of_a_terminal_do_not_end_a_keeper(tmp_path: Path, mark: str, number: int) -> None:
    kept = attempt(tmp_path, mark, f"{NOTE}import time\nwhile not os.path.exists('go'): time.sleep(0.02)")
    with kept.start() as keeper:
        wait_for_pids(tmp_path, 1)
        os.kill(keeper.pid, number)
        (tmp_path / "go").touch()
    assert (kept.exit()["cause"], kept.exit()["code"]) == ("exited", 0)


def test_a_keeper_needs_no_open_streams(tmp_path: Path, mark: str) -> None:
    (tmp_path / "prompt").write_text("in")
    code = f"{NOTE}import sys, time; print(sys.stdin.read())\nwhile not os.path.exists('go'): time.sleep(0.02)"
    kept = attempt(tmp_path, mark, code, stdin=str(tmp_path / "prompt"))
    with kept.start(close_streams=True) as keeper:
        wait_for_pids(tmp_path, 1)
        assert {os.readlink(f"/proc/{keeper.pid}/fd/{number}") for number in range(3)} == {os.devnull}
        (tmp_path / "go").touch()
    assert kept.exit()["code"] == 0
    assert kept.log.read_text() == "in\n"


def test_a_record_is_whole_whenever_it_exists(tmp_path: Path, mark: str) -> None:
    chance = random.Random(20)
    (tmp_path / "first").mkdir()
    begun = time.monotonic()
    attempt(tmp_path / "first", mark, "print('x' * 1000)").run()
    usual = time.monotonic() - begun
    whole = 0
    for turn in range(20):
        root = tmp_path / str(turn)
        root.mkdir()
        kept = attempt(root, mark, "print('x' * 1000)")
        with kept.start() as keeper:
            with contextlib.suppress(subprocess.TimeoutExpired):
                keeper.wait(chance.uniform(0.0, 2 * usual))
            keeper.kill()
        if kept.ended():
            whole += 1
            assert {"code", "signal", "cause", "note", "seconds", "leftovers", "ended"} <= kept.exit().keys()
        process.stop_tree("", mark, 0.0)
        assert process.marked(mark) == []
    assert whole > 0, "no keeper lived long enough for this test to mean anything"
