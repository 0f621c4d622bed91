"""Running a task's check: the shell command that proves it. Run by fleet itself, never taken from an agent's word."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agent_fleet import identity, process

TIMEOUT = 600.0  # seconds
_GRACE = 2.0  # seconds between asking and ending what a check left behind
_KEEP = 8000  # bytes of its output


class CheckResult(NamedTuple):
    """What the check said: `output` is the end of what it printed."""

    command: str
    code: int | None
    seconds: float
    output: str
    why: str
    cancelled: bool = False

    @property
    def passed(self) -> bool:
        return self.code == 0

    def as_record(self) -> dict[str, Any]:
        """The evidence that is kept."""
        return {"command": self.command, "code": self.code, "seconds": round(self.seconds, 3), "output": self.output}


def run(
    command: str,
    *,
    cwd: str,
    environ: Mapping[str, str],
    scratch: str,
    marks: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    cancelled: Callable[[], bool] = lambda: False,
) -> CheckResult:
    """Run the command by `/bin/sh` from a file, with nothing on its standard input, and end whatever it leaves behind.

    `marks` are the marks of its tree (`FLEET_RUN`, `FLEET_WORKER`); what an earlier check with the same mark left, because
    its driver died, is ended first. The check is given up as soon as `cancelled()` is true.
    """
    marks = marks or {"FLEET_WORKER": f"check-{secrets.token_hex(8)}"}
    mark = marks["FLEET_WORKER"]
    process.stop_tree("", mark, _GRACE)
    kept = ("FLEET_SLOT", "FLEET_PORT", "FLEET_TMP")  # what its worker had to itself, and nothing that speaks for it
    env = {name: value for name, value in environ.items() if not name.startswith("FLEET_") or name in kept} | dict(
        marks
    )
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="check-", dir=scratch if os.path.isdir(scratch) else None) as directory:
        script = os.path.join(directory, "check.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write(command + "\n")
        with open(os.path.join(directory, "output"), "w+b") as output:
            end = _wait(["/bin/sh", script], cwd, env, output.fileno(), mark, timeout, cancelled)
            text = _tail(output.fileno())
    return CheckResult(command, end.code, time.monotonic() - start, text, end.why, end.cancelled)


class _End(NamedTuple):
    code: int | None
    why: str
    cancelled: bool = False


def _wait(
    argv: list[str],
    cwd: str,
    env: dict[str, str],
    output: int,
    mark: str,
    timeout: float,
    cancelled: Callable[[], bool],
) -> _End:
    try:
        child = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    except OSError as error:
        return _End(None, f"it could not be started: {error.strerror}")
    worker = process.Tree(identity.identity_of(child.pid), mark)
    deadline = time.monotonic() + timeout
    end: _End | None = None
    while end is None:
        try:
            code = child.wait(0.2)
            end = _End(code, f"it exited {code}" if code >= 0 else f"it was ended by signal {-code}")
        except subprocess.TimeoutExpired:
            if cancelled():
                end = _End(None, "it was given up because the run was stopped", cancelled=True)
            elif time.monotonic() >= deadline:
                end = _End(None, f"it ran for more than {timeout:.0f} s")
    process.stop(worker, _GRACE)
    child.wait()
    return end


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, _KEEP, max(0, size - _KEEP))
    return data.decode("utf-8", "replace")
