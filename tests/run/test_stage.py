"""A keeper in a window: the agent has a terminal of its own, joined to the window and to the log, and no window holds it up."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_fleet.identity import LINUX
from agent_fleet.process import marked
from support import procs

pytestmark = pytest.mark.skipif(not LINUX or not shutil.which("setsid"), reason="a terminal is handed over by setsid")


@pytest.fixture
def mark() -> Iterator[str]:
    with procs.new_mark() as mark:
        yield mark


class Window:
    """The far end of the terminal that a keeper is started in: what an emulator holds."""

    def __init__(self, master: int, slave: int, keeper: subprocess.Popen[bytes]) -> None:
        self.master = master
        self.slave = slave
        self.keeper = keeper
        self.shown = b""

    def read(self) -> bytes:
        """All that was shown so far; a flood is taken a piece at a time."""
        for _ in range(100):
            if not select.select([self.master], [], [], 0.05)[0]:
                break
            try:
                self.shown += os.read(self.master, 65536)
            except OSError:
                break
        return self.shown

    def wait_for(self, text: bytes) -> None:
        procs.wait_until(lambda: text in self.read(), f"the window shows {text!r}")

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        os.close(self.master)
        self.master = -1


@contextmanager
def window(attempt: procs.Attempt, rows: int = 33, columns: int = 111) -> Iterator[Window]:
    """Start the keeper of an attempt in a window, as a lane's does: the leader of the window's session, no stream on it."""
    attempt.order["terminal"] = True
    (attempt.dir / "keeper.json").write_text(json.dumps(attempt.order))
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = procs.environment(attempt.order["mark"])
    argv = ["setsid", "--ctty", sys.executable, "-I", "-S", procs.KEEPER, str(attempt.dir)]
    with (
        open(attempt.dir / "stderr", "wb") as stderr,
        subprocess.Popen(argv, env=env, stdin=slave, stdout=subprocess.DEVNULL, stderr=stderr) as keeper,
    ):
        found = Window(master, slave, keeper)
        try:
            yield found
            assert keeper.wait(procs.PATIENCE) == 0, (attempt.dir / "stderr").read_text()
        finally:
            keeper.kill()
            for descriptor in (found.master, found.slave):
                if descriptor >= 0:
                    os.close(descriptor)


def attempt(tmp_path: Path, mark: str, code: str, **order: Any) -> procs.Attempt:
    return procs.Attempt(tmp_path, mark, procs.python(code), **order)


def test_the_window_and_the_log_show_the_same_and_lines_end_as_they_were_printed(tmp_path: Path, mark: str) -> None:
    lines = [json.dumps({"type": "text", "text": f"{n} \u00e9\U0001f680 \\r"}) for n in range(500)]
    source = tmp_path / "lines"
    source.write_text("\n".join(lines) + "\n")
    kept = attempt(tmp_path, mark, f"import sys; sys.stdout.buffer.write(open({str(source)!r}, 'rb').read())")
    with window(kept) as shown:
        procs.wait_until(lambda: shown.read() and kept.ended(), "it ends")
        shown.read()

    assert kept.log.read_bytes() == source.read_bytes()
    assert shown.shown.replace(b"\r\n", b"\n") == source.read_bytes()
    assert (kept.exit()["cause"], kept.exit()["code"]) == ("exited", 0)


def test_the_agent_has_a_terminal_of_its_own_and_the_persons_words_reach_it(tmp_path: Path, mark: str) -> None:
    code = (
        "import os, sys\n"
        "print([os.isatty(n) for n in range(3)], os.getsid(0) == os.getpid(), os.get_terminal_size(), flush=True)\n"
        "print('heard', sys.stdin.readline().strip(), flush=True)\n"
        "print('and', open('/dev/tty').readline().strip(), flush=True)\n"
        "import signal; signal.signal(signal.SIGINT, lambda *_: (print('interrupted', flush=True), sys.exit(4)))\n"
        "print('ready', flush=True); signal.pause()"
    )
    kept = attempt(tmp_path, mark, code)
    with window(kept) as shown:
        shown.wait_for(b"columns=111, lines=33")
        before = termios.tcgetattr(shown.slave)
        os.write(shown.master, "h\u00e9llo\r".encode())
        shown.wait_for("heard h\u00e9llo".encode())
        os.write(shown.master, b"again\r")
        shown.wait_for(b"and again")
        shown.wait_for(b"ready")
        os.write(shown.master, b"\x03")
        shown.wait_for(b"interrupted")
        procs.wait_until(kept.ended, "it ends")
        assert not before[3] & termios.ECHO
        assert termios.tcgetattr(shown.slave)[3] & termios.ECHO, "the window is given back as it was"
    assert kept.log.read_text().startswith("[True, True, True] True")
    assert (kept.exit()["cause"], kept.exit()["code"]) == ("exited", 4)


def test_a_prompt_is_a_file_and_no_byte_of_it_passes_a_terminal(tmp_path: Path, mark: str) -> None:
    data = bytes(range(256)) * 4096 + b"-n '\"$(id)\r\n\x04\x03\xf0\x9f\x9a\x80"
    (tmp_path / "prompt").write_bytes(data)
    code = (
        "import hashlib, os, sys\n"
        "print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest(), os.isatty(0), os.isatty(1), flush=True)\n"
        "print(open('/dev/tty').readline())"
    )
    kept = attempt(tmp_path, mark, code, stdin=str(tmp_path / "prompt"))
    with window(kept) as shown:
        shown.wait_for(f"{hashlib.sha256(data).hexdigest()} False True".encode())
        os.write(shown.master, b"yes\r")
        shown.wait_for(b"yes\r\nyes")
        procs.wait_until(kept.ended, "it ends")


def test_the_size_of_the_window_is_the_size_of_the_agents_terminal(tmp_path: Path, mark: str) -> None:
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGWINCH, lambda *_: None)\n"
        "print('first', *os.get_terminal_size(), flush=True)\n"
        "signal.sigwait([signal.SIGWINCH])\n"
        "print('then', *os.get_terminal_size(), flush=True)"
    )
    kept = attempt(
        tmp_path, mark, "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n" + code
    )
    with window(kept) as shown:
        shown.wait_for(b"first 111 33")
        shown.resize(20, 60)
        shown.wait_for(b"then 60 20")
        procs.wait_until(kept.ended, "it ends")


def test_a_program_that_draws_for_itself_is_shown_byte_for_byte(tmp_path: Path, mark: str) -> None:
    code = "import tty, os; tty.setraw(1); os.write(1, b'one\\ntwo\\x1b[2J\\n\\rthree\\r\\n')"
    kept = attempt(tmp_path, mark, code)
    with window(kept) as shown:
        procs.wait_until(lambda: b"three" in shown.read(), "it is shown")
        procs.wait_until(kept.ended, "it ends")
    assert shown.shown == kept.log.read_bytes() == b"one\ntwo\x1b[2J\n\rthree\r\n"


@pytest.mark.parametrize(
    "code", ["import time; time.sleep(600)", "while True: print('x' * 1000)"], ids=["quiet", "loud"]
)
def test_a_window_that_is_closed_ends_its_worker(tmp_path: Path, mark: str, code: str) -> None:
    kept = attempt(tmp_path, mark, "print('ready', flush=True)\n" + code)
    with window(kept) as shown:
        shown.wait_for(b"ready")
        os.close(shown.slave)
        shown.slave = -1
        shown.close()
        procs.wait_until(kept.ended, "it ends")
    assert (kept.exit()["cause"], kept.exit()["note"]) == ("stopped", "its window was closed")
    assert marked(mark) == []


def test_a_window_that_takes_nothing_holds_nobody_up(tmp_path: Path, mark: str) -> None:
    code = (
        "import sys, time\nfor n in range(40000): print(n, 'x' * 60)\nsys.stdout.flush(); time.sleep(1)\nprint('over')"
    )
    kept = attempt(tmp_path, mark, code, beat=0.1)
    with window(kept) as shown:
        procs.wait_until(
            lambda: any(kept.active.glob("t1.g3+*")) and not kept.lease.exists(), "the keeper has the lease"
        )
        (lease,) = kept.active.iterdir()
        first = lease.stat().st_mtime_ns
        procs.wait_until(lambda: b"39999" in kept.log.read_bytes(), "all of it is in the log")
        procs.wait_until(lambda: lease.stat().st_mtime_ns > first, "the lease is kept")
        shown.read()  # now it takes again
        procs.wait_until(kept.ended, "it ends")
        shown.wait_for(b"bytes are only in the log]")
        shown.wait_for(b"over")
    assert kept.log.read_bytes().count(b"\n") == 40001
    assert kept.exit()["cause"] == "exited"


def test_limits_hold_in_a_window(tmp_path: Path, mark: str) -> None:
    loud = attempt(tmp_path, mark, "while True: print('x' * 1000)", max_log=100_000)
    with window(loud) as shown:
        procs.wait_until(lambda: bool(shown.read()) and loud.ended(), "it is ended")
    assert loud.exit()["cause"] == "log_limit"


def test_without_a_window_a_worker_that_needs_one_is_not_started(tmp_path: Path, mark: str) -> None:
    kept = attempt(tmp_path, mark, "open('ran', 'w').close()", terminal=True)
    record = kept.run()
    assert record["cause"] == "unstarted"
    assert "window" in record["note"]
    assert not (tmp_path / "ran").exists()
