"""`fleet profile cooldown` and `cooldown-clear`."""

from __future__ import annotations

import click

from agent_fleet.accounts import audit, cooldowns, unfinished
from agent_fleet.accounts.cooldowns import LONGEST, Cooldowns
from agent_fleet.accounts.registrar import STATE_LOCK
from agent_fleet.commands import Shared, command
from agent_fleet.commands.desk import Desk
from agent_fleet.text import duration


@command("cooldown", help="Close a profile for a while: it takes no new work, and what runs on it goes on.")
@click.argument("label", metavar="ID")
@click.option("--seconds", type=click.IntRange(1, LONGEST), required=True, help="How long.")
@click.option("--reason", required=True, help="Why, in one line; it is shown wherever the profile is missed.")
@click.option("--model", default="", metavar="NAME", help="Only work for this model waits, and work that names none.")
def cooldown(shared: Shared, label: str, seconds: int, reason: str, model: str) -> None:
    desk = Desk(shared)
    unfinished.check(desk.vault, "cooldown", desk.registry.profile(label).provider)
    with desk.vault.lock(STATE_LOCK, "a cooldown"):
        made = Cooldowns(desk.vault).begin(label, reason, seconds, scope=model)
        audit.note(desk.vault, "cooldown-begun", profile=label, reason=reason, expires_unix=made.expires)
    shared.emit(cooldowns.record(made), lambda: f"{label} is closed{made.what} for {duration(seconds)}: {reason}")


@command("cooldown-clear", help="Open a profile again before its time.")
@click.argument("label", metavar="ID")
def clear(shared: Shared, label: str) -> None:
    desk = Desk(shared)
    desk.registry.profile(label)
    with desk.vault.lock(STATE_LOCK, "a cooldown"):
        cleared = Cooldowns(desk.vault).clear(label)
        if cleared:
            audit.note(desk.vault, "cooldown-cleared", profile=label)
    words = f"{label} is open again" if cleared else f"{label} was not closed"
    shared.emit({"profile": label, "cooldown_cleared": cleared}, lambda: words)
