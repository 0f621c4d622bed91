"""Whether the queue directory is kept out of git, can be written to, and lies on a file system that takes locks."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterable

from agent_fleet.api import Check, Config, Finding, hookimpl

KEPT = ("config.toml", ".gitignore")  # what a project may well share
SECONDS = 20.0


class Queue:
    """Looks at the queue directory `directory`."""

    name = "queue"

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def run(self, root: str) -> Iterable[Finding]:
        """Findings about git and about locks; one finding if there is no queue yet."""
        if not os.path.isdir(self._directory):
            yield Finding(level="warning", text=f"there is no queue at {self._directory}", hint="run `fleet init`")
            return
        yield self._lock()
        yield from self._room()
        yield from self._git(root)

    def mend(self, root: str) -> Iterable[Finding]:
        """Have git ignore the queue: `fleet init` on a queue that is there does that and nothing else."""
        try:
            inside = _git(root, "rev-parse", "--is-inside-work-tree").returncode == 0
            probe = os.path.join(self._directory, "inbox", "0")
            ignored = _git(root, "check-ignore", "-q", "--no-index", "--", probe).returncode == 0
            if not inside or ignored or not os.path.isdir(self._directory):
                return
            again = [sys.executable, "-m", "agent_fleet", "init", root]
            done = subprocess.run(again, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            yield Finding(level="unknown", text=f"git cannot be asked: {error}", hint="install git")
            return
        if done.returncode == 0:
            yield Finding(level="ok", text="mended: the clone's exclude file names the queue")

    def _lock(self) -> Finding:
        """Locks the directory itself: claims lock another one, so nobody waits for this."""
        try:
            descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            text = f"the queue directory cannot be opened: {error.strerror}"
            return Finding(level="fault", text=text, hint="give this user access to it")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # somebody holds the lock, so there are locks
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "an error")
            text = f"the queue's file system takes no locks ({name}): host limits hold for this machine only"
            return Finding(level="warning", text=text, hint="put the queue on a local file system")
        finally:
            os.close(descriptor)
        return Finding(level="ok", text="the file system of the queue takes locks")

    def _room(self) -> Iterable[Finding]:
        """Whether anything can be written there; says nothing where it can."""
        if not os.access(self._directory, os.W_OK | os.X_OK):
            hint = "give this user access to it, or make the file system writable"
            yield Finding(level="fault", text="nothing can be written to the queue directory", hint=hint)
        state = os.statvfs(self._directory)
        if state.f_blocks and not state.f_bavail:
            yield Finding(level="fault", text="the queue's file system is full", hint="free some space")

    def _git(self, root: str) -> Iterable[Finding]:
        try:
            inside = _git(root, "rev-parse", "--is-inside-work-tree")
            if inside.returncode != 0:
                yield _outside(inside.stderr.decode(errors="replace"))
                return
            probe = os.path.join(self._directory, "inbox", "0")
            ignored = _git(root, "check-ignore", "-q", "--no-index", "--", probe)
            tracked = _git(root, "ls-files", "-z", "--", self._directory)
        except (OSError, subprocess.SubprocessError) as error:
            yield Finding(
                level="unknown", text=f"git cannot be asked: {error}", hint="install git, or look at .gitignore"
            )
            return
        yield self._ignored(ignored.returncode)
        yield self._tracked(tracked)

    def _ignored(self, status: int) -> Finding:
        name = os.path.basename(self._directory)
        if status == 0:
            return Finding(level="ok", text="git ignores the queue")
        if status == 1:
            hint = f"add {name}/ to .git/info/exclude or .gitignore"
            return Finding(
                level="fault", text="git does not ignore the queue: a commit or a clean would move tasks", hint=hint
            )
        return Finding(level="unknown", text="git does not say whether it ignores the queue", hint="look at .gitignore")

    def _tracked(self, listed: subprocess.CompletedProcess[bytes]) -> Finding:
        if listed.returncode != 0:
            return Finding(
                level="unknown", text="git does not say whether it tracks the queue", hint="run git ls-files"
            )
        files = [os.fsdecode(each) for each in listed.stdout.split(b"\0") if each]
        files = [each for each in files if os.path.basename(each) not in KEPT]
        if not files:
            return Finding(level="ok", text="git tracks no state of the queue")
        hint = f"run git rm -r --cached on it; the first is {files[0]}"
        count = "a file" if len(files) == 1 else f"{len(files)} files"
        return Finding(level="fault", text=f"git tracks {count} of the queue", hint=hint)


def _outside(complaint: str) -> Finding:
    """git fails alike outside a repository and in one that it does not trust; only its words tell the two apart."""
    if "not a git repository" in complaint:
        return Finding(level="ok", text="the project is in no git work tree")
    text = f"git does not answer for this project: {' '.join(complaint.split())[:200]}"
    return Finding(level="unknown", text=text, hint="mend what git says, then ask again")


def _git(root: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Asks about the repository at `root`, whatever a hook that started us may have put into the environment."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {"LC_ALL": "C"}
    command = ["git", "-C", root, *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=environ, timeout=SECONDS, check=False
    )


@hookimpl
def fleet_checks(config: Config) -> Iterable[Check]:
    yield Queue(config.queue_dir)
