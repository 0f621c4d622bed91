"""What another program left unfinished: the accounts of a provider with a login that was begun are left alone."""

from __future__ import annotations

from agent_fleet.accounts.vault import Vault
from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError

_WHERE = "transactions/credential-recovery"


HINT = "finish or take back that login with the agent-fleet 0.2.0 that began it"
ANY = ""  # the provider of a journal that cannot be read: it may be any


def logins(vault: Vault) -> dict[str, list[str]]:
    """The logins of an older agent-fleet that were begun here and never ended, by provider, each as `provider:profile`."""
    found: dict[str, list[str]] = {}
    for stem in vault.names(_WHERE):
        try:
            entry = vault.read(_WHERE, f"{stem}.json") or {}
        except BadFileError:
            entry = {}
        provider, profile = entry.get("provider"), entry.get("profile")
        known = isinstance(provider, str) and isinstance(profile, str) and provider
        found.setdefault(str(provider) if known else ANY, []).append(f"{provider}:{profile}" if known else stem)
    return found


def check(vault: Vault, doing: str, provider: str | None = None) -> None:
    """Raises FleetError (`pending_transaction`) while there is one: which credentials are the right ones is not known.

    One of another provider than the named one is no hindrance.
    """
    found = logins(vault)
    pending = [each for name, many in found.items() if provider is None or name in (ANY, provider) for each in many]
    if pending:
        raise FleetError(
            "pending_transaction",
            f"pending credential recovery blocks {doing}: {', '.join(pending)}",
            hint=f"{HINT}; its journal lies in {vault.path(_WHERE)}",
            details=tuple(pending),
        )
