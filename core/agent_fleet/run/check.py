"""Running a task's check: the shell command that proves it. Run by fleet itself, never taken from an agent's word."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent_fleet import identity, process

_KEEP = 8000


class CheckResult(NamedTuple):
    """What the check said: `output` is the end of what it printed."""

    command: str
    code: int | None
    seconds: float
    output: str
    why: str

    @property
    def passed(self) -> bool:
        return self.code == 0

    def as_record(self) -> dict[str, Any]:
        """The evidence that is kept."""
        return {"command": self.command, "code": self.code, "seconds": round(self.seconds, 3), "output": self.output}


def run(command: str, *, cwd: str, environ: Mapping[str, str], scratch: str, timeout: float = 600.0) -> CheckResult:
    """Run the command by `/bin/sh` from a file, with nothing on its standard input, and end whatever it leaves behind."""
    mark = "check-" + secrets.token_hex(8)
    env = {name: value for name, value in environ.items() if not name.startswith("FLEET_")} | {"FLEET_WORKER": mark}
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="check-", dir=scratch) as directory:
        script = os.path.join(directory, "check.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write(command + "\n")
        with open(os.path.join(directory, "output"), "w+b") as output:
            code, why = _wait(["/bin/sh", script], cwd, env, output.fileno(), mark, timeout)
            text = _tail(output.fileno())
    return CheckResult(command, code, time.monotonic() - start, text, why)


def _wait(
    argv: list[str], cwd: str, env: dict[str, str], output: int, mark: str, timeout: float
) -> tuple[int | None, str]:
    try:
        child = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    except OSError as error:
        return None, f"it could not be started: {error.strerror}"
    who = identity.identity_of(child.pid)
    try:
        code = child.wait(timeout)
        why = f"it exited {code}" if code >= 0 else f"it was ended by signal {-code}"
    except subprocess.TimeoutExpired:
        code, why = None, f"it ran for more than {timeout:.0f} s"
    process.stop_tree(who, mark, 2.0)
    child.wait()
    return code, why


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, _KEEP, max(0, size - _KEEP))
    return data.decode("utf-8", "replace")
