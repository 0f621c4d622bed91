"""A tmux window for each worker, on a server of our own that ends with its last window."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import time
from collections.abc import Iterable, Mapping

from agent_fleet.api import Finding, FleetError, Launch, Worker, identity_of, is_alive
from agent_fleet_lanes._doorway import Doorway

SESSION = "fleet"
_LONGEST = 100  # bytes of a socket's path that every system takes
_PATIENCE = 10.0
_TRIES = 8
# what tmux says when its server, or our session on it, has just gone or just come
_RACES = ("no server running", "lost server", "server exited", "error connecting", "can't find", "duplicate session")
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "USER", "LOGNAME", "TZ")


class Tmux:
    """`queue_dir` is where the socket lies if its path is short enough; `environ` is the person's environment."""

    name = "tmux"

    def __init__(self, queue_dir: str, environ: Mapping[str, str]) -> None:
        self._queue_dir = queue_dir
        self._environ = environ

    def obstacle(self) -> str:
        if not shutil.which("tmux"):
            return "tmux is not installed"
        return ""

    @property
    def socket(self) -> str:
        """The path of our server's socket, in a directory that only this user can enter."""
        near = os.path.join(self._queue_dir, "lanes", "tmux", "socket") if self._queue_dir else ""
        if near and len(os.fsencode(near)) <= _LONGEST:
            return near
        runtime = self._environ.get("XDG_RUNTIME_DIR", "")
        base = runtime if runtime and os.path.isdir(runtime) else f"/tmp/agent-fleet-{os.getuid()}"  # noqa: S108
        digest = hashlib.sha256(os.fsencode(self._queue_dir)).hexdigest()[:16]
        return os.path.join(base, "agent-fleet" if base == runtime else "", f"{digest}.tmux")

    def where(self) -> str:
        return f"tmux windows; look at them with: {self.attach}"

    @property
    def attach(self) -> str:
        """The command that shows the windows."""
        return shlex.join(["tmux", "-S", self.socket, "attach"])

    def start(self, launch: Launch) -> int:
        _make_private(os.path.dirname(self.socket))
        with Doorway(launch) as door:
            pane = self._open(launch, door.argv)
            who = identity_of(pane)
            return door.wait(lambda: "" if is_alive(who) is not False else "its tmux window closed at once")

    def _open(self, launch: Launch, argv: list[str]) -> int:
        """Open a window, in a new session if there is none; returns the pid of what runs in it."""
        common = ["-P", "-F", "#{pane_pid}", "-n", launch.worker, "-c", launch.cwd, "--", *argv]
        said = ""
        for attempt in range(_TRIES):
            for words in (["new-window", "-d", "-t", f"={SESSION}:"], ["new-session", "-d", "-s", SESSION]):
                status, answer = self._ask(*words, *common)
                if status == 0 and answer.isdigit():
                    return int(answer)
                said = answer
            if not any(race in said for race in _RACES):
                break
            time.sleep(0.05 * 2**attempt)
        raise FleetError(
            "unavailable", f"tmux opened no window: {said or 'it did not answer'}", hint="try another form"
        )

    def show(self, worker: Worker) -> str | None:
        status, answer = self._ask("list-panes", "-a", "-F", "#{pane_pid} #{window_id}")
        panes = dict(line.split(" ", 1) for line in answer.splitlines() if " " in line) if status == 0 else {}
        window = panes.get(str(worker.pid))
        if window is None or is_alive(worker.identity) is False:
            return "it has no tmux window any more"
        self._ask("select-window", "-t", window)
        status, clients = self._ask("list-clients", "-F", "#{client_name}")
        return None if status == 0 and clients else f"nobody is attached; look at it with: {self.attach}"

    def clean(self, root: str) -> Iterable[Finding]:  # noqa: ARG002  its socket lies in the queue
        if not os.path.exists(self.socket) or not shutil.which("tmux"):
            return
        if self._ask("has-session", "-t", f"={SESSION}")[0] == 0:
            yield Finding(level="ok", text="tmux windows are open and were left", hint=f"look at them: {self.attach}")
            return
        os.unlink(self.socket)
        yield Finding(level="ok", text="the socket of a tmux server that has ended was removed")

    def _ask(self, *arguments: str) -> tuple[int, str]:
        """One tmux command; (status, what it said). No configuration is read, and no shell is between."""
        env = {name: self._environ[name] for name in _KEPT if name in self._environ}
        try:
            answer = subprocess.run(
                ["tmux", "-u", "-S", self.socket, "-f", os.devnull, *arguments],
                env=env | {"SHELL": "/bin/sh", "TERM": "xterm-256color"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            return 1, "it did not answer"
        except OSError as error:
            return 1, str(error.strerror)
        said = answer.stdout if answer.returncode == 0 else answer.stderr
        return answer.returncode, said.decode("utf-8", "replace").strip()


def _make_private(directory: str) -> None:
    """Make a directory that only this user can enter. Raises FleetError if another's is in its place."""
    os.makedirs(directory, 0o700, exist_ok=True)
    told = os.lstat(directory)
    if not stat.S_ISDIR(told.st_mode) or told.st_uid != os.getuid():
        raise FleetError("unusable", f"{directory} is not a directory of this user", hint="remove it")
    if stat.S_IMODE(told.st_mode) & 0o077:
        os.chmod(directory, 0o700)
