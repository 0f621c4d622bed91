"""What a process that was launched under an account carries: its lease in variables, by which its hooks know whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_PREFIX = "AGENT_FLEET_"
_NAMES = {
    "task": "TASK_ID",
    "profile": "PROFILE",
    "provider": "PROVIDER",
    "pool": "POOL",
    "workspace": "WORKSPACE",
    "turn_end": "TURN_END",
}


class Badge(NamedTuple):
    """Under which lease a process works, and the file by which its caller learns that a turn has ended."""

    task: str
    profile: str
    provider: str
    pool: str
    workspace: str
    turn_end: str

    def variables(self, state_dir: str) -> dict[str, str]:
        """The variables that say so. `state_dir` goes with them: where leases lie may have been said by a variable alone."""
        told = {_PREFIX + name: str(value) for name, value in zip(_NAMES.values(), self, strict=True)}
        return {**told, f"{_PREFIX}STATE_DIR": state_dir}


def worn(environ: Mapping[str, str]) -> Badge | None:
    """The badge of a process with these variables; None unless it has all of one."""
    found = [environ.get(_PREFIX + name, "") for name in _NAMES.values()]
    return Badge(*found) if all(found) else None
