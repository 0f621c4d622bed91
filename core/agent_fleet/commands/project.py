"""`fleet project`: in which git projects accounts may be used."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from agent_fleet.accounts import audit, places, projects
from agent_fleet.accounts.registry import Registry
from agent_fleet.commands import Shared, command, group
from agent_fleet.commands.desk import Desk
from agent_fleet.errors import FleetError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

command_line = group(
    "project",
    help="Say in which git projects accounts may be used; linked work trees are included.",
    members={
        "list": ("project", "listing", "List the registered projects."),
        "register": ("project", "register", "Let accounts of a provider be used in a project."),
        "remove": ("project", "remove", "Let them be used there no longer."),
    },
)


@command("list", help="List the registered projects, by provider.")
@click.option("--provider", metavar="NAME", help="Only this provider's.")
def listing(shared: Shared, provider: str | None) -> None:
    registry = Desk(shared).registry
    if provider is not None:
        _table(registry, provider)
    found = [
        {"provider": name, "trusted_projects": sorted(table.trusted_projects)}
        for name, table in sorted(registry.providers.items())
        if provider in (None, name)
    ]
    shared.emit({"providers": found}, lambda: "\n".join(_lines(found)) or "no projects")


def _lines(found: list[dict[str, Any]]) -> list[str]:
    return [f"{each['provider']}: {path}" for each in found for path in each["trusted_projects"]]


@command("register", help="Let accounts of a provider be used in a git project and in every work tree linked to it.")
@click.argument("path")
@click.option("--provider", required=True, metavar="NAME")
def register(shared: Shared, path: str, provider: str) -> None:
    desk = Desk(shared)
    tree = projects.registrable(_plain(path))

    def edit(document: TOMLDocument, registry: Registry) -> None:
        from agent_fleet.accounts import editing

        known = _table(registry, provider)
        if tree.root not in known:
            editing.set_projects(document, provider, (*known, tree.root))

    changed = desk.registrar.change(
        desk.vault, edit, lambda: audit.note(desk.vault, "project-registered", provider=provider)
    )
    _told(shared, provider, changed)


@command("remove", help="Let accounts of a provider be used in a project no longer. What runs there goes on.")
@click.argument("path")
@click.option("--provider", required=True, metavar="NAME")
def remove(shared: Shared, path: str, provider: str) -> None:
    desk = Desk(shared)
    asked = _plain(path)

    def edit(document: TOMLDocument, registry: Registry) -> None:
        from agent_fleet.accounts import editing

        known = _table(registry, provider)
        kept = [each for each in known if each != asked]
        if len(kept) == len(known):
            common = projects.work_tree(asked).common
            kept = [each for each in known if not projects.is_same_project(each, common)]
        if len(kept) == len(known):
            raise FleetError(
                "not_found",
                f"{asked} is not registered for {provider}",
                hint="`fleet project list` shows what is",
            )
        editing.set_projects(document, provider, kept)

    changed = desk.registrar.change(
        desk.vault, edit, lambda: audit.note(desk.vault, "project-removed", provider=provider)
    )
    _told(shared, provider, changed)


def _plain(path: str) -> str:
    """The path as it is registered: in full, but with its links, which are then refused."""
    return places.lexical(path if path.startswith("~") else os.path.abspath(path), "PATH")


def _table(registry: Registry, provider: str) -> tuple[str, ...]:
    table = registry.providers.get(provider)
    if table is None:
        raise FleetError(
            "not_found",
            f"the registry has no provider {provider}",
            hint=f"`fleet profile add ID --provider {provider}` adds an account of it",
        )
    return table.trusted_projects


def _told(shared: Shared, provider: str, registry: Registry) -> None:
    found = sorted(registry.providers[provider].trusted_projects)
    shared.emit(
        {"provider": provider, "trusted_projects": found},
        lambda: "\n".join(f"{provider}: {path}" for path in found) or f"no project is registered for {provider}",
    )
