"""`fleet profile`: the accounts of this machine under their labels."""

from __future__ import annotations

from agent_fleet.commands import group

command_line = group(
    "profile",
    help="Register, look at, open and close the accounts of this machine.",
    members={
        "list": ("profiles.listing", "listing", "List the profiles, without looking at their accounts."),
        "status": ("profiles.listing", "status", "Show how profiles stand, and why one takes no work."),
        "auth-status": ("profiles.listing", "logins", "Say what is known of their logins."),
        "add": ("profiles.membership", "add", "Register an account under an opaque label."),
        "remove": ("profiles.membership", "remove", "Forget a profile; its home stays."),
        "enable": ("profiles.membership", "enable", "Look at an account, and let it take work."),
        "disable": ("profiles.membership", "disable", "Let an account take no new work."),
        "policy": ("profiles.membership", "policy", "Make a profile a worker or a reserve."),
        "provision": ("profiles.provisioning", "provision", "Make homes ready, and pin the programs that run there."),
        "identity": ("profiles.identities", "identity", "Decide whom a home belongs to."),
        "verify": ("profiles.identities", "verify", "Look at accounts now, and say whether they could work."),
        "enroll": ("profiles.enrolling", "enroll", "Say whether a home holds its login, and else what to do."),
        "login": ("profiles.enrolling", "enroll", "The same as `enroll`."),
        "cooldown": ("profiles.cooling", "cooldown", "Close a profile for a while."),
        "cooldown-clear": ("profiles.cooling", "clear", "Open a profile again before its time."),
    },
)
