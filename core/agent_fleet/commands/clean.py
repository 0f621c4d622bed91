"""`fleet clean`: take away what fleet has made and nobody needs any more. Anything doubtful stays, and is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import click

from agent_fleet.commands import Shared, command
from agent_fleet.deploy import disposal
from agent_fleet.errors import FleetError
from agent_fleet.model import Finding
from agent_fleet.plugins import FAMILIES, Plugins
from agent_fleet.protocols import Cleaner
from agent_fleet.run import cleaning
from agent_fleet.run.cleaning import Swept
from agent_fleet.text import line, size


@command(
    "clean",
    help="Remove what fleet has made in and for this project and nobody needs any more. Worktrees go only if all of their work "
    "is merged or pushed; tasks, records and logs stay. A DEPLOYMENT that is named goes too, with its report, "
    "unless it can still be worked.",
)
@click.argument("deployments", nargs=-1, metavar="[DEPLOYMENT]...")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and why the rest would stay.")
def command_line(shared: Shared, deployments: tuple[str, ...], dry_run: bool) -> None:
    if shared.environ.get("FLEET_WORKER"):
        raise FleetError(
            "refused", "this is a worker of a fleet; it cannot clean up under others", hint="report the task instead"
        )
    keep = float(shared.config.get("run.keep_scratch"))
    old = float(shared.config.get("deploy.keep"))
    swept = list(disposal.sweep(shared.queue, deployments, keep=old, dry=dry_run))
    swept += cleaning.sweep(shared.queue, shared.environ, keep_scratch=keep, dry=dry_run)
    cleaners = _cleaners(shared.plugins)
    found = [] if dry_run else list(_clean(shared, cleaners))
    payload: dict[str, Any] = {
        "dry_run": dry_run,
        "removed": [
            {"what": each.kind, "path": each.path, **({"freed": each.freed} if each.freed else {})}
            for each in swept
            if each.gone
        ],
        "kept": [{"what": each.kind, "path": each.path, "why": each.why} for each in swept if not each.gone],
        "findings": [{"by": name, "level": each.level, "text": each.text, "hint": each.hint} for name, each in found],
        "asked": [name for name, _ in cleaners],
    }
    shared.emit(payload, lambda: _text(swept, found, [name for name, _ in cleaners], dry_run))


def _cleaners(plugins: Plugins) -> list[tuple[str, Any]]:
    """Everything of every family that can clean up after itself, each once."""
    found = [(offer.name, offer) for family in FAMILIES for offer in plugins.all(family)]
    return [(name, offer) for name, offer in found if callable(getattr(type(offer.thing), "clean", None))]


def _clean(shared: Shared, cleaners: list[tuple[str, Any]]) -> Iterator[tuple[str, Finding]]:
    for name, offer in cleaners:
        try:
            done = shared.plugins.ask(offer, lambda thing: list(cast(Cleaner, thing).clean(shared.root)))
        except FleetError as error:
            yield name, Finding(level="fault", text=f"it could not clean up: {error.message}", hint=error.hint)
            continue
        yield from ((name, finding) for finding in done)


def _freed(each: Swept) -> str:
    return f" ({size(each.freed)})" if each.freed else ""


def _text(swept: list[Swept], found: list[tuple[str, Finding]], asked: list[str], dry_run: bool) -> str:
    verb = "would be removed" if dry_run else "removed"
    rows = [f"{verb}: {each.kind} {each.path}{_freed(each)}" for each in swept if each.gone]
    rows += [f"kept: {each.kind} {each.path}: {line(each.why, 300)}" for each in swept if not each.gone]
    rows += [
        f"{name}: {line(finding.text, 300)}" + (f" ({line(finding.hint, 200)})" if finding.hint else "")
        for name, finding in found
    ]
    if dry_run and asked:
        rows.append(f"plugins that would be asked to clean up after themselves: {', '.join(asked)}")
    return "\n".join(rows) or "nothing to clean up"
