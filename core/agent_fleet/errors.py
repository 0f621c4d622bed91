"""Typed errors: one sentence for a person, a stable code for a program, and the exit status.

Everything that a user can cause is a `FleetError`; any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

OK = 0
FAULT = 1
REFUSED = 2
NOTHING = 3
NOT_FOUND = 4
BUSY = 5

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
"""What a call is refused with where this process or this machine has too little of something: it passes when others end."""

CODES: dict[str, tuple[int, str]] = {
    "io_error": (FAULT, "the operating system refused a read or a write"),
    "disk_full": (FAULT, "no space is left for the state directory; nothing was changed"),
    "read_only": (FAULT, "the state directory is on a read-only file system"),
    "permission": (FAULT, "this user may not read or write the state directory"),
    "corrupt": (FAULT, "state or journal disagree, or a file could not be read"),
    "plugin_broken": (FAULT, "a plugin could not be loaded, or raised"),
    "run_failed": (FAULT, "a run ended with tasks that failed"),
    "unhealthy": (FAULT, "a check of `fleet doctor` found a fault"),
    "still_alive": (FAULT, "a process could not be proved to have ended"),
    "usage": (REFUSED, "the command line cannot be understood"),
    "bad_input": (REFUSED, "a task, a batch line or an option value is not acceptable"),
    "bad_config": (REFUSED, "a configuration file or variable cannot be used"),
    "format_newer": (REFUSED, "the queue was written by a newer version of fleet"),
    "lease_lost": (REFUSED, "the task was given to someone else, or returned to the queue"),
    "not_active": (REFUSED, "the task is held by nobody"),
    "not_holder": (REFUSED, "somebody else holds the task and no generation was named"),
    "wrong_state": (REFUSED, "the task is not in a state that allows this"),
    "unknown_plugin": (REFUSED, "no plugin of that name is installed"),
    "unusable": (REFUSED, "a lane, a provider or an optional part cannot be used on this machine"),
    "refused": (REFUSED, "a rule of this project or of fleet forbids it"),
    "registry_missing": (REFUSED, "there is no registry of accounts"),
    "registry_unsafe": (REFUSED, "others may write the registry of accounts, or read what must be private"),
    "profile_state": (REFUSED, "the profile is enabled, leased or of a policy for which this cannot be done"),
    "identity_conflict": (REFUSED, "an account is not who it must be, or stands under two labels"),
    "project_refused": (REFUSED, "accounts may not be used in that directory"),
    "unroutable": (
        REFUSED,
        "no account can take the task until something is changed; every one is listed with its reason",
    ),
    "lease_conflict": (REFUSED, "the task holds a lease on other terms"),
    "lease_live": (REFUSED, "the process that holds the lease lives"),
    "session_conflict": (REFUSED, "the task's conversation belongs to another account, directory or session"),
    "pending_transaction": (REFUSED, "a login of another program was never finished"),
    "nothing_to_claim": (NOTHING, "no task can be claimed now"),
    "not_found": (NOT_FOUND, "no such task, run, plugin or file"),
    "unknown_profile": (NOT_FOUND, "no profile of that label is registered"),
    "lease_missing": (NOT_FOUND, "the task has no lease"),
    "session_missing": (NOT_FOUND, "no conversation of the task is on record"),
    "no_account": (BUSY, "no account can take the task now, but waiting may help; every one is listed with its reason"),
    "busy": (BUSY, "somebody else holds what is needed; try again"),
    "unavailable": (BUSY, "something that is needed does not answer now; try again"),
}


class FleetError(Exception):
    """What went wrong, in one sentence without a full stop; `hint` says what to do next, `facts` tells programs more."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        details: tuple[str, ...] = (),
        facts: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = CODES[code][0]
        self.message = message
        self.hint = hint
        self.details = details
        self.facts = dict(facts or {})

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


def from_os_error(error: OSError, doing: str) -> FleetError:
    """Turn a failed system call into a sentence that names what was being done and what to do next."""
    where = f" ({error.filename})" if error.filename else ""
    what = f"{doing}: {error.strerror or error}{where}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FleetError("disk_full", what, hint="free some space, then run the same command again")
    if error.errno == errno.EROFS:
        return FleetError("read_only", what, hint="make that file system writable, or keep these files on another one")
    if error.errno in (errno.EACCES, errno.EPERM):
        return FleetError("permission", what, hint="give this user access to the directory, or run as its owner")
    if error.errno in SHORTAGES:
        return FleetError(
            "io_error", what, hint="allow more open files (`ulimit -n`), or let fewer agents work at once"
        )
    return FleetError("io_error", what, hint="look at the file system, then run the same command again")
