"""What another program left unfinished: while a login of it is neither done nor taken back, nothing here touches accounts."""

from __future__ import annotations

from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError

_WHERE = "transactions/credential-recovery"


def logins(vault: Vault) -> list[str]:
    """The logins of an older agent-fleet that were begun here and never ended, as `provider:profile`."""
    found = []
    for stem in vault.names(_WHERE):
        try:
            entry = vault.read(_WHERE, f"{stem}.json") or {}
        except BadFileError:
            entry = {}
        provider, profile = entry.get("provider"), entry.get("profile")
        known = isinstance(provider, str) and isinstance(profile, str)
        found.append(f"{provider}:{profile}" if known else stem)
    return found


def check(vault: Vault, doing: str) -> None:
    """Raises FleetError (`pending_transaction`) while there is one: which credentials are the right ones is not known."""
    pending = logins(vault)
    if pending:
        raise FleetError(
            "pending_transaction",
            f"pending credential recovery blocks {doing}: {', '.join(pending)}",
            hint="finish or take back that login with the agent-fleet 0.2.0 that began it; its journal lies in "
            f"{vault.path(_WHERE)}",
            details=tuple(pending),
        )
