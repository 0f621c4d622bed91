"""Outcomes that follow from how a process ended, whatever it printed."""

from __future__ import annotations

from agent_fleet.api import Exit, Outcome
from agent_fleet_providers._output import signal_name, signal_of

_TIMEOUTS = {
    "first_byte": "printed nothing in the time it has to print something",
    "idle": "was silent for longer than it may be",
    "timeout": "took longer than it may",
}
_OUTGREW = {
    "memory": "used more memory than it may",
    "processes": "started more processes than it may",
    "log_limit": "printed more than it may",
}
_ENDED = {
    "stopped": "was stopped before it ended",
    "shed": "was stopped to give memory back",
    "lost": "lost its lease and was not started",
}


def by_cause(ended: Exit) -> Outcome | None:
    """The outcome if the fleet ended the attempt, None if the process ended by itself.

    A stopped attempt is `unknown`: nobody can tell what it would have come to. Who settles it goes by the cause.
    """
    note = f": {ended.note}" if ended.note else ""
    if ended.cause in _TIMEOUTS:
        return Outcome(kind="timeout", reason=f"{_TIMEOUTS[ended.cause]} ({ended.cause}, {ended.seconds:.0f} s){note}")
    if ended.cause in _OUTGREW:
        return Outcome(kind="failed", reason=f"{_OUTGREW[ended.cause]} ({ended.cause}){note}")
    if ended.cause in _ENDED:
        return Outcome(kind="unknown", reason=f"{_ENDED[ended.cause]}{note}")
    if ended.cause == "unstarted":
        return Outcome(kind="crashed", reason=f"could not be started{note}")
    return None


def by_signal(ended: Exit, *, under_shell: bool = False) -> Outcome | None:
    """`crashed` if a signal ended the process. Under a shell a status above 128 may be the program's own."""
    number = ended.signal if under_shell else signal_of(ended)
    return None if number is None else Outcome(kind="crashed", reason=f"ended by {signal_name(number)}")


def status(ended: Exit) -> str:
    """How the process exited, in words: `exited 3`."""
    return f"exited {ended.code}" if ended.code is not None else "exited with an unknown status"
