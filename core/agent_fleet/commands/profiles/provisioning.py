"""`fleet profile provision`: homes made ready."""

from __future__ import annotations

from typing import Any

import click

from agent_fleet.accounts import audit, unfinished
from agent_fleet.accounts.registrar import STATE_LOCK
from agent_fleet.commands import Shared, command
from agent_fleet.commands.desk import Desk
from agent_fleet.errors import FleetError


@command(
    "provision", help="Make homes ready: private, with fleet's own keys in the provider's files and its program pinned."
)
@click.argument("label", metavar="ID", required=False)
@click.option("--all", "everything", is_flag=True, help="All workers.")
def provision(shared: Shared, label: str | None, everything: bool) -> None:
    """Nothing else in a home is changed, so it may be done again at any time; logins are not touched."""
    desk = Desk(shared)
    asked = [profile for profile in desk.asked(label, everything) if profile.is_worker or label]
    for provider in {profile.provider for profile in asked}:
        unfinished.check(desk.vault, "provision", provider)
    if any(not profile.is_worker for profile in asked):
        raise FleetError("profile_state", f"{label} is a reserve, which fleet never touches", hint="name a worker")
    found: list[dict[str, Any]] = []
    for profile in asked:
        # the program is read whole, which takes a second: only who provisions the same home waits for that
        with desk.vault.lock(f"home-{profile.id}", "provision"):
            made, changed = desk.port.provision(profile)
        with desk.vault.lock(STATE_LOCK, "provision"):
            desk.port.homes.write(made)
            audit.note(desk.vault, "profile-provisioned", profile=profile.id, provider=profile.provider)
        found.append(
            {
                "profile": profile.id,
                "provider": profile.provider,
                "home": profile.home,
                "provisioned": True,
                "changed": list(changed),
                "shared_entries": list(desk.registry.providers[profile.provider].shared_entries),
                "provider_binary": made.pin.as_json(),
            }
        )
    shared.emit({"profiles": found}, lambda: "\n".join(map(_line, found)))


def _line(found: dict[str, Any]) -> str:
    what = ", ".join(found["changed"]) or "nothing had to be changed"
    return f"{found['profile']} is ready in {found['home']} ({what}), with {found['provider_binary']['path']}"
