"""`fleet init`: make the queue of a project."""

from __future__ import annotations

import os
from typing import Any

import click

from agent_fleet import paths, project
from agent_fleet.commands import Shared, command
from agent_fleet.errors import FleetError
from agent_fleet.queue.store import Queue


@command("init", help="Make the task queue of this project, hidden from git.")
@click.argument("path", required=False)
@click.option("--max-workers", type=click.IntRange(min=1), help="Never run more workers than this in this project.")
@click.option("--checklist", is_flag=True, help="Also write a first TASKS.md, unless the project keeps a checklist.")
@click.option("--claude", type=int, metavar="N", help="Also make the registry of accounts, with N for Claude Code.")
@click.option("--codex", type=int, metavar="N", help="Also make the registry of accounts, with N for Codex.")
def command_line(
    shared: Shared,
    path: str | None,
    max_workers: int | None,
    checklist: bool,
    claude: int | None,
    codex: int | None,
) -> None:
    name = paths.queue_name(shared.environ)
    root = os.path.abspath(path) if path else _here(shared)
    if not os.path.isdir(root):
        raise FleetError("not_found", f"there is no directory {root}", hint="create it first")
    accounts: dict[str, Any] = {}
    if claude is not None or codex is not None:
        accounts = _accounts(shared, {"claude": claude or 0, "codex": codex or 0})
    was_there = paths.is_queue(os.path.join(root, name))
    for notice in project.create(root, name):
        shared.warn(notice)
    if max_workers:
        _set_max_workers(Queue(os.path.join(root, name)), max_workers)
    verb = "is ready" if was_there else "made"
    rows = [f"queue {verb}: {os.path.join(root, name)}"]
    answer = {"root": root, "queue": os.path.join(root, name), "created": not was_there, **accounts}
    if checklist:
        told, row = _start_checklist(root, os.path.join(root, name), shared.environ)
        answer |= told
        rows.append(row)
    first = "fleet from-note" if checklist else 'fleet add "what is to be done"'
    rows += _registered(accounts) if accounts else [f"next: {first}, then fleet plan"]
    shared.emit(answer, lambda: "\n".join(rows))


# how many tasks at once an account takes until its person says otherwise
_ROOMS = {"claude": 2, "codex": 3}


def _accounts(shared: Shared, numbers: dict[str, int]) -> dict[str, Any]:
    from agent_fleet.accounts import founding, places
    from agent_fleet.accounts.registrar import Registrar
    from agent_fleet.commands.desk import profile_record

    registrar = Registrar(places.registry_path(shared.environ, shared.config_file), shared.environ)
    made = founding.found(registrar, numbers, _ROOMS)
    profiles = [profile_record(profile) for profile in made.profiles.values()]
    return {"registry": made.path, "profiles": profiles, "enabled": 0}


def _registered(accounts: dict[str, Any]) -> list[str]:
    labels = ", ".join(profile["id"] for profile in accounts["profiles"])
    return [
        f"registry made: {accounts['registry']} ({labels}, all disabled)",
        "next: fleet project register DIR --provider NAME, then fleet profile provision --all",
    ]


def _here(shared: Shared) -> str:
    """The root that was named, else the git root, else the working directory: a queue further up is another project's."""
    if shared.is_root_named:
        return shared.root
    here = os.getcwd()
    return paths.work_tree(here) or here


def _set_max_workers(queue: Queue, number: int) -> None:
    from agent_fleet import settings

    settings.change(queue.path("config.toml"), ("run", "max_workers"), number)


def _start_checklist(root: str, queue_dir: str, environ: dict[str, str]) -> tuple[dict[str, object], str]:
    """Write the starter if the project keeps no checklist; returns what is told about it, for programs and for people."""
    from agent_fleet import config
    from agent_fleet.checklist import page

    named = config.load(root, queue_dir=queue_dir, environ=environ).get("checklist.file")
    path = page.existing(root) if not named else os.path.join(root, os.path.expanduser(named))
    try:
        if path is None or not os.path.lexists(path):
            path = path or os.path.join(root, page.NAMES[0])
            page.start(path)
            row = f"checklist made: {path} (git shows it, unlike the queue: it is yours to commit or to ignore)"
            return {"checklist": path, "checklist_created": True}, row
    except FileExistsError:
        pass  # somebody was quicker
    return {"checklist": path, "checklist_created": False}, f"checklist kept as it is: {path}"
