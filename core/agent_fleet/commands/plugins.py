"""`fleet plugins`: what is offered, by whom, and what cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from agent_fleet import errors, text
from agent_fleet.commands import Shared, command
from agent_fleet.errors import FleetError
from agent_fleet.plugins import FAMILIES, Offer, Plugins


@command("plugins", help="List the plugins, who brings each, and whether it can be used here.")
@click.option("--family", type=click.Choice([family.name for family in FAMILIES]), help="Only this kind of plugin.")
@click.option(
    "--requirements", is_flag=True, help="List the distributions besides our own, one `name==version` a line."
)
def command_line(shared: Shared, family: str | None, requirements: bool) -> int:
    """The exit status is 1 if any plugin that was looked at is broken."""
    plugins = shared.plugins
    rows = [_row(plugins, offer) for each in FAMILIES if family in (None, each.name) for offer in plugins.all(each)]
    problems = [
        each for each in plugins.broken if family in (None, each.origin.family) or each.origin.family == "plugins"
    ]
    broken = [
        {
            "family": problem.origin.family,
            "name": problem.name or problem.origin.name,
            "distribution": problem.origin.distribution,
            "version": problem.origin.version,
            "why": text.line(problem.what, 400),
        }
        for problem in problems
    ]
    needed = sorted({f"{row['distribution']}=={row['version']}" for row in rows if not row["builtin"]})
    payload: dict[str, Any] = {"plugins": rows, "requirements": needed, "broken": broken}
    if broken:
        payload |= {"ok": False, "code": "plugin_broken", "error": _count(len(broken))}
    shared.emit(payload, lambda: "\n".join(needed) if requirements else _table(rows))
    for problem in problems:
        shared.warn(text.line(str(problem), 400))
    return errors.CODES["plugin_broken"][0] if broken else errors.OK


def _count(broken: int) -> str:
    return "one plugin is broken" if broken == 1 else f"{broken} plugins are broken"


def _row(plugins: Plugins, offer: Offer[Any]) -> dict[str, Any]:
    reason = unusable(plugins, offer)
    return {
        "family": offer.origin.family,
        "name": offer.name,
        "distribution": offer.origin.distribution,
        "version": offer.origin.version,
        "builtin": offer.origin.builtin,
        "usable": reason is None,
        "why": reason,
    }


def unusable(plugins: Plugins, offer: Offer[Any]) -> str | None:
    """Why a thing cannot be used on this machine, in words, or None. Policies and checks can always be asked."""
    if not hasattr(offer.thing, "usable"):
        return None
    try:
        reason = plugins.ask(offer, lambda thing: thing.usable())
    except FleetError as error:
        return text.line(error.message, 400)
    return None if reason is None else text.line(str(reason), 400)


def _table(rows: Sequence[dict[str, Any]]) -> str:
    cells = [("FAMILY", "NAME", "FROM", "USABLE")]
    for row in rows:
        usable = "yes" if row["usable"] else f"no: {row['why']}"
        cells.append((row["family"], row["name"], f"{row['distribution']} {row['version']}", usable))
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    return "\n".join("  ".join([*(line[i].ljust(widths[i]) for i in range(3)), line[3]]) for line in cells)
