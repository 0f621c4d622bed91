"""A project in a git repository, and the worktrees of its tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agent_fleet.model import Task
from agent_fleet.queue.store import Queue
from agent_fleet.queue.view import task_from
from agent_fleet.run import checkout, worktree
from agent_fleet.run.worktree import Tree
from support.project import fill, git, new_queue, repository
from support.runs import Site


class Garden:
    """A project in a repository, and its worktrees."""

    def __init__(self, top: Path, root: Path | None = None) -> None:
        self.top = top
        self.root = root or top
        self.root.mkdir(parents=True, exist_ok=True)
        self.queue: Queue = new_queue(self.root / ".agents")
        self.environ: Mapping[str, str] = {"AGENT_FLEET_STATE_DIR": str(top.parent / "state")}

    def task(self, text: str = "x") -> Task:
        (name,) = fill(self.queue, [text])
        place = self.queue.require(name)
        body = self.queue.body(place.path, name)
        assert body is not None
        return task_from(body)

    def provide(self, task: Task, generation: int = 1, reserve: int = 0) -> Tree:
        return checkout.provide(self.queue, task, generation, self.environ, reserve=reserve)

    def shelf(self) -> Path:
        return Path(worktree.shelf(self.queue, self.environ))

    def traces(self) -> list[str]:
        """What there is of worktrees and branches of ours."""
        admin = Path(git(self.top, "rev-parse", "--path-format=absolute", "--git-common-dir").strip()) / "worktrees"
        found = [name for name in git(self.top, "branch", "--format=%(refname:short)").split() if "fleet/" in name]
        found += [path.name for path in admin.iterdir() if "-g" in path.name] if admin.exists() else []
        return sorted(found + (os.listdir(self.shelf()) if self.shelf().exists() else []))


class Field(Site):
    """A site whose project lies in a git repository."""

    def __init__(self, root: Path, config: str = "") -> None:
        self.top = repository(root / "project")
        super().__init__(root, config)

    @property
    def shelf(self) -> Path:
        (found,) = (self.home / ".local" / "state" / "agent-fleet" / "worktrees").iterdir()
        return found

    def tree(self, task: str) -> Path:
        """The one worktree of a task."""
        (found,) = (path for path in self.shelf.glob(f"{task}-g*") if path.is_dir())
        return found

    def branches(self) -> list[str]:
        return git(self.top, "branch", "--format=%(refname:short)", "--list", "fleet/*").split()

    def is_untouched(self) -> bool:
        """Whether git sees nothing of us in the person's own checkout."""
        on_main = git(self.top, "symbolic-ref", "--short", "HEAD").strip() == "main"
        return on_main and git(self.top, "status", "--porcelain", "--untracked-files=all") == ""
