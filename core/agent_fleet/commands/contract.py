"""`fleet contract`: what other programs may rely on when they ask for accounts."""

from __future__ import annotations

from agent_fleet import __version__
from agent_fleet.commands import Shared, command

VERSION = 2
SELECTION = (
    "profile",
    "provider",
    "pool",
    "workspace",
    "decision_reason",
    "quota_fresh",
    "headroom_percent",
    "active_lease_count",
    "degraded",
)
_TASK = "--task TASK --workspace DIR"
_POOL = "--pool NAME [--provider NAME] [--profile ID]"
COMMANDS = {
    "pool_summary": "pool status --pool NAME [--provider NAME]",
    "dry_run": f"choose {_TASK} {_POOL} --dry-run",
    "atomic_choose": f"lease choose {_TASK} {_POOL}",
    "explicit_acquire": f"lease acquire --profile ID {_TASK} [--pool NAME]",
    "recover": f"lease recover {_TASK}",
    "show": "lease show --task TASK",
    "release": "lease release --task TASK [--force]",
    "exec": f"exec {_TASK} --turn-end FILE {_POOL} -- ARGV...",
    "resume_task": f"resume {_TASK} --turn-end FILE -- ARGV...",
    "resume_explicit": f"resume {_TASK} --turn-end FILE --profile ID --session ID --pool NAME -- ARGV...",
    "session_status": "session status --task TASK",
    "session_remove": "session remove --task TASK",
    "profile_enroll": "profile enroll ID",
    "profile_verify": "profile verify ID|--all [--allow-keychain-prompt]",
    "project_register": "project register PATH --provider NAME",
    "project_remove": "project remove PATH --provider NAME",
    "project_list": "project list [--provider NAME]",
}


@command("contract", help="Show what other programs may rely on when they ask for accounts.")
def command_line(shared: Shared) -> None:
    payload = {
        "contract_version": VERSION,
        "cli_version": __version__,
        "formats": ["toon", "json", "human"],
        "selection_fields": list(SELECTION),
        "commands": COMMANDS,
    }
    shared.emit(payload, lambda: "\n".join([f"contract {VERSION}", *(f"fleet {usage}" for usage in COMMANDS.values())]))
