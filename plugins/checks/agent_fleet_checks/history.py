"""Whether the queue's state was ever committed, and who has it or would get it by the next push."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable

from agent_fleet.api import Check, Config, Finding, hookimpl
from agent_fleet_checks._git import KEPT, ask, names, outside, silent

MOST = "1000"  # commits that are looked through for names


class History:
    """Looks at the history of the queue directory `directory`, on every branch, tag and stash."""

    name = "history"

    def __init__(self, directory: str) -> None:
        self._name = os.path.basename(directory)

    def run(self, root: str) -> Iterable[Finding]:
        """One finding: no commit holds the queue's state, or which do and how far they have gone."""
        try:
            yield outside(root) or self._found(root)
        except (OSError, subprocess.SubprocessError) as error:
            yield silent(error)

    def _found(self, root: str) -> Finding:
        listed = self._commits(root, "--all", "--format=", "--name-only", "-z")
        if listed is None:
            return Finding(level="unknown", text="git does not tell the history of the queue", hint="run git log")
        files = names(listed)
        if not files:
            return Finding(level="ok", text="no commit holds state of the queue")
        what = "a file" if len(files) == 1 else f"{len(files)} files"
        what = f"{what} of the queue, such as {files[0]}"
        rewrite = f"`git filter-repo --invert-paths --path {shlex.quote(self._name)}` rewrites it out of the history"
        if self._commits(root, "--remotes", "--format=%H"):
            hint = f"what stands in them is known to whoever may read that remote; {rewrite}"
            return Finding(level="fault", text=f"commits that a remote has hold {what}", hint=hint)
        remotes = ask(root, "remote").stdout.split()
        if remotes and self._commits(root, "--branches", "--tags", "--format=%H"):
            return Finding(level="fault", text=f"the next push would publish commits with {what}", hint=rewrite)
        return Finding(level="warning", text=f"commits hold {what}; no remote has them", hint=rewrite)

    def _commits(self, root: str, *options: str) -> bytes | None:
        """What `git log` says of the commits that touch the queue's state; None if it fails."""
        kept = [f":(exclude,literal){self._name}/{each}" for each in KEPT]
        found = ask(
            root, "log", "-n", MOST, "--full-history", "--no-renames", *options, "--", f":(literal){self._name}", *kept
        )
        return found.stdout if found.returncode == 0 else None


@hookimpl
def fleet_checks(config: Config) -> Iterable[Check]:
    yield History(config.queue_dir)
