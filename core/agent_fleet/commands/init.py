"""`fleet init`: make the queue of a project."""

from __future__ import annotations

import os

import click

from agent_fleet import paths, project
from agent_fleet.commands import Shared, command
from agent_fleet.errors import FleetError
from agent_fleet.queue.store import Queue


@command("init", help="Make the task queue of this project, hidden from git.")
@click.argument("path", required=False)
@click.option("--max-workers", type=click.IntRange(min=1), help="Never run more workers than this in this project.")
def command_line(shared: Shared, path: str | None, max_workers: int | None) -> None:
    name = paths.queue_name(shared.environ)
    root = os.path.abspath(path) if path else _here(shared)
    if not os.path.isdir(root):
        raise FleetError("not_found", f"there is no directory {root}", hint="create it first")
    was_there = paths.is_queue(os.path.join(root, name))
    for notice in project.create(root, name):
        shared.warn(notice)
    if max_workers:
        _set_max_workers(Queue(os.path.join(root, name)), max_workers)
    verb = "is ready" if was_there else "made"
    shared.emit(
        {"root": root, "queue": os.path.join(root, name), "created": not was_there},
        lambda: f'queue {verb}: {os.path.join(root, name)}\nnext: fleet add "what is to be done", then fleet plan',
    )


def _here(shared: Shared) -> str:
    """The root that was named, else the git root, else the working directory: a queue further up is another project's."""
    if shared.is_root_named:
        return shared.root
    directory = here = os.getcwd()
    while not paths.is_work_tree(directory):
        parent = os.path.dirname(directory)
        if parent == directory:
            return here
        directory = parent
    return directory


def _set_max_workers(queue: Queue, number: int) -> None:
    from agent_fleet import settings

    settings.change(queue.path("config.toml"), ("run", "max_workers"), number)
