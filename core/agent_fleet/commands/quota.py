"""`fleet quota`: what accounts have left."""

from __future__ import annotations

import time
from typing import Any

import click

from agent_fleet.accounts import proofs
from agent_fleet.accounts.proofs import Proofs
from agent_fleet.accounts.values import Profile
from agent_fleet.commands import Shared, command, group
from agent_fleet.commands.desk import Desk, keychain_option, percent
from agent_fleet.text import duration

command_line = group(
    "quota",
    help="Look at what accounts have left.",
    members={
        "show": ("quota", "show", "Show what was last seen, without looking."),
        "refresh": ("quota", "refresh", "Look at accounts now."),
    },
)


@command("show", help="Show what was last seen of accounts and how long ago, without looking.")
@click.argument("label", metavar="ID", required=False)
@click.option("--all", "everything", is_flag=True, help="All profiles.")
def show(shared: Shared, label: str | None, everything: bool) -> None:
    desk = Desk(shared)
    found = [_view(desk, profile) for profile in desk.asked(label, everything)]
    shared.emit({"quota": found}, lambda: "\n".join(map(_line, found)))


@command("refresh", help="Look at accounts now. One that cannot be read costs itself alone.")
@click.argument("label", metavar="ID", required=False)
@click.option("--all", "everything", is_flag=True, help="All profiles.")
@keychain_option
def refresh(shared: Shared, label: str | None, everything: bool, may_ask: bool) -> None:
    desk = Desk(shared, may_ask=may_ask)
    asked = desk.asked(label, everything)
    ready = desk.router.situation().readiness
    desk.prober.prove([p for p in asked if p.is_worker and p.id in ready and ready[p.id].provisioned], force=True)
    found = [_view(desk, profile) for profile in asked]
    shared.emit({"quota": found}, lambda: "\n".join(map(_line, found)))


def _view(desk: Desk, profile: Profile) -> dict[str, Any]:
    if not profile.is_worker:
        return {
            "profile": profile.id,
            "provider": profile.provider,
            "status": "external-reserve",
            "safety_policy": profile.safety_policy,
        }
    known = Proofs(desk.vault).of(profile.id)
    return proofs.view(known, profile.id, profile.provider, desk.registry.rules, time.time())


def _line(found: dict[str, Any]) -> str:
    if found["status"] == "external-reserve":
        return f"{found['profile']}: a reserve, never looked at"
    age = "never looked at" if found["age_seconds"] is None else f"seen {duration(found['age_seconds'])} ago"
    windows = ", ".join(_window(window) for window in found["windows"])
    reason = f" ({found['reason']})" if found["reason"] not in (None, "", found["status"]) else ""
    left = f"{percent(found['headroom_percent'])} left" if found["status"] != "none" else "no windows"
    return f"{found['profile']}: {found['status']}{reason}, {left}, {age}{': ' + windows if windows else ''}"


def _window(window: dict[str, Any]) -> str:
    resets = f", full again at {window['resets_at']}" if window["resets_at"] else ""
    return f"{window['id']} {percent(window['remaining_percent'])}{resets}"
