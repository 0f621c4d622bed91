"""`fleet install-skill`: bring the worker protocol to Claude Code and Codex, and take it away again."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterable
from typing import Any

import click

from agent_fleet import project
from agent_fleet.commands import Shared, command
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import write_whole
from agent_fleet.skill import bundle
from agent_fleet.skill.bundle import Bundle

Step = dict[str, str]


@command("install-skill", help="Teach Claude Code and Codex the worker protocol, as a skill, a subagent or a plugin.")
@click.option("--claude", is_flag=True, help="For Claude Code; without a choice, for all that are on this machine.")
@click.option("--codex", is_flag=True, help="For Codex.")
@click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="For all your projects, or for this one alone, hidden from git.",
)
@click.option("--plugin", metavar="DIR", help="Write a whole Claude Code plugin into this directory instead.")
@click.option("--remove", is_flag=True, help="Take away what an earlier call wrote, and nothing else.")
@click.option("--force", is_flag=True, help="Write over files that somebody else wrote or changed.")
def command_line(
    shared: Shared, claude: bool, codex: bool, scope: str, plugin: str | None, remove: bool, force: bool
) -> None:
    bundles = _chosen(shared, claude, codex, scope, plugin)
    if remove:
        steps = [step for each in bundles for step in _take_away(each)]
        if scope == "project" and not plugin:
            _reveal(shared, bundles)
    else:
        if not force:
            _refuse_foreign(bundles)
        steps = [step for each in bundles for step in _write(each)]
        if scope == "project" and not plugin:
            _hide(shared, bundles)
        _warn(shared, plugin)
    shared.emit({"files": steps}, lambda: "\n".join(f"{step['did']:<9} {step['path']}" for step in steps) or "nothing")


def _chosen(shared: Shared, claude: bool, codex: bool, scope: str, plugin: str | None) -> list[Bundle]:
    if plugin is not None:
        if codex:
            raise FleetError("usage", "a plugin is for Claude Code alone", hint="leave out --codex or --plugin")
        return [bundle.plugin(os.path.abspath(os.path.expanduser(plugin)))]
    home = os.path.expanduser("~")
    wanted = {"claude": claude, "codex": codex}
    if not any(wanted.values()):
        there = dict(zip(wanted, bundle.homes(shared.environ, home), strict=True))
        wanted = {name: os.path.isdir(there[name]) or shutil.which(name) is not None for name in wanted}
    if not any(wanted.values()):
        raise FleetError(
            "not_found", "neither Claude Code nor Codex is on this machine", hint="choose with --claude or --codex"
        )
    known = bundle.places(shared.environ, home, shared.root if scope == "project" else "")
    return [known[name, scope] for name, wish in wanted.items() if wish]


def _refuse_foreign(bundles: Iterable[Bundle]) -> None:
    foreign = [each.path(name) for each in bundles for name in each.files if each.standing(name) == "foreign"]
    if foreign:
        raise FleetError(
            "refused",
            "files are in the way that fleet did not write, or that were changed since; nothing was written",
            hint="look at them; --force writes over them",
            details=tuple(foreign),
        )


def _write(place: Bundle) -> list[Step]:
    left = place.left()
    made = _missing(place)
    steps = []
    for name, data in place.files.items():
        path = place.path(name)
        standing = place.standing(name)
        if standing != "current":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_whole(path, data)
        steps.append({"path": path, "did": {"current": "unchanged", "absent": "wrote"}.get(standing, "renewed")})
    receipt = place.new_receipt(tuple(dict.fromkeys((*(left.made if left else ()), *made))))
    write_whole(place.path(place.receipt), receipt)
    return steps


def _missing(place: Bundle) -> list[str]:
    """The directories that are made for the files, as paths below the base (`.` is the base itself)."""
    return [name for name in _directories(place) if not os.path.isdir(place.path(name))]


def _directories(place: Bundle) -> list[str]:
    found = {"."}
    for name in place.files:
        while name := os.path.dirname(name):
            found.add(name)
    return sorted(found, key=lambda name: (-name.count("/"), name == ".", name))


def _take_away(place: Bundle) -> list[Step]:
    """Files that are as fleet wrote them go; what a person changed stays theirs."""
    left = place.left()
    steps = []
    for name in place.files:
        standing = place.standing(name)
        if standing in ("current", "outdated"):
            os.unlink(place.path(name))
        if standing != "absent":
            steps.append({"path": place.path(name), "did": "left" if standing == "foreign" else "removed"})
    if left is None:
        return steps
    os.unlink(place.path(place.receipt))
    for name in _directories(place):
        if name in left.made:
            try:
                os.rmdir(os.path.normpath(place.path(name)))
            except OSError:
                continue  # somebody keeps something in it by now
    return steps


def _hide(shared: Shared, bundles: Iterable[Bundle]) -> None:
    """Our files in a project are nobody else's business: git does not see them."""
    for each in bundles:
        names = [each.receipt, *each.files]
        entries = [os.path.relpath(each.path(name), shared.root) for name in names]
        for notice in project.hide(shared.root, entries):
            shared.warn(notice)


def _reveal(shared: Shared, bundles: Iterable[Bundle]) -> None:
    """Git need not be told of what is gone; a file that stays is hidden on."""
    for each in bundles:
        gone = [name for name in (each.receipt, *each.files) if not os.path.lexists(each.path(name))]
        for notice in project.reveal(shared.root, [os.path.relpath(each.path(name), shared.root) for name in gone]):
            shared.warn(notice)


def _warn(shared: Shared, plugin: Any) -> None:
    if shutil.which("fleet") is None:
        shared.warn("there is no `fleet` on your PATH: agents will not find it")
    if plugin and importlib.util.find_spec("mcp") is None:
        shared.warn("the plugin's tools need the MCP library: pipx install 'agent-fleet[mcp]'")
