"""Whether the queue directory is kept out of git."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable

from agent_fleet.api import Check, Config, Finding, hookimpl
from agent_fleet_checks._git import SECONDS, ask, names, outside, silent


class Queue:
    """Looks at the queue directory `directory`."""

    name = "queue"

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def run(self, root: str) -> Iterable[Finding]:
        """Findings about git; one finding if there is no queue yet."""
        if not os.path.isdir(self._directory):
            yield Finding(level="warning", text=f"there is no queue at {self._directory}", hint="run `fleet init`")
            return
        yield from self._git(root)

    def mend(self, root: str) -> Iterable[Finding]:
        """Have git ignore the queue: `fleet init` on a queue that is there does that and nothing else."""
        try:
            inside = outside(root) is None
            probe = os.path.join(self._directory, "inbox", "0")
            ignored = ask(root, "check-ignore", "-q", "--no-index", "--", probe).returncode == 0
            if not inside or ignored or not os.path.isdir(self._directory):
                return
            again = [sys.executable, "-m", "agent_fleet", "init", root]
            done = subprocess.run(again, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            yield silent(error)
            return
        if done.returncode == 0:
            yield Finding(level="ok", text="mended: the clone's exclude file names the queue")

    def _git(self, root: str) -> Iterable[Finding]:
        try:
            nothing = outside(root)
            if nothing is not None:
                yield nothing
                return
            probe = os.path.join(self._directory, "inbox", "0")
            ignored = ask(root, "check-ignore", "-q", "--no-index", "--", probe)
            tracked = ask(root, "ls-files", "-z", "--", self._directory)
        except (OSError, subprocess.SubprocessError) as error:
            yield silent(error)
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
        files = names(listed.stdout)
        if not files:
            return Finding(level="ok", text="git tracks no state of the queue")
        name = shlex.quote(os.path.basename(self._directory))
        hint = f"`git rm -r -q --cached -- {name}` takes it out and keeps the files; the first is {files[0]}"
        count = "a file" if len(files) == 1 else f"{len(files)} files"
        return Finding(level="fault", text=f"git tracks {count} of the queue", hint=hint)


@hookimpl
def fleet_checks(config: Config) -> Iterable[Check]:
    yield Queue(config.queue_dir)
