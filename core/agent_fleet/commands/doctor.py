"""`fleet doctor`: what is wrong with this installation and project, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import click

from agent_fleet import errors, text
from agent_fleet.commands import Shared, command
from agent_fleet.commands.plugins import unusable
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.model import Finding
from agent_fleet.plugins import CHECKS, FAMILIES, LANES, MEND, PROVIDERS, Family, Offer, Plugins
from agent_fleet.protocols import Check, Mender
from agent_fleet.run.outlook import lane_of

MARKS = {"ok": "ok", "warning": "warning", "fault": "FAULT", "unknown": "unknown"}


@command("doctor", help="Check the health of this installation and project.")
@click.option("--fix", is_flag=True, help="First mend what can be mended without losing anything.")
def command_line(shared: Shared, fix: bool) -> int:
    """The exit status is 1 if there is any fault that is left."""
    mended = list(mend(shared.plugins, shared.config.root)) if fix else []
    found = [*mended, *findings(shared.plugins, shared.config), *_accounts(shared)]
    faults = sum(finding.level == "fault" for _, finding in found)
    payload: dict[str, Any] = {
        "healthy": not faults,
        "findings": [
            {"check": name, "level": each.level, "text": each.text, "hint": each.hint} for name, each in found
        ],
    }
    if faults:
        error = "one fault was found" if faults == 1 else f"{faults} faults were found"
        payload |= {"ok": False, "code": "unhealthy", "error": error}
    shared.emit(payload, lambda: "\n".join(_line(name, each) for name, each in found))
    return errors.CODES["unhealthy"][0] if faults else errors.OK


def findings(plugins: Plugins, config: Config) -> Iterable[tuple[str, Finding]]:
    """Everything that the checks, the configuration and the plugins have to say, with who says it."""
    for warning in config.warnings:
        yield "config", Finding(level="warning", text=warning, hint="`fleet config --all` lists every key")
    yield from ((need, finding) for need, finding in _chosen(plugins, config))
    for offer in plugins.all(CHECKS):
        yield from ((offer.name, finding) for finding in _checked(plugins, offer, config.root))
    for family in FAMILIES:
        plugins.all(family)
    for problem in plugins.broken:
        yield "plugins", Finding(level="fault", text=str(problem), hint=MEND)


def _accounts(shared: Shared) -> Iterable[tuple[str, Finding]]:
    """What is wrong with the accounts of this machine; nothing where no registry was ever made."""
    from agent_fleet.accounts import health
    from agent_fleet.commands.desk import Desk

    desk = Desk(shared, is_registry_named=False)
    if not desk.registrar.is_there:
        return []
    try:
        return [("accounts", finding) for finding in health.findings(desk.router)]
    except FleetError as error:
        return [("accounts", Finding(level="fault", text=error.message, hint=error.hint))]


def mend(plugins: Plugins, root: str) -> Iterable[tuple[str, Finding]]:
    """What the checks that can mend have done. One that raises is a fault itself, and keeps none of the others from mending."""
    for offer in plugins.all(CHECKS):
        if not hasattr(offer.thing, "mend"):
            continue
        try:
            done = plugins.ask(offer, lambda check: list(cast(Mender, check).mend(root)))
        except FleetError as error:
            yield offer.name, Finding(level="fault", text=f"it could not mend: {error.message}", hint=error.hint)
            continue
        yield from ((offer.name, finding) for finding in done)


def _chosen(plugins: Plugins, config: Config) -> Iterable[tuple[str, Finding]]:
    """Whether the lanes and providers that the configuration names are there and can be used."""
    lanes = [lane_of(config, plugins, need) for need in ("browser", "agent", "serial", "command")]
    for name in dict.fromkeys(lanes):
        yield "lanes", _usable(plugins, LANES, name)
    default = config.get("providers.default")
    yield "providers", _usable(plugins, PROVIDERS, default)
    for name in sorted(config.agents):
        found = _usable(plugins, PROVIDERS, name)
        if name != default:  # only tasks that ask for it wait
            yield "providers", replace(found, level="warning") if found.level == "fault" else found


def _usable(plugins: Plugins, family: Family[Any], name: str) -> Finding:
    kind = family.protocol.__name__.lower()
    try:
        reason = unusable(plugins, plugins.offer(family, name))
    except FleetError as error:
        return Finding(level="fault", text=error.message, hint=error.hint)
    if reason is None:
        return Finding(level="ok", text=f"the {kind} {name} can be used")
    return Finding(
        level="fault",
        text=f"the {kind} {name} cannot be used: {reason}",
        hint="mend that, or choose another in the configuration",
    )


def _checked(plugins: Plugins, offer: Offer[Check], root: str) -> list[Finding]:
    """What one check finds; one that raises or says nothing sensible is a fault itself."""
    try:
        found = plugins.ask(offer, lambda check: list(check.run(root)))
    except FleetError as error:
        return [Finding(level="fault", text=f"the check could not be made: {error.message}", hint=error.hint)]
    if not found or not all(isinstance(each, Finding) and each.level in MARKS for each in found):
        return [Finding(level="fault", text="the check answered with something that is no finding", hint=MEND)]
    return found


def _line(name: str, finding: Finding) -> str:
    line = f"{MARKS[finding.level]:8} {name}: {text.line(finding.text, 400)}"
    return f"{line}\n         hint: {text.line(finding.hint, 400)}" if finding.hint and finding.level != "ok" else line
